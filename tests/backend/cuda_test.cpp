// What only a GPU can show. Everything else runs there too: TRANSFORMER_DEVICE=cuda.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/kernels.h"
#include "support/op_check.h"
#include "transformer/ops/attention.h"
#include "transformer/ops/cross_entropy.h"
#include "transformer/ops/dropout.h"
#include "transformer/ops/linear.h"
#include "transformer/ops/norm.h"
#include "transformer/ops/shape.h"

namespace transformer::test {
namespace {

class Cuda : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_devices() == 0) GTEST_SKIP() << "there is no GPU, or this build has no CUDA";
  }
};

struct Attended {
  Tensor out, gradient;
};

Attended attended(Context& ctx, const std::vector<float>& values, const Sequences& sequences, std::int64_t heads, std::int64_t d,
                  bool causal) {
  Tensor qkv = Tensor::from<float>(ctx, {sequences.total(), 3 * heads * d}, values);
  require_grad(qkv);
  const Tensor out = self_attention(ctx, qkv, {.queries = sequences, .heads = heads, .head_dim = d, .causal = causal});
  backward(ctx, out, out.detach());
  return {out.detach().to_host(), gradient(qkv).to_host()};
}

// The largest difference, relative to the largest value.
double difference(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = a.to_vector<float>(), y = b.to_vector<float>();
  double most = 0.0, largest = 1e-30;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) return INFINITY;
    most = std::max(most, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
    largest = std::max(largest, std::abs(static_cast<double>(y[i])));
  }
  return most / largest;
}

TEST_F(Cuda, AMillionTokensOfRaggedBatchesAsOnTheCpu) {
  Context gpu({.device = Device::cuda()}), cpu({.device = Device::cpu()});
  std::mt19937 random(11);
  constexpr std::int64_t heads = 2, d = 16;
  const std::array<std::int64_t, 12> odd{0, 1, 2, 3, 7, 17, 31, 63, 65, 127, 255, 513};
  std::int64_t tokens = 0;
  double forward = 0.0, back = 0.0;
  for (int batch = 0; tokens < 1'000'000; ++batch) {
    std::vector<std::int64_t> lengths;
    if (batch % 24 == 0) lengths = {4096, 0, 1};
    for (std::int64_t sum = 0; sum < 12'000; sum += lengths.back())
      lengths.push_back(random() % 3 == 0 ? odd[random() % odd.size()] : static_cast<std::int64_t>(random() % 200));
    const Sequences sequences(lengths);
    std::vector<float> values(static_cast<std::size_t>(sequences.total() * 3 * heads * d));
    for (float& v : values) v = static_cast<float>(random() % 2048) / 1024.0F - 1.0F;
    const bool causal = batch % 2 == 0;
    const Attended there = attended(gpu, values, sequences, heads, d, causal), here = attended(cpu, values, sequences, heads, d, causal);
    forward = std::max(forward, difference(there.out, here.out));
    back = std::max(back, difference(there.gradient, here.gradient));
    tokens += sequences.total();
  }
  RecordProperty("tokens", static_cast<int>(tokens));
  std::printf("%lld tokens, forward %.1e, gradients %.1e\n", static_cast<long long>(tokens), forward, back);
  EXPECT_LT(forward, 1e-4);
  EXPECT_LT(back, 1e-3);
}

// A kernel has several ways, by the size of its rows and their number: each of them, beside the CPU.
class CudaWays : public Cuda {
 protected:
  // Values and gradients of both, in float32 and bfloat16.
  void expect_the_cpus(const std::string& what, const std::vector<Input>& inputs,
                       const std::function<Tensor(Context&, const Tensors&)>& work) {
    for (const DType type : {DType::float32, DType::bfloat16}) {
      const std::vector<Tensor> there = made(Device::cuda(), inputs, type, work), here = made(Device::cpu(), inputs, type, work);
      for (std::size_t i = 0; i < here.size(); ++i)
        EXPECT_LT(difference(there[i], here[i]),
                  type == DType::bfloat16 ? 2e-2
                      : i == 0            ? 1e-4
                                          : 1e-3)
            << what << ", " << name_of(type) << (i == 0 ? ": value" : ": gradient of input " + std::to_string(i - 1));
    }
  }

 private:
  static std::vector<Tensor> made(Device device, const std::vector<Input>& inputs, DType type,
                                  const std::function<Tensor(Context&, const Tensors&)>& work) {
    Context ctx({.device = device, .seed = 5, .precision = type});
    ctx.set_training(true);
    Tensors in;
    for (const Input& input : inputs) {
      const DType own = input.master ? DType::float32 : type;
      in.push_back(detail::make_input(ctx, input, detail::rounded(detail::draw(input, in.size() + 1), own), own));
      if (input.ids.empty()) require_grad(in.back());
    }
    const Tensor y = work(ctx, in);
    backward(ctx, y, y.detach());
    std::vector<Tensor> all{cast(ctx, y.detach(), DType::float32).to_host()};
    for (std::size_t i = 0; i < in.size(); ++i)
      if (inputs[i].ids.empty()) all.push_back(cast(ctx, gradient(in[i]), DType::float32).to_host());
    return all;
  }
};

TEST_F(CudaWays, Norms) {
  for (const NormKind kind : {NormKind::layer_norm, NormKind::rms_norm})
    for (const std::int64_t cols : {64, 72, 768, 1024, 1536, 4096, 5120, 8192, 12288, 16384, 16392})
      for (const std::int64_t rows : {1, 3, 16, 17, 300}) {
        if (rows * cols > 400'000) continue;
        const Input x{.shape = {rows, cols}}, parameter{.shape = {cols}, .master = true};
        for (const float p : {0.0F, 0.3F})
          expect_the_cpus(fmt::format("norm of {} x {}, dropout {}", rows, cols, p), {x, x, parameter, parameter},
                          [&](Context& ctx, const Tensors& in) {
            const auto [sum, normed] = add_norm(ctx, in[0], in[1], {.kind = kind, .weight = in[2], .bias = in[3]}, p);
            return add_dropout(ctx, sum, normed, 0.0F);
          });
      }
}

TEST_F(CudaWays, CrossEntropy) {
  for (const std::int64_t vocabulary : {40, 1000, 1001, 4100, 8192, 8200, 20'001, 27'000, 50'257, 58'101})
    for (const float smoothing : {0.0F, 0.1F}) {
      std::vector<std::int64_t> ids;
      for (std::int64_t i = 0; i < 5; ++i) ids.push_back(i == 3 ? -100 : i * 7919 % vocabulary);
      expect_the_cpus(fmt::format("cross-entropy of {}", vocabulary),
                      {{.shape = {5, vocabulary}, .low = -6, .high = 6}, {.shape = {5}, .ids = ids}},
                      [&](Context& ctx, const Tensors& in) { return cross_entropy(ctx, in[0], in[1], {.label_smoothing = smoothing}); });
    }
}

TEST_F(CudaWays, FewQueries) {
  for (const std::int64_t d : {6, 16, 64, 128, 256})
    for (const std::int64_t heads : {1, 4})
      for (const std::int64_t queries : {1, 3, 8}) {
        // The gradient of an only key is 0, but for rounding; that of one of two is as large as any, which the others are compared with.
        const Sequences q(std::array<std::int64_t, 5>{queries, 1, 0, queries, 1});
        const Sequences k(std::array<std::int64_t, 5>{700, 1, 3, 256 + queries, 2});
        expect_the_cpus(fmt::format("{} queries, {} heads of {}", queries, heads, d),
                        {{.shape = {q.total(), heads * d}}, {.shape = {k.total(), d}}, {.shape = {k.total(), d}}},
                        [&](Context& ctx, const Tensors& in) {
          return attention(ctx, in[0], in[1], in[2],
                           {.queries = q, .keys = k, .heads = heads, .kv_heads = 1, .head_dim = d, .causal = true});
        });
      }
}

TEST_F(CudaWays, Activations) {
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu})
    for (const std::int64_t rows : {1, 8, 9, 200})
      for (const std::int64_t cols : {40, 192})
        for (const float p : {0.0F, 0.2F})
          expect_the_cpus(fmt::format("{} x {}, activation {}, dropout {}", rows, cols, static_cast<int>(activation), p),
                          {{.shape = {rows, 64}}, {.shape = {cols, 64}, .master = true}, {.shape = {cols}, .master = true}},
                          [&](Context& ctx, const Tensors& in) { return linear(ctx, in[0], in[1], in[2], activation, p); });
}

