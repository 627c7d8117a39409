#include "transformer/models/patchtst.h"

#include "transformer/ops/dropout.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/reduce.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

Tensor number(Context& ctx, float value) { return Tensor::full(ctx, {1}, value); }

// Channel i of [batch, channels, n, d], as rows.
Tensor channel(Context& ctx, const Tensor& x, std::int64_t i) {
  return reshape(ctx, slice(ctx, x, 1, i, 1), {x.dim(0) * x.dim(2), x.dim(3)});
}

// One linear layer for all channels of x [batch, channels, n, d], or each its own: [batch, channels, n, out].
Tensor project(Context& ctx, const std::vector<Linear>& layers, const Tensor& x) {
  const std::int64_t out = layers.front().weight.shape[0];
  if (layers.size() == 1) return layers.front()(ctx, x);
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < layers.size(); ++i)
    parts.push_back(reshape(ctx, layers[i](ctx, channel(ctx, x, static_cast<std::int64_t>(i))), {x.dim(0), 1, x.dim(2), out}));
  return concat(ctx, parts, 1);
}

}  // namespace

ScaledSeries scale_series(Context& ctx, const Tensor& x, const Tensor& observed, SeriesScaling scaling) {
  const Tensor series = cast(ctx, x, DType::float32);
  const Tensor seen = observed.defined() ? cast(ctx, observed, DType::float32) : Tensor::full(ctx, x.shape(), 1.0F);
  if (seen.shape() != x.shape())
    fail("patchtst", "the mask of observed values {} must have the shape of the values {}", seen.shape(), x.shape());
  const Shape each{x.dim(0), 1, x.dim(2)};
  if (scaling == SeriesScaling::none) return {series, Tensor::zeros(ctx, each), Tensor::full(ctx, each, 1.0F)};
  const Tensor one = number(ctx, 1.0F), seen_count = sum(ctx, seen, {1}, true), count = maximum(ctx, seen_count, one);
  if (scaling == SeriesScaling::deviation) {
    const Tensor location = div(ctx, sum(ctx, mul(ctx, series, seen), {1}, true), count);
    const Tensor centred = sub(ctx, series, location);
    const Tensor variance = div(ctx, sum(ctx, square(ctx, mul(ctx, centred, seen)), {1}, true), count);
    const Tensor scale = sqrt(ctx, add(ctx, variance, number(ctx, 1e-5F)));
    return {div(ctx, centred, scale), location, scale};
  }
  // A channel of which nothing was seen takes the mean over the batch.
  const Tensor total = sum(ctx, abs(ctx, mul(ctx, series, seen)), {1}, true);
  const Tensor of_batch = div(ctx, sum(ctx, total, {0}, true), maximum(ctx, sum(ctx, seen_count, {0}, true), one));
  const Tensor any = minimum(ctx, seen_count, one);
  const Tensor own = mul(ctx, div(ctx, total, count), any), other = mul(ctx, of_batch, sub(ctx, one, any));
  const Tensor scale = maximum(ctx, add(ctx, own, other), number(ctx, 1e-10F));
  return {div(ctx, series, scale), Tensor::zeros(ctx, each), scale};
}

PatchTST::PatchTST(const PatchTSTConfig& c) : config(c), stack(c.stack) {
  const std::int64_t d = c.stack.d_model;
  for (std::int64_t i = 0; i < (c.shared_embedding ? 1 : c.channels); ++i) embeddings.emplace_back(c.patch, d);
  if (c.cls_token) cls_token = {.shape = {1, d}, .init = Init::normal};
  positions = {.shape = {c.patches() + (c.cls_token ? 1 : 0), d}, .init = Init::normal};
  if (c.sincos_positions) {
    positions.init = Init::sincos;
    positions.trained = false;
  }
  const bool by_channel = c.head == SeriesHead::prediction;
  const std::int64_t pooled = c.cls_token || c.pooling != SeriesPooling::none ? d : d * c.patches();
  const std::vector<std::int64_t> outs(std::max<std::size_t>(c.quantiles.size(), 1), c.ahead);  // a head a quantile, in one matrix
  if (by_channel)
    for (std::int64_t i = 0; i < (c.shared_projection ? 1 : c.channels); ++i) heads.emplace_back(pooled, outs);
  else if (c.head != SeriesHead::none) heads.emplace_back(c.channels * d, c.targets);
}

