// transformer inspect: the parameters of a model by part, its share of feed-forward, FLOPs and memory, from its settings alone:
// those of a folder of any family, or flags for an encoder-decoder that is yet to be.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "cli/compute.h"
#include "cli/flags.h"
#include "cli/verbs.h"
#include "io/shared/json.h"
#include "transformer/models/classic.h"
#include "transformer/models/cost.h"
#include "transformer/models/encoder_decoder_model.h"

namespace transformer::cli {
namespace {

void print_parts(const ModelCost& c) {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  fmt::print("{:<26}{:>14}{:>10}\n", "part", "parameters", "share");
  for (const auto& [part, n] : c.parts) fmt::print("{:<26}{:>14}{:>8.1f} %\n", part, n, 100.0 * number(n) / number(c.parameters));
  fmt::print("{:<26}{:>14}\n\n", "total", c.parameters);
  if (c.in_layers > 0)
    fmt::print("feed-forward: {:.1f} % of the layers' parameters, {:.1f} % of all\n",
               100.0 * number(c.in_feed_forward) / number(c.in_layers), 100.0 * number(c.in_feed_forward) / number(c.parameters));
}

void print_memory(const ModelCost& c) {
  const auto total = static_cast<double>(c.parameters);
  fmt::print("memory: {:.1f} MB of weights in float32, {:.1f} MB in bfloat16\n", 4e-6 * total, 2e-6 * total);
  fmt::print("  to train: {:.1f} MB with gradients and Adam's state, {:.1f} MB with bfloat16 copies too; and the activations\n",
             16e-6 * total, 18e-6 * total);
}

// What processes share out: parameters that are trained, those in layers, those of the largest layer.
struct Size {
  double parameters = 0.0, in_layers = 0.0, largest_layer = 0.0;
};

Size size_of_parts(const std::vector<NamedParameter>& parameters) {
  Size size{.parameters = static_cast<double>(count(parameters))};
  std::map<const void*, double> layers;
  for (const NamedParameter& p : parameters)
    if (p.parameter->trained && p.parameter->layer != nullptr)
      layers[p.parameter->layer] += static_cast<double>(p.parameter->shape.numel());
  for (const auto& [layer, elements] : layers) size.in_layers += elements, size.largest_layer = std::max(size.largest_layer, elements);
  return size;
}

Size inspect(EncoderDecoder& model) {
  const ModelCost c = cost_of(model);
  print_parts(c);
  fmt::print("FLOPs forward: {:.2f} M per source token, {:.2f} M per target token; three times that to train\n",
             1e-6 * c.source_token_flops, 1e-6 * c.token_flops);
  fmt::print("  and for each token attended to: {:.4f} M in the encoder, {:.4f} M in the decoder and as much for each source token\n",
             1e-6 * c.source_attended_flops, 1e-6 * c.attended_flops);
  print_memory(c);
  return size_of_parts(parameters(model));
}

Size inspect(Model& model) {
  if (auto* both = dynamic_cast<EncoderDecoderModel*>(&model)) return inspect(both->network);
  const ModelCost c = cost_of(model);
  print_parts(c);
  if (c.sample_tokens > 0) {
    const bool image = model.purpose() == Purpose::image_labels || model.purpose() == Purpose::image_vectors;
    fmt::print("FLOPs forward: {:.2f} M in the layers for {} of {} patches and special tokens; three times that to train\n",
               1e-6 * c.sample_flops, image ? "an image" : "a channel of a series", c.sample_tokens);
  } else {
    fmt::print("FLOPs forward: {:.2f} M per token; three times that to train\n", 1e-6 * c.token_flops);
    fmt::print("  and for each token attended to: {:.4f} M\n", 1e-6 * c.attended_flops);
  }
  print_memory(c);
  if (c.cached_bytes > 0) fmt::print("  to generate: {:.1f} KB more for each token of a sequence, in float32\n", 1e-3 * c.cached_bytes);
  return size_of_parts(model.parameters());
}

// The device and its memory, and how many threads there would be; and what training by several processes would take.
struct InspectDevice {
  std::string device = {};
  std::int64_t processes = 1;
  static void visit(auto& self, auto&& field) {
    field("device", self.device, "also show this device: cpu, cuda, cuda:1 or auto");
    field("processes", self.processes, "also show what each of so many processes that train together needs and sends (see docs/scale.md)");
  }
};

// Weights and gradients are whole in each process; the sums of its part of the gradients and Adam's state are a part. With --shard weights
// so are the layers' weights and gradients, but for the layer that computes, the one that comes next, and the gradients of two.
void show_processes(const Size& size, std::int64_t count) {
  if (count < 1) throw CLI::ValidationError("--processes", fmt::format("is {}: expected 1 or more", count));
  const double total = size.parameters, n = static_cast<double>(count), sent = (n - 1.0) / n;
  const double optimizer = 8e-6 * total / n, sums = count > 1 ? 4e-6 * total / n : 0.0, whole = 8e-6 * total;
  fmt::print("\nto train with {} {}, each has in float32:\n", count, count == 1 ? "process" : "processes");
  fmt::print(
      "  {:.1f} MB of weights and gradients, {:.1f} MB of Adam's state, {:.1f} MB of summed gradients: {:.1f} MB; and the activations\n",
      whole, optimizer, sums, whole + optimizer + sums);
  fmt::print("  and sends {:.1f} MB for each update, half of it while backward goes on: {:.1f} MB of gradients, {:.1f} MB of weights\n",
             8e-6 * total * sent, 4e-6 * total * sent, 4e-6 * total * sent);
  if (count == 1 || size.in_layers == 0.0) return;
  const double outside = 8e-6 * (total - size.in_layers), pieces = 4e-6 * size.in_layers / n, now = 16e-6 * size.largest_layer;
  fmt::print("with --shard weights:\n");
  fmt::print(
      "  {:.1f} MB of the layers' weights, {:.1f} MB of those at work and their gradients, {:.1f} MB of weights and gradients outside of "
      "layers, {:.1f} MB of Adam's state, {:.1f} MB of summed gradients: {:.1f} MB; and the activations\n",
      pieces, now, outside, optimizer, sums, pieces + now + outside + optimizer + sums);
  fmt::print("  and sends {:.1f} MB for each update of one micro-batch a process: {:.1f} MB of gradients, {:.1f} MB of weights\n",
             (8e-6 * total + 4e-6 * size.in_layers) * sent, 4e-6 * total * sent, (4e-6 * total + 4e-6 * size.in_layers) * sent);
}

void show_device(const std::string& name) {
  Context ctx(ComputeConfig{.device = name}.context());
  fmt::print("\ndevice {}: {}\n", ctx.device(), ctx.backend().description());
  fmt::print("threads: {}\n", ctx.threads());
}

Size inspect(const TransformerConfig& config, const std::optional<nlohmann::json>& folder) {
  if (!folder) {
    Transformer model(config);
    return inspect(model);
  }
  if (to_json(config) != to_json(TransformerConfig{}))
    throw CLI::ValidationError("flags change the settings of models of type transformer only; MODEL is of type " + model_type_of(*folder));
  const std::unique_ptr<Model> model = make_model(*folder);
  return inspect(*model);
}

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("inspect", "parameters by part, FLOPs and memory of a model");
  auto config = std::make_shared<TransformerConfig>();
  auto other = std::make_shared<std::optional<nlohmann::json>>();  // config.json of another family
  const auto read = [config, other](const std::string& folder) {
    const nlohmann::json settings = read_json(std::filesystem::path(folder) / "config.json");
    if (settings.is_object() && !is_classic(settings)) *other = settings;
    else *config = read_transformer_config(folder);
  };
  verb->add_option_function<std::string>("MODEL", read, "a model's folder; of a model of type transformer, flags change the settings");
  auto device = std::make_shared<InspectDevice>();
  add_settings(*verb, *config, *device);
  verb->callback([config, other, device] {
    const Size size = inspect(*config, *other);
    if (device->processes != 1) show_processes(size, device->processes);
    if (!device->device.empty()) show_device(device->device);
  });
}

}  // namespace transformer::cli
