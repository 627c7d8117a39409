#include "serve/requests.h"

namespace transformer::serve {
namespace {

std::int32_t token_of(const nlohmann::ordered_json& value) {
  if (!value.is_number_integer() || value.get<double>() < 0 || value.get<double>() > 2147483647.0)
    throw ApiError(400, "'prompt' has an element that is not the number of a token", "prompt", "invalid_value");
  return value.get<std::int32_t>();
}

}  // namespace

std::vector<std::string> strings_of(const AnyOf& field, const std::string& name) {
  const nlohmann::ordered_json& value = field.value;
  if (value.is_null()) return {};
  if (value.is_string()) return {value.get<std::string>()};
  std::vector<std::string> all;
  if (!value.is_array()) detail::wrong(name, "a string or a list of strings");
  for (const auto& one : value) {
    if (!one.is_string()) detail::wrong(name, "a string or a list of strings");
    all.push_back(one.get<std::string>());
  }
  return all;
}

std::vector<PromptText> prompts_of(const CompletionRequest& request) {
  const nlohmann::ordered_json& value = request.prompt.value;
  if (value.is_string()) return {{value.get<std::string>()}};
  if (!value.is_array() || value.empty()) detail::wrong("prompt", "a string, a list of strings, or tokens");
  std::vector<PromptText> all;
  if (value.front().is_number()) {
    PromptText& one = all.emplace_back();
    one.is_text = false;
    for (const auto& id : value) one.ids.push_back(token_of(id));
    return all;
  }
  for (const auto& each : value) {
    PromptText& one = all.emplace_back();
    if (each.is_string()) {
      one.text = each.get<std::string>();
      continue;
    }
    if (!each.is_array() || each.empty()) detail::wrong("prompt", "a string, a list of strings, or tokens");
    one.is_text = false;
    for (const auto& id : each) one.ids.push_back(token_of(id));
  }
  return all;
}

}  // namespace transformer::serve
