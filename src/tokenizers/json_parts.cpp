#include "tokenizers/json_parts.h"

#include "io/shared/characters.h"

namespace transformer {

std::string part_type(const nlohmann::json& part) {
  if (!part.is_object()) fail("tokenizer", "expected an object with a type, got {}", part.type_name());
  const auto type = part.find("type");
  if (type == part.end() || !type->is_string()) fail("tokenizer", "a part has no type");
  return type->get<std::string>();
}

void unknown_part(std::string_view what, const std::string& type, const std::vector<std::string>& known) {
  fail("tokenizer", "{} '{}' is not supported{}", what, type, did_you_mean(type, known));
}

const nlohmann::json& part_list(const nlohmann::json& part, const char* key, int depth) {
  if (depth >= deepest_part) fail("tokenizer", "sequences are nested more than {} deep", deepest_part);
  const auto list = part.find(key);
  if (list == part.end() || !list->is_array()) fail("tokenizer", "a Sequence has no list '{}'", key);
  if (list->size() > longest_sequence) fail("tokenizer", "a Sequence has {} parts, at most {} are taken", list->size(), longest_sequence);
  return *list;
}

Regex compile(const PatternConfig& pattern) {
  if (pattern.string.has_value() == pattern.regex.has_value()) fail("tokenizer", "a pattern must be either a String or a Regex");
  return Regex(pattern.regex ? *pattern.regex : quoted_pattern(*pattern.string));
}

EnumNames<PrependScheme> names(PrependScheme) {
  return {{PrependScheme::always, "always"}, {PrependScheme::first, "first"}, {PrependScheme::never, "never"}};
}

PrependScheme MetaspaceConfig::scheme() const {
  if (add_prefix_space.has_value() && !*add_prefix_space && prepend_scheme.value_or(PrependScheme::never) != PrependScheme::never)
    fail("tokenizer", "add_prefix_space false contradicts the prepend_scheme");
  return prepend_scheme.value_or(add_prefix_space.value_or(true) ? PrependScheme::always : PrependScheme::never);
}

char32_t one_character(const std::string& text, std::string_view key) {
  std::size_t at = 0;
  const char32_t c = text.empty() ? 0 : next_character(text, at);
  if (text.empty() || at != text.size()) fail("tokenizer", "{} must be one character, got '{}'", key, text);
  return c;
}

}  // namespace transformer
