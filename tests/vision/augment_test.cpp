#include "transformer/vision/augment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "support/op_check.h"

namespace transformer::test {
namespace {

Image squares(std::int64_t height, std::int64_t width, std::int64_t channels) {
  Image image{.height = height, .width = width, .channels = channels};
  for (std::int64_t i = 0; i < height * width * channels; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * i * 31 % 251 + 1));
  return image;
}

Draws draws(std::int64_t sample, std::uint32_t epoch = 0) { return {RandomStream{9, epoch, 0xFFFFFFFEU}, sample}; }

}  // namespace

TEST(Augment, DependsOnSampleAndEpochAlone) {
  const Image image = squares(12, 10, 3);
  const AugmentConfig all{.flip = true, .crop_padding = 3, .randaugment = {2, 8}, .random_erasing = 0.5F};
  std::set<std::string> seen;
  for (std::int64_t sample = 0; sample < 40; ++sample) {
    const Image once = augment(image, all, draws(sample));
    EXPECT_EQ(augment(image, all, draws(sample)).pixels, once.pixels);
    EXPECT_EQ(once.pixels.size(), image.pixels.size());
    const Image later = augment(image, all, draws(sample, 1));
    for (const Image* one : {&once, &later}) seen.emplace(one->pixels.begin(), one->pixels.end());
  }
  EXPECT_GT(seen.size(), 70U);
  EXPECT_EQ(augment(image, {}, draws(1)).pixels, image.pixels);
}

TEST(Augment, FlipsHalfOfThem) {
  const Image image = squares(3, 4, 3);
  int flipped = 0;
  for (std::int64_t sample = 0; sample < 1000; ++sample) {
    const Image out = augment(image, {.flip = true}, draws(sample));
    if (out.pixels == image.pixels) continue;
    ++flipped;
    for (int y = 0; y < 3; ++y)
      for (int x = 0; x < 4; ++x)
        for (int c = 0; c < 3; ++c) ASSERT_EQ(out.at(y, x, c), image.at(y, 3 - x, c));
  }
  EXPECT_NEAR(flipped, 500, 60);
}

// Every place in the padded image comes up, black around it.
TEST(Augment, CropsThePaddedImage) {
  const Image image = squares(5, 6, 1);
  std::set<std::pair<int, int>> places;
  for (std::int64_t sample = 0; sample < 500; ++sample) {
    const Image out = augment(image, {.crop_padding = 2}, draws(sample));
    bool found = false;
    for (int down = -2; down <= 2; ++down)
      for (int right = -2; right <= 2; ++right) {
        bool same = true;
        for (int y = 0; y < 5; ++y)
          for (int x = 0; x < 6; ++x) {
            const int fy = y - down, fx = x - right;
            const bool inside = fy >= 0 && fy < 5 && fx >= 0 && fx < 6;
            same &= out.at(y, x, 0) == (inside ? image.at(fy, fx, 0) : 0);
          }
        if (same) places.emplace(down, right), found = true;
      }
    ASSERT_TRUE(found);
  }
  EXPECT_EQ(places.size(), 25U);
  EXPECT_EQ(augment(image, {.crop_padding = 4000}, draws(3)).pixels, std::vector<std::uint8_t>(30));  // nothing of it is left
}

TEST(Augment, StrengthOfRandAugmentIsFromNothingToMuch) {
  const Image image = squares(16, 16, 3);
  auto difference = [&](std::int64_t strength) {
    double sum = 0.0;
    for (std::int64_t sample = 0; sample < 60; ++sample) {
      const Image out = augment(image, {.randaugment = {1, strength}}, draws(sample));
      for (std::size_t i = 0; i < out.pixels.size(); ++i) sum += std::abs(static_cast<double>(out.pixels[i]) - image.pixels[i]);
    }
    return sum / static_cast<double>(60 * image.pixels.size());
  };
  EXPECT_LT(difference(0), 1.0);  // but for the values that are stretched to 0 … 255
  EXPECT_GT(difference(3), 5.0);
  EXPECT_GT(difference(10), difference(3));
}

TEST(Augment, ErasesARectangle) {
  const Image image{.height = 20, .width = 20, .channels = 1, .pixels = std::vector<std::uint8_t>(400, 0)};
  double share = 0.0;
  int changed = 0;
  for (std::int64_t sample = 0; sample < 400; ++sample) {
    const Image out = augment(image, {.random_erasing = 0.5F}, draws(sample));
    const auto noise = 400 - std::count(out.pixels.begin(), out.pixels.end(), 0);
    changed += noise > 0 ? 1 : 0;
    share += static_cast<double>(noise) / 400.0;
  }
  EXPECT_NEAR(changed, 200, 40);
  EXPECT_NEAR(share / changed, 0.17, 0.04);
}

// Beta(α, α) has mean 1/2 and variance 1 / (4 (2α + 1)).
TEST(Augment, DrawsFromBeta) {
  for (const double alpha : {0.1, 0.4, 1.0, 3.0}) {
    double sum = 0.0, squares = 0.0;
    constexpr int n = 20000;
    for (std::int64_t i = 0; i < n; ++i) {
      Draws random = draws(i);
      const double share = draw_beta(alpha, random);
      ASSERT_TRUE(share >= 0.0 && share <= 1.0);
      sum += share, squares += (share - 0.5) * (share - 0.5);
    }
    EXPECT_NEAR(sum / n, 0.5, 0.015) << alpha;
    EXPECT_NEAR(squares / n, 0.25 / (2.0 * alpha + 1.0), 0.006) << alpha;
  }
}

TEST(Augment, RefusesNonsense) {
  expect_error([] { check(AugmentConfig{.crop_padding = -1}); }, {"crop_padding", "-1"});
  expect_error([] { check(AugmentConfig{.randaugment = {2}}); }, {"randaugment"});
  expect_error([] { check(AugmentConfig{.randaugment = {2, 11}}); }, {"randaugment", "0 to 10"});
  expect_error([] { check(AugmentConfig{.random_erasing = 1.5F}); }, {"random_erasing", "1.5"});
  Draws random = draws(0);
  expect_error([&] { draw_beta(5.0, random); }, {"alpha", "5"});
}

}  // namespace transformer::test
