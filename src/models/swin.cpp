#include "transformer/models/swin.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "transformer/autograd/layer_weights.h"
#include "transformer/ops/dropout.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/embedding.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

std::int64_t up_to_multiple(std::int64_t n, std::int64_t of) { return (n + of - 1) / of * of; }

// Zeros at the right and below, up to whole patches.
Tensor padded(Context& ctx, const Tensor& images, const Patches& p) {
  Tensor x = images;
  auto pad = [&](int axis, std::int64_t to) {
    Shape rest = x.shape();
    rest[axis] = to - x.dim(axis);
    if (rest[axis] > 0) x = concat(ctx, {x, Tensor::zeros(ctx, rest, x.dtype())}, axis);
  };
  pad(2, up_to_multiple(x.dim(2), p.height));
  pad(3, up_to_multiple(x.dim(3), p.width));
  return x;
}

}  // namespace

Windows cut_windows(Context& ctx, const Grid& grid, std::int64_t window, std::int64_t shift) {
  const std::int64_t height = up_to_multiple(grid.height, window), width = up_to_multiple(grid.width, window);
  const std::int64_t down = height / window, across = width / window, area = window * window;
  std::vector<std::int64_t> slots;  // of each token, window by window
  slots.reserve(static_cast<std::size_t>(grid.tokens()));
  for (std::int64_t b = 0; b < grid.batch; ++b)
    for (std::int64_t row = 0; row < grid.height; ++row)
      for (std::int64_t column = 0; column < grid.width; ++column) {
        const std::int64_t y = (row - shift + height) % height, x = (column - shift + width) % width;
        slots.push_back(((b * down + y / window) * across + x / window) * area + y % window * window + x % window);
      }
  Windows w;
  w.packing = {.sequences = Sequences::uniform(grid.batch, grid.height * grid.width),
               .index = Tensor::from<std::int64_t>(ctx, {grid.tokens()}, slots),
               .batch = grid.batch * down * across,
               .longest = area};
  if (shift == 0) return w;

  // What the shift has brought from the other side of the image is another region: the windows at the lower and right end
  // hold up to four of them.
  auto region = [&](std::int64_t at, std::int64_t size) { return (at >= size - window ? 1 : 0) + (at >= size - shift ? 1 : 0); };
  std::vector<float> mask;
  mask.reserve(static_cast<std::size_t>(down * across * area * area));
  for (std::int64_t i = 0; i < down * across; ++i) {
    std::vector<int> regions;
    for (std::int64_t j = 0; j < area; ++j)
      regions.push_back(3 * region(i / across * window + j / window, height) + region(i % across * window + j % window, width));
    for (int a : regions)
      for (int b : regions) mask.push_back(a == b ? 0.0F : -100.0F);
  }
  const Tensor once = Tensor::from<float>(ctx, {down * across, 1, area, area}, mask);
  w.mask = concat(ctx, std::vector<Tensor>(static_cast<std::size_t>(grid.batch), once), 0);
  return w;
}

SwinBlock::SwinBlock(const StackConfig& c, std::int64_t window_size, bool is_shifted, float drop)
    : window(window_size), shifted(is_shifted), drop_path(drop), attention(c, false), feed_forward(c), around_attention(c),
      around_feed_forward(c) {
  bias_table = {.shape = {(2 * window - 1) * (2 * window - 1), c.heads}, .init = Init::normal};
}

Tensor SwinBlock::relative_bias(Context& ctx) const {
  const std::int64_t area = window * window;
  std::vector<std::int32_t> rows;
  rows.reserve(static_cast<std::size_t>(area * area));
  for (std::int64_t i = 0; i < area; ++i)
    for (std::int64_t j = 0; j < area; ++j)
      rows.push_back(
          static_cast<std::int32_t>((i / window - j / window + window - 1) * (2 * window - 1) + i % window - j % window + window - 1));
  const Tensor values = embedding(ctx, Tensor::from<std::int32_t>(ctx, {area * area}, rows), bias_table, 1.0F, DType::float32);
  return reshape(ctx, transpose(ctx, values, 0, 1), {1, -1, area, area});
}

Tensor SwinBlock::operator()(Context& ctx, const Tensor& x, const Windows& windows, Tensor* weights) const {
  const Packing& p = windows.packing;
  const Tensor bias = relative_bias(ctx);
  const AttentionCall call{.sequences = Sequences::uniform(p.batch, p.longest),
                           .bias = windows.mask.defined() ? add(ctx, bias, windows.mask) : bias,
                           .weights = weights};
  const std::int64_t d = x.dim(1);
  Stream stream(x);
  around_attention(ctx, stream, [&](const Tensor& h) {
    const Tensor in_windows = reshape(ctx, unpack(ctx, h, p), {p.batch * p.longest, d});
    const Tensor attended = reshape(ctx, attention(ctx, in_windows, call), {p.batch, p.longest, d});
    return drop_sequences(ctx, pack(ctx, attended, p), p.sequences, drop_path);
  });
  around_feed_forward(ctx, stream, [&](const Tensor& h) { return feed_forward(ctx, h); });
  return stream.value(ctx);
}

