#include "transformer/train/model_task.h"

#include "io/shared/json.h"
#include "train/shared/starting_folder.h"
#include "transformer/autograd/autograd.h"

namespace transformer {

namespace fs = std::filesystem;
using nlohmann::json;

Tensor to_tensor(Context& ctx, const HostTensor& host) {
  return std::visit([&]<class T>(const std::vector<T>& values) { return Tensor::from<T>(ctx, host.shape, values); }, host.values);
}

NamedTensors to_tensors(Context& ctx, const HostTensors& host) {
  NamedTensors out;
  for (const auto& [name, tensor] : host) out[name] = to_tensor(ctx, tensor);
  return out;
}

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

ModelTask::ModelTask(Context& ctx, std::string name) : ctx_(ctx), name_(std::move(name)) {}

std::uint64_t ModelTask::seed() const { return ctx_.random().seed(); }

void ModelTask::build_model(const json& config) {
  model_ = make_model(config);
  initialize(ctx_, model_->parameters());
}

void ModelTask::open_model(const std::string& folder, const std::function<json(const json& config)>& changes,
                           const std::function<std::string(const Model& model)>& why_not, const LoraConfig& lora) {
  const ModelFolder at = model_folder(folder, lora.adapter);
  const json config = at.config();
  const json changed = changes(config);
  try {
    json wanted = config;
    wanted.update(changed);
    const std::string reason = why_not(*make_model(wanted));  // no memory is taken for a model of another kind
    if (!reason.empty()) fail("config.json", "a model of type \"{}\" {}", model_type_of(config), reason);
  } catch (const Error& e) {
    fail(folder, "{}", e.what());
  }
  if (!at.adapter.empty() && lora.rank != 0)
    fail(at.adapter.string(), "an adapter that is trained further keeps its rank: leave lora_rank out, or give the base alone");
  const bool adapts = !at.adapter.empty() || lora.rank != 0;
  model_ = load_model(ctx_, at.base,
                      {.dtype = adapts ? ctx_.precision() : DType::float32, .changes = changed, .adapter = at.adapter, .lora = lora});
  start_ = std::make_shared<const StartingFolder>(at);
  from_ = folder;
}

std::string ModelTask::size() const {
  const std::int64_t trained = count(trained_parameters(*model_));
  if (!model_->lora) return fmt::format("{} parameters", trained);
  std::int64_t all = 0;
  for (const NamedParameter& p : model_->parameters()) all += p.parameter->shape.numel();
  return fmt::format("{} parameters; of an adapter of rank {}, {} are trained", all, model_->lora->rank, trained);
}

void ModelTask::check_fresh(const std::optional<fs::path>& resumed) const {
  if (resumed && read_json(*resumed / "trainer.json").contains(json::json_pointer("/identity/start")))
    fail(resumed->string(), "this run trains a ready model further: name its folder again (--from), or choose another save_dir");
}

json ModelTask::model_identity() const {
  json out{{"architecture", model_->config()}};
  if (start_) out["start"] = {{"weights", start_->weights}};
  if (const auto& lora = model_->lora)
    out["lora"] = {{"rank", lora->rank}, {"alpha", lora->alpha}, {"dropout", lora->dropout}, {"targets", lora->targets}};
  return out;
}

std::vector<NamedParameter> ModelTask::parameters() { return trained_parameters(*model_); }

std::vector<NamedParameter> ModelTask::statistics() {
  std::vector<NamedParameter> out = model_->parameters();
  std::erase_if(out, [](const NamedParameter& p) {  // as Norm::visit names them
    return p.parameter->trained || !(p.name.ends_with(".running_mean") || p.name.ends_with(".running_variance"));
  });
  return out;
}

Tensor ModelTask::loss(Context& ctx, const Batch& batch) const {
  return model_->run(ctx, to_tensors(ctx, *std::any_cast<HostTensors>(&batch.content)), {.logits = false}).at("loss");
}

NamedTensors ModelTask::evaluate(Context& ctx, const HostTensors& inputs, const RunOptions& options) const {
  const NoGradients no_gradients(ctx);
  return model_->run(ctx, to_tensors(ctx, inputs), options);
}

void ModelTask::save(const fs::path& folder) {
  if (!start_) {
    save_model(ctx_, *model_, folder);
    return save_beside(folder);
  }
  if (model_->lora) save_adapter(ctx_, *model_, folder, start_->base);
  else
    save_model(ctx_, *model_, folder,
               {.files = false, .dtype = DType::float32});  // all bits, whatever the folder had: training goes on from them
  start_->write_files(folder);
}

void ModelTask::write_beside(const fs::path& folder) const {
  if (start_) start_->write_files(folder);
  else save_beside(folder);
}

void ModelTask::load(Context& ctx, const fs::path& folder) {
  if (model_->lora) return load_adapter(ctx, *model_, folder);
  transformer::load(ctx, model_->bindings(), Checkpoint(folder), model_->load_rules());
}

}  // namespace transformer
