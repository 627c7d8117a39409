// Products of which each row is computed in the same way however many there are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/op_check.h"
#include "transformer/core/context.h"
#include "transformer/core/tensor.h"
#include "transformer/ops/linear.h"
#include "transformer/ops/shape.h"

namespace transformer::test {
namespace {

Tensor made_numbers(Context& ctx, const Shape& shape, std::uint32_t seed, DType type) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    seed = seed * 1664525U + 1013904223U;
    values.push_back(static_cast<float>(seed >> 8U) / static_cast<float>(1U << 23U) - 1.0F);
  }
  return cast(ctx, Tensor::from<float>(ctx, shape, values), type);
}

TEST(RowInvariant, ARowHasTheSameBitsInEveryBatch) {
  NOT_ON_A_GPU("rows with the same bits in every batch");
  for (const DType type : {DType::float32, DType::bfloat16}) {
    Context ctx({.precision = type});
    ctx.set_row_invariant(true);
    const NoGradients unrecorded(ctx);
    for (const auto& [n, k] : {std::pair{1, 1}, {7, 5}, {16, 64}, {37, 129}, {128, 200}, {40, 1100}}) {
      const Tensor weight = made_numbers(ctx, {n, k}, 1, type), bias = made_numbers(ctx, {n}, 2, type);
      const Tensor all = made_numbers(ctx, {70, k}, 3, type);
      std::vector<std::vector<float>> alone;
      for (std::int64_t r = 0; r < all.rows(); ++r)
        alone.push_back(cast(ctx, linear(ctx, all.row_block(r, 1), weight, bias, Activation::gelu), DType::float32).to_vector<float>());
      for (const std::int64_t m : {2, 3, 4, 8, 9, 24, 25, 64, 70}) {
        const auto together =
            cast(ctx, linear(ctx, all.row_block(0, m), weight, bias, Activation::gelu), DType::float32).to_vector<float>();
        for (std::int64_t r = 0; r < m; ++r)
          EXPECT_EQ(std::vector<float>(together.begin() + r * n, together.begin() + (r + 1) * n), alone[static_cast<std::size_t>(r)])
              << fmt::format("{} {}", type, m) << " rows, row " << r << " of [" << n << ", " << k << "]";
      }
    }
  }
}

}  // namespace
}  // namespace transformer::test
