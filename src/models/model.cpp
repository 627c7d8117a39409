#include "transformer/models/model.h"

#include <fmt/format.h>

#include "io/shared/atomic_file.h"
#include "io/shared/json.h"
#include "io/shared/read_file.h"
#include "models/shared/files_beside.h"
#include "transformer/autograd/layer_weights.h"
#include "transformer/models/lora.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

// The type config.json says the tensors have, under its new or its old name.
std::optional<DType> stored_dtype(const nlohmann::json& config) {
  for (const char* key : {"dtype", "torch_dtype"})
    if (const auto it = config.find(key); it != config.end() && it->is_string())
      for (DType t : {DType::float32, DType::bfloat16, DType::float16})
        if (*it == name_of(t)) return t;
  return {};
}

// The same configuration for tensors of another type.
nlohmann::json with_dtype(nlohmann::json config, DType dtype) {
  if (stored_dtype(config).value_or(DType::float32) == dtype) return config;
  config[config.contains("torch_dtype") ? "torch_dtype" : "dtype"] = name_of(dtype);
  return config;
}

void copy_files(const Model::Origin& from, const std::filesystem::path& to) {
  std::error_code ignored;
  if (from.files.empty() || std::filesystem::equivalent(from.folder, to, ignored)) return;
  for (const std::string& name : from.files) {
    if (!std::filesystem::exists(from.folder / name))
      fail((from.folder / name).string(), "was there when the model was loaded and is gone: it cannot be copied to {}", to.string());
    std::filesystem::create_directories((to / name).parent_path(), ignored);
    AtomicFile file(to / name);
    file.write(read_file(from.folder / name));
    file.commit();
  }
}

}  // namespace

std::unique_ptr<Model> load_model(Context& ctx, const std::filesystem::path& folder, const LoadOptions& options) {
  const ModelFolder at = model_folder(folder, options.adapter);
  nlohmann::json config = at.config();
  config.update(options.changes);
  std::unique_ptr<Model> model;
  try {
    model = make_model(config);
  } catch (const Error& e) {
    fail(folder.string(), "{}", e.what());
  }
  LoadRules rules = model->load_rules();
  rules.dtype = options.dtype;
  rules.mapped = options.mapped && at.adapter.empty() && options.lora.rank == 0;
  for (const char* key : {"architectures", "id2label", "num_labels"}) rules.fresh_head |= options.changes.contains(key);
  rules.fresh_head |= !at.adapter.empty();  // which brings what is missing
  const Checkpoint files(at.base);
  model->adapt(files);
  const std::vector<NamedParameter> fresh = load(ctx, model->bindings(), files, rules);
  model->origin_ = {std::filesystem::absolute(at.base), files_beside(at.base)};
  if (!at.adapter.empty()) open_adapter(ctx, *model, at.adapter, fresh);
  else if (options.lora.rank != 0) add_lora(ctx, *model, options.lora, fresh);
  return model;
}

void save_model(Context& ctx, Model& model, const std::filesystem::path& folder, const SaveOptions& options) {
  const DType dtype = options.dtype.value_or(stored_dtype(model.config()).value_or(DType::float32));
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);  // writing says what is wrong
  const std::vector<Binding> bindings = model.bindings();
  write_safetensors(folder / "model.safetensors", tensors_to_save(ctx, bindings, dtype), {{"format", "pt"}});
  read_layer(ctx, nullptr);
  if (options.files) copy_files(model.origin(), folder);
  write_json(folder / "config.json", with_dtype(model.config(), dtype));
}

NamedTensors Model::run(Context& ctx, const NamedTensors& inputs, const RunOptions& options) const {
  const auto is_elsewhere = [&](const auto& named) { return named.second.defined() && named.second.device() != ctx.device(); };
  if (std::none_of(inputs.begin(), inputs.end(), is_elsewhere)) return compute(ctx, inputs, options);
  NamedTensors here = inputs;
  for (auto& named : here)
    if (is_elsewhere(named)) named.second = named.second.to(ctx);
  return compute(ctx, here, options);
}

const Tensor* optional_input(const NamedTensors& inputs, std::string_view name, int rank) {
  const auto it = inputs.find(name);
  if (it == inputs.end()) return nullptr;
  if (!it->second.defined() || it->second.rank() != rank) fail("run", "{} {} should have {} dimensions", name, it->second.shape(), rank);
  return &it->second;
}

const Tensor& input(const NamedTensors& inputs, std::string_view name, int rank) {
  if (const Tensor* t = optional_input(inputs, name, rank)) return *t;
  std::vector<std::string> given;
  for (const auto& [key, tensor] : inputs) given.push_back(key);
  fail("run", "the model needs {}; given: {}", name, given.empty() ? "nothing" : fmt::to_string(fmt::join(given, ", ")));
}

void check_inputs(const NamedTensors& inputs, const std::vector<std::string>& known) {
  for (const auto& [name, tensor] : inputs)
    if (std::find(known.begin(), known.end(), name) == known.end())
      fail("run", "the model does not know the input '{}', only {}{}", name, fmt::join(known, ", "), did_you_mean(name, known));
}

}  // namespace transformer
