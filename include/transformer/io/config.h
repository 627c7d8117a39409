#pragma once
// A configuration is an aggregate with defaults and one function that names its fields:
//
//   struct ModelConfig {
//     std::int64_t d_model = 512;
//     Norm norm = Norm::layer;
//     static void visit(auto& self, auto&& field) {
//       field("d_model", self.d_model, "width of the model");
//       field("norm", self.norm, "kind of normalisation");
//     }
//   };
//
// A field is a bool, int, std::int64_t, float, double, std::string, an enum, a configuration itself, or a std::vector or
// std::optional of those. The names of an enum's values come from a function beside the enum:
//
//   inline EnumNames<Norm> names(Norm) { return {{Norm::layer, "layer"}, {Norm::rms, "rms"}}; }

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "transformer/core/error.h"

namespace transformer {

template <class E>
using EnumNames = std::vector<std::pair<E, std::string_view>>;

namespace detail {
struct AnyField {
  void operator()(std::string_view, const auto&, std::string_view) const {}
};
}  // namespace detail

template <class C>
concept Configuration = requires(C& c) {
  C::visit(c, detail::AnyField{});
};

// "; did you mean 'd_model'?" with the known name that needs the fewest edits, or nothing when none is known.
std::string did_you_mean(std::string_view given, const std::vector<std::string>& known);

namespace detail {

[[noreturn]] void wrong_type(std::string_view key, std::string_view expected, const nlohmann::json& given);
[[noreturn]] void wrong_name(std::string_view key, std::string_view given, const std::vector<std::string>& known);
[[noreturn]] void unknown_key(std::string_view key, std::string_view inside, const std::vector<std::string>& known);
nlohmann::json from_float(std::string_view key, float value);  // the shortest decimal that gives it back; must be finite
nlohmann::json from_double(std::string_view key, double value);

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;

template <class E>
std::vector<std::string> enum_names() {
  std::vector<std::string> out;
  for (const auto& [value, name] : names(E{})) out.emplace_back(name);
  return out;
}

template <Configuration C>
void read_fields(const nlohmann::json& json, C& config, const std::string& prefix);

// Sets value from json; key, for messages, is the whole path: "encoder.layers[2]".
template <class T>
void read_value(const nlohmann::json& json, T& value, const std::string& key) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) wrong_type(key, "true or false", json);
    value = json.get<bool>();
  } else if constexpr (std::integral<T>) {
    const bool fits = json.is_number_unsigned() ? std::in_range<T>(json.get<std::uint64_t>())
                                                : json.is_number_integer() && std::in_range<T>(json.get<std::int64_t>());
    if (!fits) wrong_type(key, json.is_number_integer() ? "a smaller integer" : "an integer", json);
    value = json.get<T>();
  } else if constexpr (std::floating_point<T>) {
    if (!json.is_number()) wrong_type(key, "a number", json);
    const auto wide = json.get<double>();
    if (wide > static_cast<double>(std::numeric_limits<T>::max()) || wide < static_cast<double>(std::numeric_limits<T>::lowest()))
      wrong_type(key, "a smaller number", json);
    value = static_cast<T>(wide);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!json.is_string()) wrong_type(key, "a string", json);
    value = json.get<std::string>();
  } else if constexpr (std::is_enum_v<T>) {
    if (!json.is_string()) wrong_type(key, "one of the names of its values", json);
    const auto given = json.get<std::string>();
    for (const auto& [candidate, name] : names(T{}))
      if (name == given) return void(value = candidate);
    wrong_name(key, given, enum_names<T>());
  } else if constexpr (is_optional<T>) {
    if (json.is_null()) return value.reset();
    typename T::value_type inner{};
    read_value(json, inner, key);
    value = std::move(inner);
  } else if constexpr (is_vector<T>) {
    if (!json.is_array()) wrong_type(key, "a list", json);
    T items;
    for (std::size_t i = 0; i < json.size(); ++i) {
      typename T::value_type item{};
      read_value(json[i], item, fmt::format("{}[{}]", key, i));
      items.push_back(std::move(item));
    }
    value = std::move(items);
  } else {
    static_assert(Configuration<T>, "a field must be of one of the types listed at the top of this file");
    read_fields(json, value, key);
  }
}

template <class T>
nlohmann::json write_value(const T& value, const std::string& key) {
  if constexpr (std::is_same_v<T, float>) {
    return from_float(key, value);
  } else if constexpr (std::is_same_v<T, double>) {
    return from_double(key, value);
  } else if constexpr (std::is_enum_v<T>) {
    for (const auto& [candidate, name] : names(T{}))
      if (candidate == value) return name;
    fail("config", "key '{}': the value {} has no name", key, static_cast<std::int64_t>(value));
  } else if constexpr (is_optional<T>) {
    return value ? write_value(*value, key) : nlohmann::json(nullptr);
  } else if constexpr (is_vector<T>) {
    nlohmann::json list = nlohmann::json::array();
    for (std::size_t i = 0; i < value.size(); ++i)
      list.push_back(write_value<typename T::value_type>(value[i], fmt::format("{}[{}]", key, i)));
    return list;
  } else if constexpr (Configuration<const T>) {
    nlohmann::json object = nlohmann::json::object();
    T::visit(value, [&](std::string_view name, const auto& field, std::string_view) {
      object[std::string(name)] = write_value(field, key.empty() ? std::string(name) : fmt::format("{}.{}", key, name));
    });
    return object;
  } else {
    return value;
  }
}

template <Configuration C>
void read_fields(const nlohmann::json& json, C& config, const std::string& prefix) {
  if (!json.is_object()) wrong_type(prefix, "an object", json);
  std::vector<std::string> known;
  C::visit(config, [&](std::string_view name, auto&, std::string_view) { known.emplace_back(name); });
  for (const auto& [key, value] : json.items())
    if (std::find(known.begin(), known.end(), key) == known.end()) unknown_key(key, prefix, known);
  C::visit(config, [&](std::string_view name, auto& field, std::string_view) {
    if (const auto it = json.find(name); it != json.end())
      read_value(*it, field, prefix.empty() ? std::string(name) : fmt::format("{}.{}", prefix, name));
  });
}

}  // namespace detail

// Sets the fields that json names; the others keep their values. An unknown key is an Error that names the nearest known
// one, a value of the wrong type one that says what was expected. When it throws, config is as it was.
template <Configuration C>
void from_json(const nlohmann::json& json, C& config) {
  C read = config;
  detail::read_fields(json, read, "");
  config = std::move(read);
}

// All fields; from_json gives the same configuration back.
template <Configuration C>
nlohmann::json to_json(const C& config) {
  return detail::write_value(config, "");
}

}  // namespace transformer
