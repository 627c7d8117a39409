// transformer inspect: the parameters of a model by part, its share of feed-forward, FLOPs and memory, from its
// settings alone.
#include <map>
#include <memory>

#include "cli/flags.h"
#include "cli/verbs.h"
#include "transformer/models/transformer.h"

namespace transformer::cli {
namespace {

// "encoder.stack.layers.3.feed_forward.in.weight" → "encoder feed-forward"
std::string part_of(const std::string& name) {
  const std::string side = name.substr(0, name.find('.'));
  if (name.find(".embedding.") != std::string::npos) return side + " embedding";
  if (name.find("cross_attention.") != std::string::npos) return side + " cross-attention";
  if (name.find(".attention.") != std::string::npos) return side + " self-attention";
  if (name.find("feed_forward.") != std::string::npos) return side + " feed-forward";
  if (name.find("norm.") != std::string::npos) return side + " norms";
  if (name.find("positions.") != std::string::npos) return side + " positions";
  return "output projection";
}

void inspect(const TransformerConfig& config) {
  Transformer model(config);
  std::map<std::string, std::int64_t> parts;
  std::int64_t total = 0, ffn = 0, layers = 0, products = 0;
  for (const auto& [name, p] : parameters(model)) {
    const std::int64_t n = p->shape.numel();
    parts[part_of(name)] += n;
    total += n;
    if (name.find(".layers.") != std::string::npos) layers += n;
    if (name.find("feed_forward.") != std::string::npos) ffn += n;
    // Weights that every token is multiplied with; a shared or tied table is one of them as the output projection.
    const bool table = name.ends_with("embedding.weight"),
               projects = !model.output && name == (model.decoder.embedding ? "decoder.embedding.weight" : "encoder.embedding.weight");
    if (p->shape.rank() == 2 && (!table || projects)) products += n;
  }
  for (const auto& [part, n] : parts)
    fmt::print("{:<26}{:>14}{:>8.1f} %\n", part, n, 100.0 * static_cast<double>(n) / static_cast<double>(total));
  fmt::print("{:<26}{:>14}\n\n", "total", total);
  if (layers > 0)
    fmt::print("the feed-forward parts hold {:.1f} % of the layers' parameters\n",
               100.0 * static_cast<double>(ffn) / static_cast<double>(layers));
  fmt::print("{:.1f} MFLOP per pair of tokens forward, {:.1f} to train on it\n", 2e-6 * static_cast<double>(products),
             6e-6 * static_cast<double>(products));
  fmt::print("{:.1f} MB of float32 weights; {:.1f} MB with gradients and Adam's state\n", 4e-6 * static_cast<double>(total),
             16e-6 * static_cast<double>(total));
}

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("inspect", "parameters by part, FLOPs and memory of an encoder-decoder, from its settings");
  auto config = std::make_shared<TransformerConfig>();
  add_settings(*verb, *config);
  verb->callback([config] { inspect(*config); });
}

}  // namespace transformer::cli
