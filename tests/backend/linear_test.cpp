// The CPU's own linear layer beside the one that is composed of other kernels, and products whose sums are cut.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/kernels.h"
#include "transformer/ops/random.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

std::vector<float> floats(Context& ctx, const Tensor& t) {
  Tensor y = Tensor::empty(ctx, t.shape());
  kernels(ctx).copy(ctx, t, y);
  return y.to_vector<float>();
}

// ‖a - b‖ / ‖b‖
double distance(Context& ctx, const Tensor& a, const Tensor& b) {
  const std::vector<float> u = floats(ctx, a), v = floats(ctx, b);
  double difference = 0.0, size = 0.0;
  for (std::size_t i = 0; i < u.size(); ++i) difference += std::pow(u[i] - v[i], 2), size += std::pow(v[i], 2);
  EXPECT_TRUE(std::isfinite(difference));
  return std::sqrt(difference / size);
}

Tensor made(Context& ctx, const Shape& shape, DType dtype) { return cast(ctx, random_uniform(ctx, shape, -1.0F), dtype); }

struct LinearCase {
  Activation activation;
  float dropout;
  DType dtype;
  int threads;
};

class CpuLinear : public testing::TestWithParam<LinearCase> {};

TEST_P(CpuLinear, IsWhatItsPartsCompute) {
  const auto [activation, p, dtype, threads] = GetParam();
  Context ctx({.device = Device::cpu(), .threads = threads, .seed = 3});
  const NoGradients no_gradients(ctx);
  Kernels& cpu = kernels(ctx);
  for (const std::int64_t rows : {9, 70, 300}) {
    constexpr std::int64_t in = 40, out = 101;  // neither a whole vector nor a whole tile
    const Tensor x = made(ctx, {rows, in}, dtype), w = made(ctx, {out, in}, dtype), dy = made(ctx, {rows, out}, dtype);
    const Kernels::LinearArgs args{
        .bias = made(ctx, {out}, DType::float32), .activation = activation, .dropout = {.p = p, .stream = ctx.random().next()}};
    struct Result {
      Tensor y, dx, dw, db;
    } results[2];
    for (const bool composed : {false, true}) {
      Tensor y = Tensor::empty(ctx, {rows, out}, dtype), kept;
      if (activation != Activation::none) kept = activation == Activation::relu ? y : Tensor::like(ctx, y);
      if (composed) cpu.Kernels::linear(ctx, x, w, args, y, kept);
      else cpu.linear(ctx, x, w, args, y, kept);
      Kernels::LinearGradients g{.dx = Tensor::full(ctx, {rows, in}, 0.5F, dtype),
                                 .dweight = Tensor::full(ctx, {out, in}, 0.25F),
                                 .dbias = Tensor::full(ctx, {out}, 2.0F),
                                 .accumulate_dx = true,
                                 .accumulate_dbias = true};
      if (composed) cpu.Kernels::linear_backward(ctx, x, w, args, kept, dy, g);
      else cpu.linear_backward(ctx, x, w, args, kept, dy, g);
      results[composed] = {y, g.dx, g.dweight, g.dbias};
    }
    const double tolerance = dtype == DType::float32 ? 1e-6 : 4e-3;  // bfloat16: rounded once less
    EXPECT_LE(distance(ctx, results[0].y, results[1].y), tolerance) << rows;
    EXPECT_LE(distance(ctx, results[0].dx, results[1].dx), tolerance) << rows;
    EXPECT_LE(distance(ctx, results[0].dw, results[1].dw), tolerance) << rows;
    EXPECT_LE(distance(ctx, results[0].db, results[1].db), tolerance) << rows;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CpuLinear,
    testing::Values(LinearCase{Activation::none, 0.0F, DType::float32, 3}, LinearCase{Activation::none, 0.3F, DType::float32, 1},
                    LinearCase{Activation::relu, 0.3F, DType::float32, 4}, LinearCase{Activation::gelu, 0.3F, DType::float32, 2},
                    LinearCase{Activation::silu, 0.0F, DType::float32, 16}, LinearCase{Activation::relu, 0.3F, DType::bfloat16, 4},
                    LinearCase{Activation::gelu_tanh, 0.1F, DType::bfloat16, 16}));

TEST(CpuMatmul, LongSumsAreCutAndAddedInOrder) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    Context one({.device = Device::cpu(), .threads = 1, .seed = 5}), many({.device = Device::cpu(), .threads = 4, .seed = 5});
    const Tensor a = made(one, {24, 9001}, dtype), b = made(one, {9001, 20}, dtype);
    for (const bool accumulate : {false, true}) {
      Tensor whole = Tensor::full(one, {24, 20}, 1.0F, dtype), cut = Tensor::full(many, {24, 20}, 1.0F, dtype),
             again = Tensor::full(many, {24, 20}, 1.0F, dtype);
      kernels(one).matmul(one, a, b, whole, {.accumulate = accumulate, .alpha = 0.5F});
      kernels(many).matmul(many, a, b, cut, {.accumulate = accumulate, .alpha = 0.5F});
      kernels(many).matmul(many, a, b, again, {.accumulate = accumulate, .alpha = 0.5F});
      EXPECT_LE(distance(one, cut, whole), dtype == DType::float32 ? 1e-5 : 5e-3);
      EXPECT_EQ(floats(one, cut), floats(one, again));
    }
  }
}

}  // namespace
}  // namespace transformer