Tensor PatchTST::embed(Context& ctx, const Tensor& values) const {
  const std::int64_t batch = values.dim(0), n = config.patches(), d = config.stack.d_model;
  // Whole patches end with the last value: what fills none is left out at the beginning.
  const std::int64_t covered = config.patch + config.stride * (n - 1);
  Tensor x = reshape(ctx, transpose(ctx, values, 1, 2), {batch * config.channels, config.context});
  x = contiguous(ctx, slice(ctx, x, 1, config.context - covered, covered));
  x = cast(ctx, patchify_series(ctx, x, config.patch, config.stride), ctx.precision());
  x = project(ctx, embeddings, reshape(ctx, x, {batch, config.channels, n, config.patch}));
  x = reshape(ctx, x, {batch * config.channels, n, d});
  const Tensor places = cast(ctx, positions, ctx.precision());
  if (!config.cls_token) {
    x = dropout(ctx, add(ctx, x, places), config.position_dropout);
  } else {
    x = dropout(ctx, add(ctx, x, slice(ctx, places, 0, 1, n)), config.position_dropout);
    const Tensor cls = embedding(ctx, Tensor::zeros(ctx, {x.dim(0), 1}, DType::int64), cls_token);
    x = concat(ctx, {add(ctx, cls, slice(ctx, places, 0, 0, 1)), x}, 1);
  }
  return reshape(ctx, x, {-1, d});
}

Tensor PatchTST::encode(Context& ctx, const Tensor& values, StackTrace* trace) const {
  if (values.rank() != 3 || values.dim(1) != config.context || values.dim(2) != config.channels)
    fail("patchtst", "the values are {}: this model takes [batch, context {}, channels {}]", values.shape(), config.context,
         config.channels);
  const std::int64_t batch = values.dim(0);
  const Tensor x = stack(ctx, {.x = embed(ctx, values), .sequences = Sequences::uniform(batch * config.channels, tokens())}, trace);
  return reshape(ctx, x, {batch, config.channels, tokens(), config.stack.d_model});
}

Tensor PatchTST::predict(Context& ctx, const Tensor& hidden) const {
  const std::int64_t batch = hidden.dim(0), channels = config.channels;
  Tensor x = hidden;  // [batch, channels, tokens, d] → [batch, channels, pooled]
  if (config.cls_token) x = slice(ctx, x, 2, 0, 1);
  else if (config.pooling == SeriesPooling::mean) x = mean(ctx, x, {2});
  else if (config.pooling == SeriesPooling::max) x = max(ctx, x, {2});
  if (config.head == SeriesHead::prediction) {
    x = dropout(ctx, reshape(ctx, x, {batch, channels, 1, -1}), config.head_dropout);
    const Tensor y = reshape(ctx, project(ctx, heads, x), {batch, -1, config.ahead});  // rows: quantiles of channels
    const Tensor ahead = cast(ctx, transpose(ctx, y, 1, 2), DType::float32);
    return config.quantiles.empty() ? ahead : reshape(ctx, ahead, {batch, config.ahead, channels, -1});
  }
  x = dropout(ctx, reshape(ctx, x, {batch, -1}), config.head_dropout);
  const Tensor y = cast(ctx, heads.front()(ctx, x), DType::float32);
  if (!config.range) return y;
  const auto [low, high] = *config.range;
  return add(ctx, scale(ctx, sigmoid(ctx, y), high - low), number(ctx, low));
}

}  // namespace transformer
