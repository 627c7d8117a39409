#include "transformer/explain/rollout.h"

#include <gtest/gtest.h>

#include <cmath>

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

TEST(Rollout, RefusesWhatHasNoFirstToken) {
  Context ctx;
  const auto swin = load_model(ctx, golden_root() / "swin");
  expect_error([&] { image_rollout(ctx, *swin, Tensor::zeros(ctx, {1, 3, 32, 32})); }, {"ViT or DeiT"});
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
