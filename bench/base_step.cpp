#include "base_step.h"

namespace transformer::bench {
namespace {

constexpr std::int64_t pairs = 16, length = 32, vocabulary = 32000;

Tensor random_ids(Context& ctx, std::int64_t n) {
  const RandomStream stream = ctx.random().next();
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < n; ++i) ids.push_back(1 + stream.bits(static_cast<std::uint64_t>(i)) % (vocabulary - 1));
  return Tensor::from<std::int64_t>(ctx, {n}, ids);
}

}  // namespace

double matmul_rate(DType dtype, int threads) {
  Context ctx({.threads = threads});
  const NoGradients no_gradients(ctx);
  double best = 0.0;
  struct Size {
    std::int64_t m, n, k;
  };
  for (const Size& s : {Size{512, 512, 512}, {512, 2048, 512}, {1024, 1024, 1024}, {2048, 2048, 2048}}) {
    const Tensor a = cast(ctx, random_uniform(ctx, {s.m, s.k}, -1.0F), dtype), b = cast(ctx, random_uniform(ctx, {s.n, s.k}, -1.0F), dtype);
    matmul(ctx, a, b, false, true);
    const double begin = seconds();
    do {
      const double before = seconds();
      matmul(ctx, a, b, false, true);
      best = std::max(best, 2.0 * static_cast<double>(s.m * s.n * s.k) / (seconds() - before));
    } while (seconds() - begin < 0.15);
  }
  return best;
}

BaseStep::BaseStep(DType precision, int threads, std::shared_ptr<Communicator> processes)
    : ctx_({.threads = threads, .seed = 1, .precision = precision, .communicator = std::move(processes)}),
      model_(TransformerConfig{.src_vocab_size = vocabulary}) {
  initialize(ctx_, model_);
  const Sequences sentences = Sequences::uniform(pairs, length);
  batch_ = {.source_ids = random_ids(ctx_, pairs * length),
            .source = sentences,
            .target_ids = random_ids(ctx_, pairs * length),
            .target = sentences,
            .labels = random_ids(ctx_, pairs * length)};
  optimizer_ = std::make_unique<Adam>(ctx_, parameters(model_), AdamOptions{.weight_decay = 0.01F});
  ctx_.set_training(true);
}

float BaseStep::run() {
  ctx_.random().begin_step(++step_);
  const Tensor loss = model_.loss(ctx_, batch_);
  const float value = loss.item();
  backward(ctx_, loss, {}, optimizer_->exchanging());
  optimizer_->step(ctx_, 1e-4F, 1.0F);
  optimizer_->zero_gradients();
  return value;
}

double BaseStep::flops() const {
  double total = 0.0;
  for (const auto& [name, p] : parameters(const_cast<Transformer&>(model_))) {
    // The shared embedding counts once, as the output projection of the target tokens. K and V of the
    // cross-attention read the source.
    const bool source = name.starts_with("encoder.stack") || name.find("cross_attention.kv") != std::string::npos;
    total += 6.0 * static_cast<double>(p->shape.numel() * (source ? source_tokens() : target_tokens()));
  }
  return total;
}

BaseStep::Memory BaseStep::memory() {
  run();
  ctx_.allocator().release_kept();
  ctx_.allocator().reset_peak();
  run();
  const auto weights = static_cast<double>(count_parameters(model_));
  const bool low = ctx_.precision() == DType::bfloat16;
  Memory m{};
  m.weights = weights * (low ? 6.0 : 4.0);  // float32, and a bfloat16 copy to compute with
  m.gradients = weights * 4.0;
  m.adam = weights * 8.0;
  m.peak = static_cast<double>(ctx_.allocator().stats().peak_reserved);

  // What backward needs of each token, in elements of width d, layer by layer: the inputs of the products (x, the
  // attention's output, the FFN's input and its hidden layer), Q, K, V, and the inputs of the norms.
  const TransformerConfig& c = model_.config;
  const double d = static_cast<double>(c.d_model), ff = static_cast<double>(c.d_ff), element = low ? 2.0 : 4.0;
  const double source = static_cast<double>(source_tokens()), target = static_cast<double>(target_tokens()),
               layers = static_cast<double>(c.num_layers);
  const double self_attention = 6.0 * d;     // x, Q, K, V, heads' output, norm's input
  const double cross_attention = 4.0 * d;    // x, Q, heads' output, norm's input; and K, V of the memory
  const double feed_forward = 2.0 * d + ff;  // x, norm's input, hidden
  m.activations = element * layers *
          (source * (self_attention + feed_forward) + target * (self_attention + cross_attention + feed_forward) + source * 2.0 * d) +
      element * (source + 2.0 * target) * d;  // the encoder's output, the decoder's output and its gradient
  return m;
}

}  // namespace transformer::bench
