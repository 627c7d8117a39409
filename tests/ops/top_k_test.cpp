#include "transformer/ops/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "support/op_check.h"
#include "transformer/ops/shape.h"

namespace transformer::test {
namespace {

constexpr float none = -std::numeric_limits<float>::infinity();

// Rows drawn so that equal values, missing ones and zeros of both signs occur.
std::vector<float> drawn_rows(std::int64_t rows, std::int64_t cols, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    const unsigned kind = random() % 16;
    const float v = static_cast<float>(random() % 4001) / 256.0F - 8.0F;
    values.push_back(kind == 0 ? none : kind == 1 ? -0.0F : kind == 2 ? 0.0F : static_cast<float>(bfloat16(v)));
  }
  return values;
}

void expect_top(const TopK& top, const std::vector<float>& values, std::int64_t cols, std::int64_t stride, bool log) {
  const std::vector<float> found = top.values.to_vector<float>();
  const std::vector<std::int32_t> ids = top.ids.to_vector<std::int32_t>();
  const std::int64_t k = top.ids.cols();
  for (std::int64_t row = 0; row < top.ids.rows(); ++row) {
    std::vector<std::int32_t> order;
    const float* from = values.data() + row * stride;
    double largest = none, sum = 0.0;
    for (std::int64_t c = 0; c < cols; ++c)
      if (from[c] > none) order.push_back(static_cast<std::int32_t>(c)), largest = std::max(largest, static_cast<double>(from[c]));
    for (const std::int32_t c : order) sum += std::exp(static_cast<double>(from[c]) - largest);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return from[a] > from[b]; });
    for (std::int64_t i = 0; i < k; ++i) {
      const auto at = static_cast<std::size_t>(row * k + i);
      if (i >= std::ssize(order)) {
        EXPECT_EQ(ids[at], -1) << "row " << row << ", place " << i;
        EXPECT_EQ(found[at], none);
        continue;
      }
      const std::int32_t id = order[static_cast<std::size_t>(i)];
      ASSERT_EQ(ids[at], id) << "row " << row << ", place " << i << " of " << cols << " columns";
      if (log) EXPECT_NEAR(found[at], static_cast<double>(from[id]) - largest - std::log(sum), 2e-5);
      else EXPECT_EQ(found[at], from[id]);
    }
  }
}

TEST(TopK, FindsTheLargestOfEveryRow) {
  Context ctx;
  for (const std::int64_t cols : {1, 7, 64, 300, 4096, 4097, 9001, 50257})
    for (const std::int64_t k : {1, 2, 8, 51, 64})
      for (const DType dtype : {DType::float32, DType::bfloat16})
        for (const bool log : {false, true}) {
          const std::vector<float> values = drawn_rows(3, cols, static_cast<unsigned>(cols + k));
          const Tensor x = cast(ctx, Tensor::from<float>(ctx, {3, cols}, values), dtype);
          expect_top(top_k(ctx, x, k, log), values, cols, cols, log);
        }
}

TEST(TopK, ReadsRowsThatAreFurtherApart) {
  Context ctx;
  const std::vector<float> values = drawn_rows(5, 5003, 3);
  const Tensor x = Tensor::from<float>(ctx, {5, 5003}, values);
  expect_top(top_k(ctx, x.column_block(0, 4999), 12, true), values, 4999, 5003, true);
}

TEST(TopK, TakesWhatIsNoNumberForNothing) {
  Context ctx;
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::from<float>(ctx, {2, 3}, {nan, 1.0F, none, none, none, none});
  EXPECT_EQ(top_k(ctx, x, 2).ids.to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, -1, -1, -1}));
  const std::vector<std::int32_t> both = top_k(ctx, x, 2).both.to_vector<std::int32_t>();
  EXPECT_EQ(both.size(), 8U);
  EXPECT_EQ(both[4], 1);
  expect_error([&] { top_k(ctx, x, 0); }, {"top_k", "0", "1 to 64"});
  expect_error([&] { top_k(ctx, x, 65); }, {"top_k", "65"});
}

}  // namespace
}  // namespace transformer::test
