#pragma once
// The parts of a tokenizer.json: objects with a "type" and settings. Unknown types and unknown settings are refused by name.

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizers/regex.h"
#include "transformer/io/config.h"

namespace transformer {

// Sequences inside sequences, and their parts: more than any real file has, few enough to stay small.
inline constexpr int deepest_part = 2;
inline constexpr std::size_t longest_sequence = 64;

// The "type" of a part; Error when it has none.
std::string part_type(const nlohmann::json& part);
// Error: this kind of part is not known. `known`: the names of those that are.
[[noreturn]] void unknown_part(std::string_view what, const std::string& type, const std::vector<std::string>& known);
// The list of a Sequence part; Error when it is none, too deep or too long.
const nlohmann::json& part_list(const nlohmann::json& part, const char* key, int depth);

// The settings of a part, without its type.
template <Configuration C>
C read_part(const nlohmann::json& part) {
  nlohmann::json settings = part;
  settings.erase("type");
  C config;
  from_json(settings, config);
  return config;
}
struct NoSettings {
  static void visit(auto&, auto&&) {}
};

// {"String": "…"} or {"Regex": "…"}.
struct PatternConfig {
  std::optional<std::string> string = std::nullopt, regex = std::nullopt;
  static void visit(auto& self, auto&& field) {
    field("String", self.string, "this text");
    field("Regex", self.regex, "what this expression finds");
  }
};
Regex compile(const PatternConfig& pattern);

// The one character of a setting; Error for none or several.
char32_t one_character(const std::string& text, std::string_view key);

}  // namespace transformer
