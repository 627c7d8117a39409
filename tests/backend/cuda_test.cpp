// What only a GPU can show. Everything else runs there too: TRANSFORMER_DEVICE=cuda.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>

#include "backend/kernels.h"
#include "support/op_check.h"
#include "transformer/ops/attention.h"

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
