#include "transformer/ops/patchify.h"

#include <numeric>

#include "support/op_check.h"

namespace transformer::test {
namespace {

template <class S>
Array<S> reference_patchify(const Array<S>& x, const Patches& p) {
  const std::int64_t sy = p.stride_y == 0 ? p.height : p.stride_y, sx = p.stride_x == 0 ? p.width : p.stride_x;
  const std::int64_t n = x.dim(0), channels = x.dim(1), h = x.dim(2), w = x.dim(3);
  const std::int64_t down = (h - p.height) / sy + 1, across = (w - p.width) / sx + 1;
  Array<S> y(Shape{n * down * across, channels * p.height * p.width});
  std::int64_t out = 0;
  for (std::int64_t image = 0; image < n; ++image)
    for (std::int64_t py = 0; py < down; ++py)
      for (std::int64_t px = 0; px < across; ++px)
        for (std::int64_t c = 0; c < channels; ++c)
          for (std::int64_t i = 0; i < p.height; ++i)
            for (std::int64_t j = 0; j < p.width; ++j) y[out++] = x[((image * channels + c) * h + py * sy + i) * w + px * sx + j];
  return y;
}

struct Case {
  Shape images;
  Patches patches;
};

}  // namespace

TEST(Patchify, AgreesWithReference) {
  for (const Case& c : std::vector<Case>{{{1, 1, 1, 1}, {1, 1}},
                                         {{2, 3, 4, 6}, {2, 3}},
                                         {{1, 1, 7, 17}, {7, 17}},
                                         {{2, 2, 7, 9}, {3, 5, 2, 1}},     // overlapping
                                         {{1, 2, 9, 70}, {2, 33, 5, 34}},  // apart
                                         {{0, 3, 4, 4}, {2, 2}}})
    check_op(
        {.name = "patchify " + c.images.str(), .inputs = {{.shape = c.images}}},
        [&](Context& ctx, const Tensors& in) { return patchify(ctx, in[0], c.patches); },
        [&](const auto& in) { return reference_patchify(in[0], c.patches); });
}

TEST(Patchify, OrderIsThatOfAConvolutionsWeight) {
  Context ctx;
  std::vector<float> values(16);
  std::iota(values.begin(), values.end(), 0.0F);
  const Tensor y = patchify(ctx, tensor(ctx, {1, 2, 2, 4}, values), {2, 2});
  EXPECT_EQ(y.shape().str(), "[2, 8]");
  expect_near(y, {0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15}, 0.0);
}

TEST(Patchify, ThirtyDaysGiveNineOverlappingPatches) {
  Context ctx;
  EXPECT_EQ(patch_count(30, 6, 3), 9);
  std::vector<float> days(60);
  std::iota(days.begin(), days.end(), 0.0F);
  const Tensor y = patchify_series(ctx, tensor(ctx, {2, 30}, days), 6, 3);
  EXPECT_EQ(y.shape().str(), "[18, 6]");
  for (int series = 0; series < 2; ++series)
    for (int patch = 0; patch < 9; ++patch)
      for (int i = 0; i < 6; ++i)
        EXPECT_EQ(y.to_vector<float>()[static_cast<std::size_t>((series * 9 + patch) * 6 + i)],
                  static_cast<float>(series * 30 + patch * 3 + i));
}

TEST(Patchify, SeriesAgreeWithReference) {
  for (const auto& [size, length, stride] :
       std::vector<std::array<std::int64_t, 3>>{{1, 1, 1}, {30, 6, 3}, {31, 6, 3}, {65, 17, 4}, {20, 3, 5}, {12, 4, 0}})
    check_op(
        {.name = "series", .inputs = {{.shape = {3, size}}}},
        [&](Context& ctx, const Tensors& in) { return patchify_series(ctx, in[0], length, stride); },
        [&](const auto& in) {
      auto x = in[0];
      x.shape = Shape{3, 1, 1, size};
      return reference_patchify(x, {1, length, 1, stride});
        });
}

TEST(Patchify, FollowsRowStrides) {
  Context ctx;
  const Tensor x = tensor(ctx, {2, 5}, {9, 1, 2, 3, 4, 9, 5, 6, 7, 8});
  expect_near(patchify_series(ctx, x.column_block(1, 4), 2, 2), {1, 2, 3, 4, 5, 6, 7, 8}, 0.0);
}

TEST(Patchify, RefusesWhatDoesNotFit) {
  Context ctx;
  const Tensor images = Tensor::zeros(ctx, {1, 3, 224, 225});
  expect_error([&] { patchify(ctx, {}, {2, 2}); }, {"patchify", "undefined"});
  expect_error([&] { patchify(ctx, images, {16, 16}); }, {"patchify", "16 x 16", "[1, 3, 224, 225]", "exactly"});
  expect_error([&] { patchify(ctx, images, {225, 225}); }, {"patchify", "225", "224"});
  expect_error([&] { patchify(ctx, images, {0, 16}); }, {"patchify", "size 0"});
  expect_error([&] { patchify(ctx, Tensor::zeros(ctx, {3, 4, 4}), {2, 2}); }, {"patchify", "[3, 4, 4]", "four"});
  expect_error([&] { patchify(ctx, Tensor::zeros(ctx, {1, 1, 2, 2}, DType::uint8), {2, 2}); }, {"patchify", "uint8"});
  expect_error([&] { patchify_series(ctx, Tensor::zeros(ctx, {2, 5}), 6, 3); }, {"patchify_series", "6", "5"});
  expect_error([&] { patchify_series(ctx, Tensor::zeros(ctx, {5}), 2, 2); }, {"patchify_series", "[5]", "[n, size]"});
  expect_error([&] { patch_count(10, 2, -1); }, {"patch_count", "-1"});
}

}  // namespace transformer::test
