#pragma once
// Settings of a verb: every field of its configurations (transformer/io/config.h) is a flag, and the same names can stand in
// a TOML file.
//
//   auto model = std::make_shared<TransformerConfig>();
//   auto training = std::make_shared<TrainingConfig>();
//   add_settings(*verb, *model, *training);
//   verb->callback([=] { train(*model, *training); });
//
// The field d_model is the flag --d-model and the key d_model (or d-model) of the file; a field of a configuration inside a
// configuration carries both names, --tokenizer-kind and tokenizer_kind, or kind in the table [tokenizer]. Beside them are
//   --preset NAME         where a configuration has presets (transformer/models/presets.h); also a key of the file
//   --config FILE         settings from a file
//   --dump-config [FILE]  writes all settings as such a file, and ends
// A flag wins over the file, the file over the preset, the preset over the defaults. When the verb's callback runs, all of
// that is done and the configurations hold the settings. They must live as long as the app: callbacks share them.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "transformer/io/config.h"
#include "transformer/models/presets.h"

namespace transformer::cli {

// A configuration of which some fields are not the user's to set, or which has names that others have too:
//   add_settings(*verb, part(*model, {.without = {"pad_id"}}), part(*bpe, {.prefix = "bpe"}));   // --bpe-kind
struct PartOptions {
  std::string prefix = {};
  std::vector<std::string> without = {};
};
template <Configuration C>
struct Part {
  C& config;
  PartOptions options;
};
template <Configuration C>
Part<C> part(C& config, PartOptions options) {
  return {config, std::move(options)};
}

// One field, whatever its type.
struct Setting {
  enum class Kind : std::uint8_t { flag, value, list, file_only };
  std::string name, help;  // "d_model"
  Kind kind = Kind::value;
  std::string type;                                                                   // for --help: "INT", "pre|post"
  std::function<void(const nlohmann::json& value, const std::string& shown_as)> set;  // Error when it is of the wrong type
  std::function<void(const std::vector<std::string>& texts, const std::string& shown_as)> parse;
  std::function<nlohmann::json()> get;
};

struct Settings {
  std::vector<Setting> fields;
  std::vector<std::string> presets;
  std::vector<std::function<void(const std::string& preset)>> apply_preset;
};

// Adds the flags. Error if two fields have one name.
void add_flags(CLI::App& app, Settings settings);

// A message of the library in the words of the verb's user: a setting is named by the flag, --d-model, or by its key and the file
// where it comes from there, "d_model (c.toml)". A setting's name in a message is a word with _ in it, or stands in backticks.
std::string in_flags(const CLI::App& verb, const std::string& message);

namespace detail {

template <class C>
concept HasPresets = requires(C& config) {
  preset_names(config);
  apply_preset(std::string_view(), config);
};

// What a flag's text is in JSON; text that does not fit stays text, for read_value to refuse.
template <class T>
nlohmann::json text_to_json(const std::string& text) {
  const char *begin = text.data(), *end = begin + text.size();
  if constexpr (std::is_same_v<T, bool>) {
    if (text == "true" || text == "false") return text == "true";
  } else if constexpr (std::is_arithmetic_v<T>) {
    std::conditional_t<std::integral<T>, std::int64_t, double> number{};
    const auto read = std::from_chars(begin, end, number);
    if (read.ec == std::errc() && read.ptr == end && std::isfinite(static_cast<double>(number))) return number;
  } else if constexpr (transformer::detail::is_optional<T>) {
    return text == "none" ? nlohmann::json(nullptr) : text_to_json<typename T::value_type>(text);
  }
  return text;
}

template <class T>
std::string type_name() {
  if constexpr (std::is_same_v<T, bool>) return "true|false";
  else if constexpr (std::integral<T>) return "INT";
  else if constexpr (std::floating_point<T>) return "FLOAT";
  else if constexpr (std::is_enum_v<T>) return CLI::detail::join(transformer::detail::enum_names<T>(), "|");
  else if constexpr (transformer::detail::is_optional<T> || transformer::detail::is_vector<T>) return type_name<typename T::value_type>();
  else return "TEXT";
}

template <class T>
Setting setting(std::string name, std::string_view help, T& value) {
  Setting s{.name = std::move(name), .help = std::string(help), .type = type_name<T>()};
  s.set = [&value](const nlohmann::json& json, const std::string& shown_as) {
    // TOML has no null: an optional field without a value is written "none".
    const bool none = transformer::detail::is_optional<T> && json == "none";
    transformer::detail::read_value(none ? nlohmann::json(nullptr) : json, value, shown_as);
  };
  s.get = [&value, name = s.name] {
    nlohmann::json json = transformer::detail::write_value<T>(value, name);
    return json.is_null() ? nlohmann::json("none") : json;
  };
  if constexpr (transformer::detail::is_vector<T>) {
    using Item = typename T::value_type;
    s.kind = Configuration<Item> ? Setting::Kind::file_only : Setting::Kind::list;
    s.parse = [set = s.set](const std::vector<std::string>& texts, const std::string& shown_as) {
      nlohmann::json list = nlohmann::json::array();
      for (const std::string& text : texts) list.push_back(text_to_json<Item>(text));
      set(list, shown_as);
    };
  } else {
    if (std::is_same_v<T, bool>) s.kind = Setting::Kind::flag;
    s.parse = [set = s.set](const std::vector<std::string>& texts, const std::string& shown_as) {
      set(text_to_json<T>(texts.back()), shown_as);
    };
  }
  return s;
}

template <Configuration C>
void collect(Settings& out, C& config, const PartOptions& options) {
  if constexpr (HasPresets<C>) {
    out.presets = preset_names(config);
    out.apply_preset.push_back([&config](const std::string& name) { apply_preset(name, config); });
  }
  C::visit(config, [&](std::string_view field, auto& value, std::string_view help) {
    if (std::find(options.without.begin(), options.without.end(), field) != options.without.end()) return;
    const std::string name = (options.prefix.empty() ? "" : options.prefix + "_") + std::string(field);
    if constexpr (Configuration<std::remove_reference_t<decltype(value)>>) collect(out, value, {.prefix = name});
    else out.fields.push_back(setting(name, help, value));
  });
}

template <class C>
void collect(Settings& out, const Part<C>& part) {
  collect(out, part.config, part.options);
}
template <Configuration C>
void collect(Settings& out, C& config) {
  collect(out, config, {});
}

}  // namespace detail

// configurations: Configuration lvalues and part(…)s of them.
template <class... C>
void add_settings(CLI::App& app, C&&... configurations) {
  Settings settings;
  (detail::collect(settings, configurations), ...);
  add_flags(app, std::move(settings));
}

}  // namespace transformer::cli
