#pragma once
// The names of a head's outputs, as config.json has them.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace transformer {

// In the order of their ids; none where the model's head is another than "ForSequenceClassification" …, or not all have names.
inline std::vector<std::string> head_names(const nlohmann::json& config, std::string_view head) {
  const auto architectures = config.find("architectures"), labels = config.find("id2label");
  if (architectures == config.end() || !architectures->is_array() || architectures->empty() || !architectures->front().is_string() ||
      !architectures->front().get<std::string>().ends_with(head) || labels == config.end() || !labels->is_object())
    return {};
  std::vector<std::string> names;
  for (std::size_t i = 0; i < labels->size(); ++i) {
    const auto name = labels->find(std::to_string(i));
    if (name == labels->end() || !name->is_string()) return {};
    names.push_back(name->get<std::string>());
  }
  return names;
}

// id2label and label2id.
inline nlohmann::json names_json(const std::vector<std::string>& names) {
  nlohmann::json out = {{"id2label", nlohmann::json::object()}, {"label2id", nlohmann::json::object()}};
  for (std::size_t i = 0; i < names.size(); ++i) out["id2label"][std::to_string(i)] = names[i], out["label2id"][names[i]] = i;
  return out;
}

}  // namespace transformer
