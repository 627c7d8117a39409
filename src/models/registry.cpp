// The families: one row each, which stands in the family's own file.
#include <fmt/format.h>

#include <algorithm>

#include "models/bart_body.h"

namespace transformer {

namespace {

const std::vector<const Family*>& registry() {
  using namespace families;
  static const std::vector<const Family*> all{&bart,  &bert,    &classic, &deit,  &distilbert, &falcon,   &gpt2,
                                              &llama, &m2m_100, &marian,  &mbart, &mistral,    &patchtst, &pegasus,
                                              &qwen2, &roberta, &swin,    &t5,    &vit};
  return all;
}

}  // namespace

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family* family : registry()) names.emplace_back(family->model_type);
  return names;
}

std::string Family::class_with(std::string_view head) const {
  const auto found = std::find_if(classes.begin(), classes.end(), [&](const std::string& name) { return name.ends_with(head); });
  return found == classes.end() ? "" : *found;
}

std::string model_type_of(const nlohmann::json& config) {
  if (!config.is_object()) return "transformer";
  const auto type = config.find("model_type");
  return type != config.end() && type->is_string() ? type->get<std::string>() : "transformer";
}

const Family* find_family(const nlohmann::json& config) {
  const std::string type = model_type_of(config);
  for (const Family* family : registry())
    if (family->model_type == type) return family;
  return nullptr;
}

const Family& family_named(std::string_view model_type) {
  for (const Family* family : registry())
    if (family->model_type == model_type) return *family;
  const std::vector<std::string> known = family_names();
  fail("config.json", "model_type '{}' is not one of {}{}", model_type, fmt::join(known, ", "), did_you_mean(model_type, known));
}

nlohmann::json config_of(const Family& family, std::string_view head) {
  return {{"model_type", family.model_type}, {"architectures", nlohmann::json::array({family.class_with(head)})}};
}

std::vector<std::string> usual_lora_targets(const Model& model) {
  const Family* family = find_family(model.config());
  return family != nullptr ? family->lora_targets : std::vector<std::string>();
}

std::unique_ptr<Model> make_model(const nlohmann::json& config) {
  Settings settings(config);
  std::unique_ptr<Model> model = family_named(settings.model_type()).make(settings);
  settings.done();
  model->config_ = config;
  return model;
}

}  // namespace transformer
