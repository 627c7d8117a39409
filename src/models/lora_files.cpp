#include "models/lora_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/shared/json.h"
#include "transformer/io/config.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* config_file = "config.json";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

json read_object(const fs::path& path) {
  json out = read_json(path);
  if (!out.is_object()) fail(path.string(), "expected an object, got {}", out.type_name());
  return out;
}

SafetensorsFile open_weights(const fs::path& folder) {
  if (!is_file(folder / adapter_config_file)) fail(folder.string(), "is not an adapter: there is no {}", adapter_config_file);
  if (!is_file(folder / adapter_weights_file) && is_file(folder / "adapter_model.bin"))
    fail(folder.string(),
         "has adapter_model.bin but no {}: such a file can run any program when it is opened, and is not read. In Python, "
         "PeftModel.from_pretrained(base, folder).save_pretrained(folder) makes safetensors of it",
         adapter_weights_file);
  return SafetensorsFile(folder / adapter_weights_file);
}

// Reads what counts and refuses by name what would change the numbers. What the tensors tell themselves (which modules, which rank) is
// not asked for; keys that are not known must say nothing: null, false, or empty.
LoraConfig read_adapter_config(const fs::path& path) {
  json file = read_object(path);
  const auto take = [&](const char* key, json otherwise) {
    const auto it = file.find(key);
    if (it == file.end() || it->is_null()) return otherwise;
    json value = *it;
    file.erase(it);
    return value;
  };
  const auto refuse = [&](const std::string& key, const json& value, std::string_view why) {
    fail(path.string(), "{} is {}: {}", key, value.dump(-1, ' ', false, json::error_handler_t::replace), why);
  };
  if (const json type = take("peft_type", "LORA"); type != "LORA") refuse("peft_type", type, "only LORA is supported");
  if (const json bias = take("bias", "none"); bias != "none")
    refuse("bias", bias, "only \"none\" is supported, biases that stay as they are");
  // How A and B began does not matter, but some ways change the base's weights too.
  if (const json start = take("init_lora_weights", true); !start.is_boolean() && start != "gaussian" && start != "orthogonal")
    refuse("init_lora_weights", start, "the weights of the base were changed with it; true, false, gaussian and orthogonal are supported");
  LoraConfig out;
  detail::read_value(take("r", 8), out.rank, "r");
  detail::read_value(take("lora_alpha", 8), out.alpha, "lora_alpha");
  detail::read_value(take("lora_dropout", 0.0), out.dropout, "lora_dropout");
  detail::read_value(take("use_rslora", false), out.rslora, "use_rslora");
  const json targets = take("target_modules", json::array());
  if (targets.is_array()) detail::read_value(targets, out.targets, "target_modules");  // not a pattern
  detail::read_value(take("modules_to_save", json::array()), out.saved, "modules_to_save");
  if (out.rank < 1 || !(out.alpha > 0.0F) || !(out.dropout >= 0.0F && out.dropout < 1.0F))
    fail(path.string(), "r, lora_alpha and lora_dropout are {}, {} and {}: expected 1 or more, more than 0, and a value in [0, 1)",
         out.rank, out.alpha, out.dropout);
  for (const char* neutral : {"auto_mapping", "base_model_name_or_path", "exclude_modules", "fan_in_fan_out", "inference_mode",
                              "layers_pattern", "layers_to_transform", "megatron_core", "peft_version", "rank_pattern", "revision",
                              "task_type", "runtime_config", "qalora_group_size"})
    file.erase(neutral);
  for (const auto& [key, value] : file.items())
    if (!value.is_null() && value != false && !((value.is_array() || value.is_object()) && value.empty()))
      refuse(key, value, "that is not supported");
  return out;
}

// Classes of Hugging Face by what PEFT calls their task.
constexpr std::pair<std::string_view, std::string_view> tasks[] = {{"ForCausalLM", "CAUSAL_LM"},
                                                                   {"LMHeadModel", "CAUSAL_LM"},
                                                                   {"ForSequenceClassification", "SEQ_CLS"},
                                                                   {"ForTokenClassification", "TOKEN_CLS"},
                                                                   {"ForConditionalGeneration", "SEQ_2_SEQ_LM"},
                                                                   {"MTModel", "SEQ_2_SEQ_LM"}};

