#include "transformer/ops/rope.h"

#include <cmath>
#include <vector>

#include "backend/kernels.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/check.h"

namespace transformer {
namespace {

Kernels::RopeArgs checked_rope(Context& ctx, const Tensor& x, const Tensor& position, const RopeTable& table, const RopeOptions& o) {
  check_float(ctx, "rope", "x", x);
  check_operand(ctx, "rope", "position", position);
  check_operand(ctx, "rope", "cos", table.cos);
  check_operand(ctx, "rope", "sin", table.sin);
  const std::int64_t rotary = o.rotary_dim == 0 ? o.head_dim : o.rotary_dim;
  if (o.heads < 0 || o.head_dim < 1) fail("rope", "heads {} and head_dim {} must be positive", o.heads, o.head_dim);
  if (rotary < 0 || rotary > o.head_dim || rotary % 2 != 0)
    fail("rope", "rotary_dim {} must be even and at most head_dim {}", rotary, o.head_dim);
  if (x.rank() == 0 || x.cols() < o.heads * o.head_dim)
    fail("rope", "x {} is too narrow for {} heads of {}: expected [tokens, {} or more]", x.shape(), o.heads, o.head_dim,
         o.heads * o.head_dim);
  if (position.dtype() != DType::int32 || position.shape() != Shape{x.rows()})
    fail("rope", "position {} {} does not fit x {}: expected int32 [{}]", position.shape(), position.dtype(), x.shape(), x.rows());
  for (const Tensor& t : {table.cos, table.sin})
    if (t.dtype() != DType::float32 || t.rank() != 2 || t.dim(1) != rotary / 2 || t.shape() != table.cos.shape())
      fail("rope", "tables cos {} {} and sin {} {} do not fit rotary_dim {}: expected float32 [positions, {}]", table.cos.shape(),
           table.cos.dtype(), table.sin.shape(), table.sin.dtype(), rotary, rotary / 2);
  return {.heads = o.heads,
          .head_dim = o.head_dim,
          .rotary_dim = rotary,
          .pairs = o.pairs,
          .cos = table.cos.detach(),
          .sin = table.sin.detach(),
          .position = position.detach()};
}

}  // namespace

RopeTable rope_table(Context& ctx, std::int64_t positions, std::int64_t rotary_dim, float base) {
  if (positions < 0 || rotary_dim < 0 || rotary_dim % 2 != 0 || !(base > 0.0F))
    fail("rope_table", "positions {} must be 0 or more, rotary_dim {} even, base {} positive", positions, rotary_dim, base);
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < rotary_dim; i += 2)
    frequencies.push_back(std::pow(static_cast<double>(base), -static_cast<double>(i) / static_cast<double>(rotary_dim)));
  return rope_table(ctx, positions, frequencies);
}

RopeTable rope_table(Context& ctx, std::int64_t positions, std::span<const double> frequencies, double scale) {
  if (positions < 0) fail("rope_table", "positions {} must be 0 or more", positions);
  const auto half = static_cast<std::int64_t>(frequencies.size());
  std::vector<float> cos, sin;
  cos.reserve(static_cast<std::size_t>(positions * half));
  sin.reserve(cos.capacity());
  for (std::int64_t p = 0; p < positions; ++p)
    for (double frequency : frequencies) {  // float64: the angles grow with the position, their errors too
      const double angle = static_cast<double>(p) * frequency;
      cos.push_back(static_cast<float>(scale * std::cos(angle)));
      sin.push_back(static_cast<float>(scale * std::sin(angle)));
    }
  return {Tensor::from<float>(ctx, {positions, half}, cos), Tensor::from<float>(ctx, {positions, half}, sin)};
}

Tensor rope(Context& ctx, const Tensor& x, const Tensor& position, const RopeTable& table, const RopeOptions& options) {
  const Kernels::RopeArgs args = checked_rope(ctx, x, position, table, options);
  Tensor y = Tensor::like(ctx, x);
  kernels(ctx).rope(ctx, x, args, y);
  return record(ctx, y, {x}, [args](Context& ctx, const Tensor& dy, Slots& in) {
    Kernels::RopeArgs back = args;
    back.inverse = true;
    Tensor dx = Tensor::like(ctx, dy);
    kernels(ctx).rope(ctx, dy, back, dx);
    in[0].add(ctx, dx);
  });
}

}  // namespace transformer