TEST_F(CudaWays, DropoutMasksAreTheCpusBitForBit) {
  for (const Shape& shape : {Shape{1, 7}, {3, 65}, {5, 64}, {200, 192}, {33, 1000}}) {
    std::vector<float> kept[2];
    for (const int run : {0, 1}) {
      Context ctx({.device = run == 0 ? Device::cpu() : Device::cuda(), .seed = 11});
      ctx.set_training(true);
      const Tensor ones = tensor(ctx, shape, std::vector<float>(static_cast<std::size_t>(shape.numel()), 1.0F));
      for (const float p : {0.1F, 0.5F})
        for (const Tensor& t : {dropout(ctx, ones, p), add_dropout(ctx, ones, ones, p)})
          for (const float v : t.to_vector<float>()) kept[run].push_back(v);
    }
    EXPECT_EQ(kept[0], kept[1]) << shape.str();
  }
}

TEST_F(Cuda, SaysWhatIsWrong) {
  expect_error([] { const Context ctx({.device = Device::cuda(97)}); }, {"cuda:97", "expected cuda:0"});
  Context ctx({.device = Device::cuda()});
  expect_error([&] { Tensor::empty(ctx, {1 << 20, 1 << 20}); }, {"out of memory", "MiB asked for", "free", "update_freq"});
  expect_near(tensor(ctx, {2}, {1, 2}), {1, 2}, 0.0);  // and goes on
}

// A kernel that touches memory which is not there leaves the card as good as lost to this process: each call is an Error from then on.
TEST_F(Cuda, ALostCardIsAnError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process of its own
  const auto lose = [] {
    Context ctx({.device = Device::cuda()});
    const Tensor ours = tensor(ctx, {2}, {1, 2});
    std::shared_ptr<std::byte> nowhere(reinterpret_cast<std::byte*>(std::uintptr_t{1} << 12), [](std::byte*) {});
    Tensor lost = Tensor::of(std::make_shared<Storage>(Storage{nowhere, 1 << 20, ours.storage()->device, ours.storage()->backend}),
                             DType::float32);
    int errors = 0;
    for (int i = 0; i < 3; ++i) try {
        kernels(ctx).fill(ctx, 1.0F, lost);
        ours.to_vector<float>();
      } catch (const Error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        ++errors;
      }
    std::_Exit(errors == 3 ? 1 : 0);
  };
  EXPECT_EXIT(lose(), testing::ExitedWithCode(1), "CUDA");
}

}  // namespace
}  // namespace transformer::test
