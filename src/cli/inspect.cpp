// transformer inspect: the parameters of an encoder-decoder by part, its share of feed-forward, FLOPs and memory, from its
// settings alone.
#include <map>
#include <memory>

#include "cli/flags.h"
#include "cli/verbs.h"
#include "transformer/models/classic.h"

namespace transformer::cli {
namespace {

bool has(const std::string& name, std::string_view part) { return name.find(part) != std::string::npos; }

// "encoder.stack.layers.3.feed_forward.in.weight" → "encoder feed-forward"
std::string part_of(const std::string& name) {
  const std::string side = name.substr(0, name.find('.'));
  if (has(name, ".embedding.")) return side + " embedding";
  if (has(name, "cross_attention.")) return side + " cross-attention";
  if (has(name, ".attention.")) return side + " self-attention";
  if (has(name, "feed_forward.")) return side + " feed-forward";
  if (has(name, "norm.")) return side + " norms";
  if (has(name, "positions.")) return side + " positions";
  return "output projection";
}

struct Counts {
  std::map<std::string, std::int64_t> parts;
  std::int64_t total = 0, layers = 0, feed_forward = 0;
  std::int64_t source = 0, target = 0;  // weights that every source or target token is multiplied with
};

Counts count(Transformer& model) {
  Counts c;
  const std::string output = model.output ? "output.weight"
      : model.decoder.embedding           ? "decoder.embedding.weight"
                                          : "encoder.embedding.weight";
  for (const auto& [name, p] : parameters(model)) {
    const std::int64_t n = p->shape.numel();
    c.parts[part_of(name)] += n;
    c.total += n;
    if (has(name, ".layers.")) c.layers += n;
    if (has(name, "feed_forward.")) c.feed_forward += n;
    if (p->shape.rank() != 2) continue;
    // Looking a token up multiplies nothing; a shared or tied table is a product as the output projection. Keys and values of
    // the cross-attention are made from the source.
    if (name == output) c.target += n;
    else if (has(name, ".layers.")) (name.starts_with("encoder.") || has(name, "cross_attention.kv") ? c.source : c.target) += n;
  }
  return c;
}

void inspect(const TransformerConfig& config) {
  Transformer model(config);
  const Counts c = count(model);
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  fmt::print("{:<26}{:>14}{:>10}\n", "part", "parameters", "share");
  for (const auto& [part, n] : c.parts) fmt::print("{:<26}{:>14}{:>8.1f} %\n", part, n, 100.0 * number(n) / number(c.total));
  fmt::print("{:<26}{:>14}\n\n", "total", c.total);
  if (c.layers > 0)
    fmt::print("feed-forward: {:.1f} % of the layers' parameters, {:.1f} % of all\n", 100.0 * number(c.feed_forward) / number(c.layers),
               100.0 * number(c.feed_forward) / number(c.total));
  // A weight costs a token one product and one sum forward, and twice that backward. Every token attended to costs 4·d in each
  // layer: d products and sums for its score, as many for its value.
  const StackConfig encoder = config.stack(false).resolved(), decoder = config.stack(true).resolved();
  const auto attention = [](const StackConfig& s) { return 4e-6 * static_cast<double>(s.heads * s.head_dim * s.layers); };
  fmt::print("FLOPs forward: {:.2f} M per source token, {:.2f} M per target token; three times that to train\n", 2e-6 * number(c.source),
             2e-6 * number(c.target));
  fmt::print("  and for each token attended to: {:.4f} M in the encoder, {:.4f} M in the decoder and as much for each source token\n",
             attention(encoder), attention(decoder));
  fmt::print("memory: {:.1f} MB of weights in float32, {:.1f} MB in bfloat16\n", 4e-6 * number(c.total), 2e-6 * number(c.total));
  fmt::print("  to train: {:.1f} MB with gradients and Adam's state, {:.1f} MB with bfloat16 copies too; and the activations\n",
             16e-6 * number(c.total), 18e-6 * number(c.total));
}

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("inspect", "parameters by part, FLOPs and memory of an encoder-decoder");
  auto config = std::make_shared<TransformerConfig>();
  const auto read = [config](const std::string& folder) { *config = read_transformer_config(folder); };
  verb->add_option_function<std::string>("MODEL", read, "a model's folder; flags change its settings");
  add_settings(*verb, *config);
  verb->callback([config] { inspect(*config); });
}

}  // namespace transformer::cli
