// A Transformer encoder: six pre-norm layers on a batch of two sentences of 16 tokens, and its parameters by part.
#include <cstdio>

#include "transformer/transformer.h"

using namespace transformer;

int main() {
  Context ctx;
  Encoder encoder({.d_model = 256,
                   .num_heads = 8,
                   .d_ff = 1024,
                   .num_layers = 6,
                   .src_vocab_size = 0,
                   .norm = NormPlace::pre,
                   .activation = FeedForwardKind::gelu});
  initialize(ctx, encoder);

  const Sequences sentences = Sequences::uniform(2, 16);
  const Tensor x = random_normal(ctx, {sentences.total(), 256});  // [tokens, d_model]
  StackTrace trace;
  const Tensor y = encoder(ctx, x, sentences, {}, &trace);
  const Tensor averaged = mean(ctx, trace.attentions[0], {1});  // over the heads

  std::printf("input    %s\n", reshape(ctx, x, {2, 16, 256}).shape().str().c_str());
  std::printf("output   %s\n", reshape(ctx, y, {2, 16, 256}).shape().str().c_str());
  std::printf("weights  %s per layer, %s averaged over the heads, %zu layers\n", trace.attentions[0].shape().str().c_str(),
              averaged.shape().str().c_str(), trace.attentions.size());

  const std::int64_t total = count_parameters(encoder);
  std::int64_t ffn = 0;
  for (const auto& [name, parameter] : parameters(encoder))
    if (name.find("feed_forward.") != std::string::npos) ffn += parameter->shape.numel();
  std::printf("parameters %lld, of which the feed-forward layers hold %.1f %%\n", static_cast<long long>(total),
              100.0 * static_cast<double>(ffn) / static_cast<double>(total));
  return total == 4'739'072 ? 0 : 1;
}
