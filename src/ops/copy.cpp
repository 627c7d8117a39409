#include "transformer/ops/copy.h"

#include <utility>

#include "backend/kernels.h"
#include "transformer/ops/check.h"

namespace transformer {

void copy_into(Context& ctx, const Tensor& from, Tensor& to) {
  check_operand(ctx, "copy", "to", to);
  if (!from.defined()) fail("copy", "from is undefined");
  if (from.numel() != to.numel() || (from.cols() != to.cols() && !(from.is_contiguous() && to.is_contiguous())))
    fail("copy", "{} does not fit into {}", from.shape(), to.shape());
  Tensor target = to.shape() == from.shape() ? to : to.view(from.shape());
  kernels(ctx).copy(ctx, from.to(ctx), target);
}

void copy_rows(Context& ctx, const Tensor& from, std::span<const std::int64_t> from_rows, Tensor& to,
               std::span<const std::int64_t> to_rows) {
  check_operand(ctx, "copy_rows", "from", from);
  check_operand(ctx, "copy_rows", "to", to);
  if (from.dtype() != to.dtype() || from.cols() != to.cols())
    fail("copy_rows", "rows of {} {} do not fit into {} {}", from.shape(), from.dtype(), to.shape(), to.dtype());
  if (from_rows.size() != to_rows.size())
    fail("copy_rows", "{} rows are read and {} written: expected equal counts", from_rows.size(), to_rows.size());
  for (const auto& [rows, tensor] : {std::pair{from_rows, &from}, std::pair{to_rows, &std::as_const(to)}})
    for (std::int64_t row : rows)
      if (row < 0 || row >= tensor->rows()) fail("copy_rows", "row {} asked of {}", row, tensor->shape());
  kernels(ctx).copy_rows(ctx, from, from_rows, to, to_rows);
}

void put_rows(Context& ctx, const Tensor& from, const Tensor& places, Tensor& to) {
  check_operand(ctx, "put_rows", "from", from);
  check_operand(ctx, "put_rows", "places", places);
  check_operand(ctx, "put_rows", "to", to);
  if (from.dtype() != to.dtype() || from.cols() != to.cols() || places.dtype() != DType::int32 || places.numel() != from.rows())
    fail("put_rows", "rows of {} {} do not fit into {} {} at {} places {}", from.shape(), from.dtype(), to.shape(), to.dtype(),
         places.numel(), places.dtype());
  kernels(ctx).put_rows(ctx, from, places, to);
}

}  // namespace transformer
