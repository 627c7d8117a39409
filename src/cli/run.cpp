// transformer run: a model's outputs, and gradients, for inputs from a file; names as Hugging Face has them.
#include <memory>

#include "cli/compute.h"
#include "cli/files.h"
#include "cli/flags.h"
#include "cli/verbs.h"
#include "transformer/autograd/autograd.h"
#include "transformer/models/lora.h"
#include "transformer/ops/shape.h"

namespace transformer::cli {
namespace {

struct RunConfig {
  std::string model = {}, adapter = {};
  std::string inputs = {}, outputs = {};
  bool gradients = false;
  Precision dtype = Precision::float32;
  std::string device = {};
  int threads = 0;

  static void visit(auto& self, auto&& field) {
    field("adapter", self.adapter, adapter_help);
    field("inputs", self.inputs, "a safetensors file: input_ids, attention_mask, pixel_values, past_values, labels ...");
    field("outputs", self.outputs, "the safetensors file that is written: logits, hidden_states.N, attentions.N, loss ...");
    field("gradients", self.gradients, "also the gradient of the loss for every tensor of the checkpoint, as grad.NAME");
    field("dtype", self.dtype, "what is computed with");
    field("device", self.device, device_help);
    field("threads", self.threads, "threads to compute with (0: all that the machine offers)");
  }
};

NamedTensors read_inputs(const std::string& path) {
  const SafetensorsFile file(path);
  NamedTensors inputs;
  for (const std::string& name : file.names()) inputs[name] = file.tensor(name);
  return inputs;
}

void run(const RunConfig& config) {
  for (const auto& [value, name] :
       {std::pair{&config.model, "MODEL"}, std::pair{&config.inputs, "--inputs"}, std::pair{&config.outputs, "--outputs"}})
    if (value->empty()) throw CLI::RequiredError(name);
  keep_apart({{"MODEL", config.model}, {"--adapter", config.adapter}, {"--inputs", config.inputs}}, {{"--outputs", config.outputs}});
  Context ctx(ComputeConfig{.device = config.device, .threads = config.threads, .precision = config.dtype}.context());
  // Gradients are of float32 weights; otherwise no more than what is computed with is in memory.
  const auto model = load_model(ctx, config.model,
                                {.dtype = config.gradients ? DType::float32 : ctx.precision(), .adapter = config.adapter});
  std::optional<NoGradients> no_gradients;
  if (!config.gradients) no_gradients.emplace(ctx);

  NamedTensors out = model->run(ctx, read_inputs(config.inputs), {.hidden_states = true, .attentions = true});
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const auto& [name, t] : out) tensors.emplace_back(name, is_float(t.dtype()) ? cast(ctx, t.detach(), DType::float32) : t);
  if (config.gradients) {
    const auto loss = out.find("loss");
    if (loss == out.end()) fail("run", "there is no loss to take gradients of: give labels (or future_values) as inputs");
    backward(ctx, loss->second);
    std::vector<Binding> all = model->bindings();  // under all names a tensor has
    for (Binding& b : adapter_bindings(*model)) all.push_back(std::move(b));
    for (const Binding& b : all)
      if (const Tensor& weight = b.ours.parameter->tensor; has_gradient(weight) && gradient(weight).defined())
        tensors.emplace_back("grad." + b.theirs, b.to_theirs(ctx, gradient(weight)));
  }
  save_safetensors(config.outputs, tensors);
}

}  // namespace

void add_run(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("run", "a model's outputs and gradients for inputs from a safetensors file");
  auto config = std::make_shared<RunConfig>();
  verb->add_option("MODEL", config->model, "a model's folder");
  add_settings(*verb, *config);
  verb->callback([=] { run(*config); });
}

}  // namespace transformer::cli