Tensor PatchMerging::operator()(Context& ctx, const Tensor& x, Grid& grid) const {
  const Grid half{grid.batch, (grid.height + 1) / 2, (grid.width + 1) / 2};
  std::vector<std::int64_t> slots;  // the four in the order above left, below left, above right, below right
  slots.reserve(static_cast<std::size_t>(grid.tokens()));
  for (std::int64_t b = 0; b < grid.batch; ++b)
    for (std::int64_t row = 0; row < grid.height; ++row)
      for (std::int64_t column = 0; column < grid.width; ++column)
        slots.push_back(((b * half.height + row / 2) * half.width + column / 2) * 4 + column % 2 * 2 + row % 2);
  const Packing p{.sequences = Sequences::uniform(grid.batch, grid.height * grid.width),
                  .index = Tensor::from<std::int64_t>(ctx, {grid.tokens()}, slots),
                  .batch = half.tokens(),
                  .longest = 4};
  grid = half;
  return reduction(ctx, norm(ctx, reshape(ctx, unpack(ctx, x, p), {half.tokens(), 4 * x.dim(1)})));
}

// Where a row has one window there is nothing to join.
std::int64_t shift_of(const SwinStage& stage, const SwinBlock& block, const Grid& grid) {
  return block.shifted && std::min(grid.height, grid.width) > stage.window ? stage.window / 2 : 0;
}

Tensor SwinStage::operator()(Context& ctx, Tensor x, Grid& grid, std::vector<Tensor>* weights) const {
  if (std::min(grid.height, grid.width) < window)
    fail("swin", "the grid of a stage is {} x {}, smaller than its windows of {} x {}: give larger images", grid.height, grid.width, window,
         window);
  const Windows straight = cut_windows(ctx, grid, window, 0);
  std::optional<Windows> moved;
  const SwinBlock* before = nullptr;
  for (const SwinBlock& block : blocks) {
    const std::int64_t shift = shift_of(*this, block, grid);
    if (shift > 0 && !moved) moved = cut_windows(ctx, grid, window, shift);
    x = between_layers(ctx, x, std::exchange(before, &block), &block);
    x = block(ctx, x, shift > 0 ? *moved : straight, weights != nullptr ? &weights->emplace_back() : nullptr);
  }
  if (before != nullptr) x = between_layers(ctx, x, before, nullptr);
  return merging ? (*merging)(ctx, x, grid) : x;
}

Swin::Swin(const SwinConfig& c)
    : config(c), patches(c.channels, c.patches, c.d), embedding_norm(NormKind::layer_norm, c.d, 1e-5F),
      norm(NormKind::layer_norm, c.d << (c.depths.size() - 1), c.norm_eps) {
  if (c.added_positions) positions = {.shape = {c.height / c.patches.height * (c.width / c.patches.width), c.d}, .init = Init::normal};
  const auto blocks = std::accumulate(c.depths.begin(), c.depths.end(), std::int64_t{0});
  std::int64_t d = c.d, index = 0;
  for (std::size_t i = 0; i < c.depths.size(); ++i, d *= 2) {
    const StackConfig settings = StackConfig{.d_model = d,
                                             .heads = c.heads[i],
                                             .d_ff = static_cast<std::int64_t>(c.ffn_ratio * static_cast<double>(d)),
                                             .norm_place = NormPlace::pre,
                                             .norm_eps = c.norm_eps,
                                             .feed_forward = c.feed_forward,
                                             .qkv_bias = c.qkv_bias,
                                             .dropout = c.dropout,
                                             .attention_dropout = c.attention_dropout}
                                     .resolved();
    SwinStage& stage = stages.emplace_back();
    stage.window = c.window;
    for (std::int64_t j = 0; j < c.depths[i]; ++j, ++index)
      stage.blocks.emplace_back(settings, c.window, j % 2 == 1,
                                blocks > 1 ? c.drop_path * static_cast<float>(index) / static_cast<float>(blocks - 1) : 0.0F);
    if (i + 1 < c.depths.size()) stage.merging.emplace(d);
  }
  if (c.labels > 0) classifier.emplace(features(), c.labels);
}

Tensor Swin::operator()(Context& ctx, const Tensor& images, SwinTrace* trace) const {
  if (images.rank() != 4 || images.dim(1) != config.channels)
    fail("swin", "the images are {}: expected [batch, {}, height, width]", images.shape(), config.channels);
  const Tensor whole = padded(ctx, images, config.patches);
  Grid grid{images.dim(0), whole.dim(2) / config.patches.height, whole.dim(3) / config.patches.width};
  Tensor x = embedding_norm(ctx, patches(ctx, whole));
  if (positions.present()) {
    if (grid.height * grid.width != positions.shape[0])
      fail("swin", "the images are {}: the positions of this model are those of {} x {}, resize the images", images.shape(), config.height,
           config.width);
    x = add(ctx, reshape(ctx, x, {grid.batch, -1, config.d}), cast(ctx, positions, ctx.precision()));
    x = reshape(ctx, x, {grid.tokens(), config.d});
  }
  x = dropout(ctx, x, config.dropout);
  auto keep = [&] {
    if (trace != nullptr) trace->hidden_states.push_back(reshape(ctx, x, {grid.batch, -1, x.dim(1)}));
  };
  keep();
  for (const SwinStage& stage : stages) {
    x = stage(ctx, x, grid, trace != nullptr ? &trace->attentions.emplace_back() : nullptr);
    keep();
  }
  return reshape(ctx, norm(ctx, x), {grid.batch, -1, features()});
}

}  // namespace transformer
