#include "transformer/ops/copy.h"

#include "backend/kernels.h"
#include "transformer/ops/check.h"

namespace transformer {

void copy_into(Context& ctx, const Tensor& from, Tensor& to) {
  check_operand(ctx, "copy", "from", from);
  check_operand(ctx, "copy", "to", to);
  if (from.numel() != to.numel() || (from.cols() != to.cols() && !(from.is_contiguous() && to.is_contiguous())))
    fail("copy", "{} does not fit into {}", from.shape(), to.shape());
  Tensor target = to.shape() == from.shape() ? to : to.view(from.shape());
  kernels(ctx).copy(ctx, from, target);
}

}  // namespace transformer
