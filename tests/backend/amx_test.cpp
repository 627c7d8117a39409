// Products on tile registers, imitated where the processor has none, beside sums in float64.
#include "backend/cpu/amx.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "backend/kernels.h"
#include "transformer/ops/random.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

class Amx : public testing::Test {
 protected:
  void SetUp() override {
    if (amx::available()) return;
    if (!amx::can_imitate()) GTEST_SKIP() << "without AVX-512 operands cannot be packed";
    amx::imitate(imitated_ = true);
  }
  void TearDown() override {
    if (imitated_) amx::imitate(false);
  }

 private:
  bool imitated_ = false;
};

std::vector<float> numbers(Context& ctx, const Tensor& t) { return cast(ctx, t, DType::float32).to_vector<float>(); }

// Every layout, sizes below, at and beyond whole tiles, sums longer than what is packed at a time; c has room beside it.
TEST_F(Amx, MultipliesWhateverLiesAnyway) {
  Context ctx({.threads = 3, .seed = 5});
  const NoGradients no_gradients(ctx);
  struct Size {
    std::int64_t m, n, k;
  };
  for (const Size& s : {Size{9, 5, 3}, {32, 32, 32}, {33, 31, 65}, {70, 130, 100}, {40, 50, 1100}, {17, 300, 31}})
    for (const bool turn_a : {false, true})
      for (const bool turn_b : {false, true})
        for (const auto& [in, out] :
             {std::pair{DType::bfloat16, DType::float32}, {DType::bfloat16, DType::bfloat16}, {DType::float32, DType::float32}}) {
          SCOPED_TRACE(fmt::format("[{}, {}] · [{}, {}], a {}, b {}, {} to {}", s.m, s.k, s.k, s.n, turn_a, turn_b, in, out));
          const Shape shape_a = turn_a ? Shape{s.k, s.m} : Shape{s.m, s.k}, shape_b = turn_b ? Shape{s.n, s.k} : Shape{s.k, s.n};
          const Tensor a = cast(ctx, random_uniform(ctx, shape_a, -1.0F), in);
          const Tensor b = cast(ctx, random_uniform(ctx, shape_b, -1.0F), in);
          Tensor wide = Tensor::full(ctx, {s.m, s.n + 7}, 0.5F, out), c = wide.column_block(0, s.n);
          kernels(ctx).matmul(ctx, a, b, c, {.transpose_a = turn_a, .transpose_b = turn_b, .accumulate = true, .alpha = 0.5F});
          const std::vector<float> x = numbers(ctx, a), y = numbers(ctx, b), z = numbers(ctx, wide);
          for (std::int64_t i = 0; i < s.m; ++i) {
            for (std::int64_t j = 0; j < s.n + 7; ++j) {
              double sum = 0.5, size = 0.5;
              for (std::int64_t k = 0; j < s.n && k < s.k; ++k) {
                const double term = 0.5 * static_cast<double>(x[static_cast<std::size_t>(turn_a ? k * s.m + i : i * s.k + k)]) *
                    static_cast<double>(y[static_cast<std::size_t>(turn_b ? j * s.k + k : k * s.n + j)]);
                sum += term, size += std::abs(term);
              }
              const double tolerance = size * 1e-6 + (out == DType::bfloat16 ? std::abs(sum) / 256 : 0.0);
              ASSERT_NEAR(z[static_cast<std::size_t>(i * (s.n + 7) + j)], sum, tolerance) << i << ", " << j;
            }
          }
        }
}

TEST_F(Amx, BiasAndActivationFollow) {
  Context ctx({.threads = 3, .seed = 6});
  const NoGradients no_gradients(ctx);
  for (const auto& [type, bias_type] :
       {std::pair{DType::bfloat16, DType::float32}, {DType::bfloat16, DType::bfloat16}, {DType::float32, DType::float32}}) {
    const Tensor a = cast(ctx, random_uniform(ctx, {50, 70}, -1.0F), type), w = cast(ctx, random_uniform(ctx, {45, 70}, -1.0F), type);
    const Tensor bias = cast(ctx, random_uniform(ctx, {45}, -1.0F), bias_type);
    Tensor plain = Tensor::empty(ctx, {50, 45}), active = Tensor::empty(ctx, {50, 45});
    kernels(ctx).matmul(ctx, a, w, plain, {.transpose_b = true});
    kernels(ctx).matmul(ctx, a, w, active, {.transpose_b = true, .bias = bias, .activation = Activation::relu});
    const std::vector<float> x = plain.to_vector<float>(), b = numbers(ctx, bias), y = active.to_vector<float>();
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_FLOAT_EQ(y[i], std::max(0.0F, x[i] + b[i % 45]));
  }
}

}  // namespace
}  // namespace transformer
