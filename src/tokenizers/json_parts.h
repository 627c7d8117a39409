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

// Replace, as a normalizer and as a decoder.
struct ReplaceConfig {
  PatternConfig pattern = {};
  std::string content = {};
  static void visit(auto& self, auto&& field) {
    field("pattern", self.pattern, "what is replaced");
    field("content", self.content, "what takes its place");
  }
};

// ByteLevel: pre-tokenizer, post-processor and decoder have the same settings, though each uses its own.
struct ByteLevelConfig {
  bool add_prefix_space = true, trim_offsets = true, use_regex = true;
  static void visit(auto& self, auto&& field) {
    field("add_prefix_space", self.add_prefix_space, "a space before a text that begins with none");
    field("trim_offsets", self.trim_offsets, "of the post-processor: places without white space");
    field("use_regex", self.use_regex, "of the pre-tokenizer: cut as GPT-2 does");
  }
};

// Metaspace, as a pre-tokenizer and as a decoder.
enum class PrependScheme : std::uint8_t { always, first, never };
EnumNames<PrependScheme> names(PrependScheme);
struct MetaspaceConfig {
  std::string replacement = "\u2581";
  std::optional<PrependScheme> prepend_scheme = std::nullopt;
  std::optional<bool> add_prefix_space = std::nullopt;
  bool split = true;
  std::optional<std::string> str_rep = std::nullopt;
  static void visit(auto& self, auto&& field) {
    field("replacement", self.replacement, "what a space becomes");
    field("prepend_scheme", self.prepend_scheme, "where a replacement is put before the text");
    field("add_prefix_space", self.add_prefix_space, "older files: false is the scheme never");
    field("split", self.split, "of the pre-tokenizer: cut before each replacement");
    field("str_rep", self.str_rep, "older files: the replacement again");
  }
  PrependScheme scheme() const;  // Error when the two settings contradict each other
};

// The one character of a setting; Error for none or several.
char32_t one_character(const std::string& text, std::string_view key);

}  // namespace transformer
