#include "transformer/ops/pack.h"

#include "support/op_check.h"

namespace transformer::test {
namespace {

// Padding at the end, at the beginning, everywhere, nowhere.
const std::vector<std::int64_t> mask{1, 1, 0, /**/ 0, 1, 1, /**/ 0, 0, 0, /**/ 1, 1, 1};
const std::vector<std::int64_t> kept{0, 1, 4, 5, 9, 10, 11};

Packing make(Context& ctx) { return packing(ctx, Tensor::from<std::int64_t>(ctx, {4, 3}, mask)); }

}  // namespace

TEST(Pack, DropsPaddingWhereverItIs) {
  Context ctx;
  const Packing p = make(ctx);
  EXPECT_EQ(p.index.to_vector<std::int64_t>(), kept);
  EXPECT_EQ(p.sequences.count(), 4);
  EXPECT_EQ(p.sequences.length(2), 0);
  EXPECT_EQ(p.sequences.longest(), 3);
  std::vector<std::int64_t> ids(12);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i) * 10;
  EXPECT_EQ(pack(ctx, Tensor::from<std::int64_t>(ctx, {4, 3}, ids), p).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 10, 40, 50, 90, 100, 110}));
}

TEST(Pack, PackAndUnpackWithGradients) {
  check_op(
      {.name = "pack", .inputs = {{.shape = {4, 3, 5}}}}, [](Context& ctx, const Tensors& t) { return pack(ctx, t[0], make(ctx)); },
      [](const auto& t) {
    auto y = std::decay_t<decltype(t[0])>(Shape{7, 5});
    for (std::int64_t r = 0; r < 7; ++r)
      for (std::int64_t c = 0; c < 5; ++c) y.at(r, c) = t[0].at(kept[static_cast<std::size_t>(r)], c);
    return y;
      });
  check_op(
      {.name = "unpack", .inputs = {{.shape = {7, 5}}}}, [](Context& ctx, const Tensors& t) { return unpack(ctx, t[0], make(ctx)); },
      [](const auto& t) {
    auto y = std::decay_t<decltype(t[0])>(Shape{4, 3, 5});
    for (std::int64_t r = 0; r < 7; ++r)
      for (std::int64_t c = 0; c < 5; ++c) y.at(kept[static_cast<std::size_t>(r)], c) = t[0].at(r, c);
    return y;
      });
}

TEST(Pack, SaysWhatDoesNotFit) {
  Context ctx;
  const Packing p = make(ctx);
  expect_error([&] { pack(ctx, Tensor::zeros(ctx, {4, 2, 5}), p); }, {"pack", "[4, 2, 5]", "[4, 3"});
  expect_error([&] { unpack(ctx, Tensor::zeros(ctx, {6, 5}), p); }, {"unpack", "[6, 5]", "[7, d]"});
  expect_error([&] { packing(ctx, Tensor::zeros(ctx, {4, 3})); }, {"packing", "float32"});
  expect_error([&] { packing(ctx, Tensor::zeros(ctx, {4}, DType::int64)); }, {"packing", "[4]"});
}

// Each weight says which sequence, head, query and key it is of, in packed places; after unpacking it stands at the padded ones.
TEST(Pack, WeightsOfAttentionGoToTheirPaddedPlaces) {
  Context ctx;
  const std::vector<std::int64_t> sides{0, 1, 1, 0, /**/ 1, 0, 0, 1, /**/ 0, 0, 0, 0, /**/ 1, 1, 0, 0};
  for (const bool full : {false, true}) {
    std::vector<std::int64_t> of_queries = mask, of_keys = sides;
    if (full) of_queries.assign(12, 1), of_keys.assign(16, 1);
    const Packing queries = packing(ctx, Tensor::from<std::int64_t>(ctx, {4, 3}, of_queries));
    const Packing keys = packing(ctx, Tensor::from<std::int64_t>(ctx, {4, 4}, of_keys));
    const std::int64_t q = queries.sequences.longest(), k = keys.sequences.longest();
    auto value = [](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
      return static_cast<float>(1 + j + 10 * (i + 10 * (h + 10 * b)));
    };
    std::vector<float> packed, padded(static_cast<std::size_t>(4 * 2 * 3 * 4), 0.0F);
    for (std::int64_t b = 0; b < 4; ++b)
      for (std::int64_t h = 0; h < 2; ++h)
        for (std::int64_t i = 0; i < q; ++i)
          for (std::int64_t j = 0; j < k; ++j) {
            const bool real = i < queries.sequences.length(b) && j < keys.sequences.length(b);
            packed.push_back(real ? value(b, h, i, j) : 0.0F);
          }
    for (std::int64_t b = 0; b < 4; ++b)
      for (std::int64_t h = 0; h < 2; ++h) {
        std::int64_t i = 0;
        for (std::int64_t row = 0; row < 3; ++row) {
          if (of_queries[static_cast<std::size_t>(b * 3 + row)] == 0) continue;
          std::int64_t j = 0;
          for (std::int64_t column = 0; column < 4; ++column)
            if (of_keys[static_cast<std::size_t>(b * 4 + column)] != 0)
              padded[static_cast<std::size_t>(((b * 2 + h) * 3 + row) * 4 + column)] = value(b, h, i, j++);
          ++i;
        }
      }
    EXPECT_EQ(unpack_weights(ctx, Tensor::from<float>(ctx, {4, 2, q, k}, packed), queries, keys).to_vector<float>(), padded);
  }
}

}  // namespace transformer::test
