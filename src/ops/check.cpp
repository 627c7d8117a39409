#include "transformer/ops/check.h"

namespace transformer {

void check_operand(Context& ctx, std::string_view op, std::string_view name, const Tensor& t) {
  if (!t.defined()) fail(op, "{} is undefined", name);
  if (t.device() != ctx.device())
    fail(op, "{} {} is on {}, but the context runs on {}; move it there first", name, t.shape(), t.device(), ctx.device());
}

void check_float(Context& ctx, std::string_view op, std::string_view name, const Tensor& t) {
  check_operand(ctx, op, name, t);
  if (!is_float(t.dtype())) fail(op, "{} {} is {}, expected a floating-point tensor", name, t.shape(), t.dtype());
}

void check_index(Context& ctx, std::string_view op, std::string_view name, const Tensor& t) {
  check_operand(ctx, op, name, t);
  if (t.dtype() != DType::int32 && t.dtype() != DType::int64) fail(op, "{} {} is {}, expected int32 or int64", name, t.shape(), t.dtype());
}

}  // namespace transformer
