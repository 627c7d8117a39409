// The profile of kernels: what was called, how often, with how much work.
#include "backend/profiled/profile.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "transformer/autograd/autograd.h"
#include "transformer/ops/linear.h"
#include "transformer/ops/random.h"

namespace transformer {
namespace {

TEST(Profile, CountsCallsAndWork) {
  take_profile();
  profile_kernels(true);
  Context ctx({.device = Device::cpu(), .threads = 2});
  profile_kernels(false);
  const Tensor x = random_uniform(ctx, {8, 16});
  Tensor w = random_uniform(ctx, {32, 16});
  require_grad(w);
  for (int i = 0; i < 3; ++i) backward(ctx, linear(ctx, x, w, {}), Tensor::full(ctx, {8, 32}, 1.0F));
  Context plain({.device = Device::cpu(), .threads = 2});  // made when nothing was asked for
  matmul(plain, random_uniform(plain, {7, 16}), random_uniform(plain, {16, 5}));

  const std::vector<KernelProfile> profile = take_profile();
  const auto find = [&](std::string_view name) {
    return std::find_if(profile.begin(), profile.end(), [&](const KernelProfile& p) { return p.kernel == name; });
  };
  const auto forward = find("linear 8x32x16");
  ASSERT_NE(forward, profile.end());
  EXPECT_EQ(forward->calls, 3);
  EXPECT_EQ(forward->flops, 3 * 2.0 * 8 * 32 * 16);
  EXPECT_EQ(forward->bytes, 3 * 4.0 * (8 * 16 + 32 * 16 + 8 * 32));
  EXPECT_GT(forward->seconds, 0.0);
  EXPECT_EQ(find("matmul 7x5x16 nn"), profile.end());
  for (std::size_t i = 1; i < profile.size(); ++i) EXPECT_LE(profile[i].seconds, profile[i - 1].seconds);
  EXPECT_TRUE(take_profile().empty());
}

}  // namespace
}  // namespace transformer