std::string architecture(const json& config) {
  const auto it = config.find("architectures");
  return it != config.end() && it->is_array() && !it->empty() && it->front().is_string() ? it->front().get<std::string>() : "";
}

// An adapter for classes brings its head along, which the base may not have: config.json of the model that it is on.
json with_head(json config, const fs::path& adapter) {
  const json task = read_object(adapter / adapter_config_file).value("task_type", json());
  if (task != "SEQ_CLS" && task != "TOKEN_CLS") return config;
  const std::string head = task == "SEQ_CLS" ? "ForSequenceClassification" : "ForTokenClassification";
  std::string name = architecture(config);
  if (!name.ends_with(head)) {
    for (const std::string_view other :
         {"LMHeadModel", "Model", "ForMaskedLM", "ForCausalLM", "ForPreTraining", "ForSequenceClassification", "ForTokenClassification"})
      if (name.ends_with(other)) {
        name.resize(name.size() - other.size());
        break;
      }
    config["architectures"] = json::array({name + head});
  }
  const SafetensorsFile weights = open_weights(adapter);
  for (const std::string& tensor : weights.names())
    for (const char* output : {"classifier.weight", "score.weight", "classifier.out_proj.weight"}) {
      if (tensor != peft_prefix + output) continue;
      const std::int64_t classes = weights.shape(tensor)[0];
      if (const auto names = config.find("id2label"); names != config.end() && names->is_object() && std::ssize(*names) == classes) break;
      json names = json::object();
      for (std::int64_t i = 0; i < classes; ++i) names[std::to_string(i)] = fmt::format("LABEL_{}", i);
      config.erase("label2id"), config.erase("num_labels");
      config["id2label"] = names;
    }
  return config;
}

}  // namespace

AdapterFiles::AdapterFiles(const fs::path& folder)
    : weights(open_weights(folder)), config(read_adapter_config(folder / adapter_config_file)) {
  for (const std::string& name : weights.names())
    if (name.find("lora_embedding_") != std::string::npos)
      fail(weights.path(), "{} adapts a table of embeddings, which is not supported", name);
}

ModelFolder model_folder(const fs::path& folder, const fs::path& adapter) {
  if (!adapter.empty() && !is_file(adapter / adapter_config_file))
    fail(adapter.string(), "is not an adapter: there is no {}", adapter_config_file);
  if (!is_file(folder / adapter_config_file) || is_file(folder / "model.safetensors")) return {folder, adapter};
  if (!adapter.empty()) fail(folder.string(), "is an adapter itself: give the folder of its base, and one adapter");
  const fs::path path = folder / adapter_config_file;
  const json named = read_object(path).value("base_model_name_or_path", json());
  if (!named.is_string() || named.get<std::string>().empty()) fail(path.string(), "names no base_model_name_or_path");
  const fs::path base = named.get<std::string>();
  for (const fs::path& at : {base, folder / base})  // as PEFT has it, or beside the adapter
    if (is_file(at / config_file)) return {at, folder};
  fail(path.string(), "the base model is {}, and there is no such folder: give the base's folder, and this one as its adapter (--adapter)",
       base.string());
}

json ModelFolder::config() const {
  json config = read_object((!adapter.empty() && is_file(adapter / config_file) ? adapter : base) / config_file);
  return adapter.empty() || is_file(adapter / config_file) ? config : with_head(std::move(config), adapter);
}

json adapter_json(const LoraConfig& c, const json& model, const fs::path& base, const json& ranks, bool transposed) {
  json task;
  for (const auto& [ending, name] : tasks)
    if (architecture(model).ends_with(ending)) task = name;
  std::error_code ignored;
  return {{"peft_type", "LORA"},
          {"task_type", task},
          {"base_model_name_or_path", fs::absolute(base, ignored).lexically_normal().string()},
          {"r", c.rank},
          {"rank_pattern", ranks},
          {"lora_alpha", detail::write_value(c.alpha, "lora_alpha")},
          {"lora_dropout", detail::write_value(c.dropout, "lora_dropout")},
          {"target_modules", c.targets},
          {"modules_to_save", c.saved.empty() ? json() : json(c.saved)},
          {"bias", "none"},
          {"fan_in_fan_out", transposed},
          {"init_lora_weights", true},
          {"use_rslora", c.rslora},
          {"use_dora", false},
          {"inference_mode", true}};
}

}  // namespace transformer
