#include "transformer/explain/rollout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "explain/windows.h"
#include "support/golden.h"
#include "support/op_check.h"
#include "transformer/ops/random.h"

namespace transformer::test {

// Two layers, two heads, two tokens, by hand: Â = (A + I) / 2, R = Â₂ · Â₁.
TEST(Rollout, IsTheProductOfTheLayers) {
  Context ctx;
  const Tensor first = tensor(ctx, {1, 2, 2, 2}, {1.0F, 0.0F, 0.5F, 0.5F, 0.6F, 0.4F, 0.1F, 0.9F});   // mean: .8 .2 / .3 .7
  const Tensor second = tensor(ctx, {1, 2, 2, 2}, {0.0F, 1.0F, 0.0F, 1.0F, 0.4F, 0.6F, 0.0F, 1.0F});  // mean: .2 .8 / 0 1
  const double a[] = {0.9, 0.1, 0.15, 0.85}, b[] = {0.6, 0.4, 0.0, 1.0};
  const std::vector<float> got = attention_rollout({first, second});
  ASSERT_EQ(got.size(), 4U);
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 2; ++j) EXPECT_NEAR(got[i * 2 + j], b[i * 2] * a[j] + b[i * 2 + 1] * a[2 + j], 1e-6);
  EXPECT_NEAR(got[0] + got[1], 1.0, 1e-6);
}

TEST(Rollout, OfImageModels) {
  Context ctx;
  for (const char* family : {"vit", "deit"}) {
    const auto model = load_model(ctx, golden_root() / family);
    const auto size = model->config().at("image_size").get<std::int64_t>(), patch = model->config().at("patch_size").get<std::int64_t>();
    const Rollout map = image_rollout(ctx, *model, random_normal(ctx, {1, 3, size, size}));
    EXPECT_EQ(map.rows, size / patch);
    ASSERT_EQ(std::ssize(map.values), map.rows * map.columns);
    double sum = 0.0;
    for (const float v : map.values) {
      EXPECT_GT(v, 0.0F);
      sum += static_cast<double>(v);
    }
    EXPECT_LT(sum, 1.0);  // the rest is the first token's own

    Image image{.height = size, .width = size, .channels = 3};
    image.pixels.resize(static_cast<std::size_t>(size * size * 3), 100);
    const std::string svg = rollout_svg(image, map, "<cat> & 0.9");
    for (const char* part : {"data:image/png;base64,iVBORw0KGgo", "&lt;cat&gt; &amp; 0.9", "row 1, column 2", "</svg>"})
      EXPECT_NE(svg.find(part), std::string::npos) << part;
    // Coloured most where the greatest value is.
    const Image picture = rollout_picture(image, map);
    const auto greatest = std::max_element(map.values.begin(), map.values.end()) - map.values.begin();
    const std::int64_t by = picture.height / map.rows;
    const int red = picture.at((greatest / map.columns) * by + by / 2, (greatest % map.columns) * by + by / 2, 0);
    for (std::size_t i = 0; i < picture.pixels.size(); i += 3) EXPECT_LE(picture.pixels[i], red + 1);
  }
}

// Windows, moved ones, and merging as matrices over all tokens of a grid, multiplied from the first block to the last.
TEST(Rollout, OfWindowsIsThatOfWholeMatrices) {
  Context ctx;
  const NoGradients no_gradients(ctx);
  const auto model = load_model(ctx, golden_root() / "swin");
  const Swin& swin = *swin_of(*model);
  for (const Shape& size : {Shape{32, 32}, Shape{36, 44}}) {  // the second one's grids are odd, and no whole number of windows
    const Tensor pixels = random_normal(ctx, {1, swin.config.channels, size[0], size[1]});
    const std::vector<SeenStage> stages = seen_stages(ctx, swin, pixels);
    using Matrix = std::vector<std::vector<double>>;
    const auto times = [](const Matrix& a, const Matrix& b) {
      Matrix out(a.size(), std::vector<double>(b.front().size()));
      for (std::size_t i = 0; i < a.size(); ++i)
        for (std::size_t k = 0; k < b.size(); ++k)
          for (std::size_t j = 0; j < b[k].size() && a[i][k] != 0.0; ++j) out[i][j] += a[i][k] * b[k][j];
      return out;
    };
    Matrix rolled;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const Grid& grid = stages[s].grid;
      const auto n = static_cast<std::size_t>(grid.tokens());
      if (s > 0) {
        const Grid& before = stages[s - 1].grid;
        Matrix merging(n, std::vector<double>(static_cast<std::size_t>(before.tokens())));
        for (std::int64_t i = 0; i < before.tokens(); ++i)
          merging[static_cast<std::size_t>(i / before.width / 2 * grid.width + i % before.width / 2)][static_cast<std::size_t>(i)] = 1.0;
        for (std::vector<double>& row : merging) {
          const double count = std::accumulate(row.begin(), row.end(), 0.0);
          for (double& v : row) v /= count;
        }
        rolled = times(merging, rolled);
      }
      for (const SeenBlock& block : stages[s].blocks) {
        const std::vector<float> one = attention_rollout({over_grid(block)});
        Matrix layer(n, std::vector<double>(n));
        for (std::size_t i = 0; i < n * n; ++i) layer[i / n][i % n] = static_cast<double>(one[i]);
        rolled = rolled.empty() ? layer : times(layer, rolled);
      }
    }
    const std::vector<float> got = window_rollout(stages);
    const std::size_t patches = rolled.front().size();
    ASSERT_EQ(got.size(), (1 + rolled.size()) * patches);
    for (std::size_t row = 0; row <= rolled.size(); ++row) {
      double sum = 0.0;
      for (std::size_t i = 0; i < patches; ++i) {
        double expected = 0.0;
        for (std::size_t r = 0; r < rolled.size(); ++r)
          if (row == 0 || row == r + 1) expected += rolled[r][i] / (row == 0 ? static_cast<double>(rolled.size()) : 1.0);
        EXPECT_NEAR(got[row * patches + i], expected, 1e-6);
        sum += static_cast<double>(got[row * patches + i]);
      }
      EXPECT_NEAR(sum, 1.0, 1e-5);
    }
    const Rollout map = image_rollout(ctx, *model, pixels);
    EXPECT_EQ(map.values, std::vector<float>(got.begin(), got.begin() + std::ssize(map.values)));
  }
}

TEST(Rollout, RefusesWhatItCannotBeOf) {
  Context ctx;
  const auto text = load_model(ctx, golden_root() / "bert-base");
  expect_error([&] { image_rollout(ctx, *text, Tensor::zeros(ctx, {1, 3, 32, 32})); }, {"ViT, DeiT or Swin"});
  expect_error([] { attention_rollout({}); }, {"no attention"});
  expect_error([&] { attention_rollout({Tensor::zeros(ctx, {1, 2, 3, 4})}); }, {"[1, 2, 3, 4]"});
  expect_error([&] { attention_rollout({Tensor::zeros(ctx, {1, 2, 3, 3})}, 1); }, {"no sample 1"});
  expect_error(
      [] {
    rollout_picture({.height = 1, .width = 1, .pixels = {0, 0, 0}}, {.rows = 2, .columns = 2, .values = {1.0F}});
      },
      {"1 values", "2 x 2"});
}

}  // namespace transformer::test
