// The families: one row each, which stands in the family's own file.
#include <fmt/format.h>

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

std::vector<std::string> usual_lora_targets(const Model& model) {
  const std::string type = Settings(model.config()).model_type();
  for (const Family* family : registry())
    if (family->model_type == type) return family->lora_targets;
  return {};
}

std::unique_ptr<Model> make_model(const nlohmann::json& config) {
  Settings settings(config);
  for (const Family* family : registry()) {
    if (family->model_type != settings.model_type()) continue;
    std::unique_ptr<Model> model = family->make(settings);
    settings.done();
    model->config_ = config;
    return model;
  }
  const std::vector<std::string> known = family_names();
  fail("config.json", "model_type '{}' is not one of {}{}", settings.model_type(), fmt::join(known, ", "),
       did_you_mean(settings.model_type(), known));
}

}  // namespace transformer
