#include "transformer/nn/stack.h"

#include <algorithm>
#include <cmath>

#include "transformer/ops/dropout.h"
#include "transformer/ops/elementwise.h"

namespace transformer {

Layer::Layer(const StackConfig& c)
    : order(c.order), separate_norms(c.separate_norms), drop_path(c.drop_path), attention(c, false), feed_forward(c), around_attention(c),
      around_feed_forward(c) {
  if (c.cross_attention) {
    cross_attention.emplace(c, true);
    around_cross_attention.emplace(c);
  }
  if (order == BlockOrder::sequential) around_attention.dropout = c.attention_output_dropout;
}

void Layer::operator()(Context& ctx, Stream& x, const AttentionCall& self, const AttentionCall& cross, Tensor* inner) const {
  const auto in_some = [&](const Tensor& sub) { return drop_sequences(ctx, sub, self.sequences, drop_path); };
  if (order == BlockOrder::parallel) {
    const Tensor h = x.normed(ctx, around_attention.norm);
    const Tensor g = separate_norms ? x.normed(ctx, around_feed_forward.norm) : h;
    return x.add(ctx, in_some(add(ctx, attention(ctx, h, self), feed_forward(ctx, g, inner))), around_attention.dropout);
  }
  around_attention(ctx, x, [&](const Tensor& h) { return in_some(attention(ctx, h, self)); });
  if (cross_attention) (*around_cross_attention)(ctx, x, [&](const Tensor& h) { return in_some((*cross_attention)(ctx, h, cross)); });
  around_feed_forward(ctx, x, [&](const Tensor& h) { return in_some(feed_forward(ctx, h, inner)); });
}

Stack::Stack(const StackConfig& c) : config(c.resolved()), positions(config) {
  const float scale = config.attention_scale != 0.0F ? config.attention_scale : 1.0F / std::sqrt(static_cast<float>(config.head_dim));
  StackConfig each = config;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    if (!config.windows.empty()) each.window = config.windows[static_cast<std::size_t>(i)];
    if (config.scale_by_layer) each.attention_scale = scale / static_cast<float>(i + 1);
    each.drop_path = config.layers > 1 ? config.drop_path * static_cast<float>(i) / static_cast<float>(config.layers - 1) : 0.0F;
    layers.emplace_back(each);
  }
  if (config.final_norm) final_norm = norm_of(config);
}

Tensor Stack::operator()(Context& ctx, const StackInput& in, StackTrace* trace) const {
  if (in.x.rank() != 2 || in.x.dim(1) != config.d_model || in.x.dim(0) != in.sequences.total())
    fail("Stack", "x {} does not fit: expected [{} tokens, d_model {}]", in.x.shape(), in.sequences.total(), config.d_model);
  if (config.cross_attention && !in.memory.defined() && (in.cache == nullptr || !in.cache->has_memory()))
    fail("Stack", "this decoder reads an encoder: memory is missing");
  if (!config.cross_attention && in.memory.defined())
    fail("Stack", "memory {} given, but this stack has no cross-attention", in.memory.shape());
  if (in.sequences.total() == 0)
    fail("Stack", "the batch is empty ({} sequences, 0 tokens): expected one token or more", in.sequences.count());
  std::optional<NoGradients> unrecorded;
  std::span<const std::int64_t> starts;
  if (in.cache != nullptr) {
    unrecorded.emplace(ctx);
    in.cache->begin(ctx, in.sequences, config.layers);
    starts = in.cache->lengths();
  }
  const bool repeats = in.cache != nullptr && in.cache->repeats();
  const std::int64_t longest = repeats ? in.cache->keys().longest() : std::max(positions_needed(in.sequences, starts), in.longest);
  AttentionCall self{.sequences = in.sequences,
                     .bias = in.bias,
                     .relative_bias = positions.bias(ctx, longest),
                     .rope = positions.rope(ctx, repeats ? std::min(longest, config.max_positions) : longest),
                     .cache = in.cache};
  if (self.rope && repeats) in.cache->keep({self.rope->cos, self.rope->sin});  // others may make the model longer ones
  if (self.rope && repeats) self.position = in.cache->positions();
  else if (self.rope) self.position = in.positions.defined() ? in.positions : position_ids(ctx, in.sequences, starts);
  AttentionCall cross{.sequences = in.memory_readers.value_or(in.sequences),
                      .memory = in.memory,
                      .memory_sequences = in.memory_sequences,
                      .bias = in.memory_bias,
                      .cache = in.cache};

  if (trace != nullptr && trace->inner) trace->bias = self.bias, trace->relative_bias = self.relative_bias;
  Stream x(in.x);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const Layer& layer = layers[static_cast<std::size_t>(i)];
    if (in.cache != nullptr) self.layer = cross.layer = &in.cache->layer(i);
    if (trace != nullptr) {
      trace->hidden_states.push_back(x.value(ctx));
      self.weights = &trace->attentions.emplace_back();
      if (config.cross_attention) cross.weights = &trace->cross_attentions.emplace_back();
    }
    const bool inner = trace != nullptr && trace->inner;
    x.through(ctx, i > 0 ? &layers[static_cast<std::size_t>(i - 1)] : nullptr, &layer);
    if (inner) self.projected = &trace->projections.emplace_back();
    layer(ctx, x, self, cross, inner ? &trace->feed_forwards.emplace_back() : nullptr);
  }
  if (config.layers > 0) x.through(ctx, &layers.back(), nullptr);
  if (in.cache != nullptr) in.cache->commit();
  const Tensor y = final_norm ? x.normed(ctx, *final_norm) : x.value(ctx);
  if (trace != nullptr) trace->hidden_states.push_back(y);
  return y;
}

}  // namespace transformer
