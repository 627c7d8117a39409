#include "transformer/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/op_check.h"

namespace transformer::test {
namespace {

TEST(Schedule, OfThePaper) {
  const double peak = 1.0 / std::sqrt(512.0 * 4000.0);  // 6.99e-4
  EXPECT_NEAR(warmup_schedule(4000, 512), peak, 1e-9);
  EXPECT_LT(warmup_schedule(3999, 512), warmup_schedule(4000, 512));
  EXPECT_LT(warmup_schedule(4001, 512), warmup_schedule(4000, 512));
  for (std::int64_t step : {1, 10, 3999, 4000, 4001, 100000}) {
    const double s = static_cast<double>(step);
    EXPECT_NEAR(warmup_schedule(step, 512) / (std::pow(512.0, -0.5) * std::min(std::pow(s, -0.5), s * std::pow(4000.0, -1.5))), 1.0, 1e-6)
        << step;
  }
  EXPECT_NEAR(warmup_schedule(1, 16, 1), 0.25, 1e-7);
  EXPECT_NEAR(warmup_schedule(4, 16, 0), 0.125, 1e-7);
}

TEST(Schedule, InverseSquareRootWithAPeak) {
  const Schedule s{.peak = 0.5F, .warmup = 100};
  EXPECT_NEAR(s(1), 0.005, 1e-8);
  EXPECT_NEAR(s(100), 0.5, 1e-7);
  EXPECT_NEAR(s(400), 0.25, 1e-7);
}

TEST(Schedule, Cosine) {
  const Schedule s{.kind = Schedule::Kind::cosine, .peak = 1.0F, .warmup = 10, .total = 110, .floor = 0.1F};
  EXPECT_NEAR(s(1), 0.1, 1e-7);
  EXPECT_NEAR(s(10), 1.0, 1e-7);
  EXPECT_NEAR(s(60), 0.55, 1e-6);
  EXPECT_NEAR(s(110), 0.1, 1e-7);
  EXPECT_NEAR(s(1000), 0.1, 1e-7);
  const Schedule no_warmup{.kind = Schedule::Kind::cosine, .peak = 1.0F, .warmup = 0, .total = 2};
  EXPECT_NEAR(no_warmup(1), 0.5, 1e-7);
}

TEST(Schedule, Constant) {
  const Schedule s{.kind = Schedule::Kind::constant, .peak = 0.3F, .warmup = 3};
  EXPECT_NEAR(s(1), 0.1, 1e-7);
  EXPECT_NEAR(s(3), 0.3, 1e-7);
  EXPECT_NEAR(s(1'000'000), 0.3, 1e-7);
}

TEST(Schedule, NamesWhatIsWrong) {
  expect_error([] { warmup_schedule(0, 512); }, {"schedule", "step is 0"});
  expect_error([] { warmup_schedule(1, 0); }, {"d_model is 0"});
  expect_error([] { Schedule{.warmup = -1}(1); }, {"warmup is -1"});
  expect_error([] { Schedule{.kind = Schedule::Kind::cosine, .peak = 1.0F, .warmup = 10, .total = 10}(1); }, {"total > warmup"});
  expect_error([] { Schedule{.kind = Schedule::Kind::cosine, .peak = 1.0F, .warmup = 1, .total = 10, .floor = 2.0F}(1); }, {"floor is 2"});
}

}  // namespace
}  // namespace transformer::test
