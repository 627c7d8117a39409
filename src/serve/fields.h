#pragma once
// The bodies of requests: structs with one function that names their fields, as configurations have (transformer/io/config.h), from which
// come the reading of JSON and the schemas of /openapi.json, so that the description says what is checked.
//
//   struct TokenizeRequest {
//     std::string model, text;
//     static void visit(auto& self, auto&& field) {
//       field("model", self.model, "which model", Bounds{.required = true});
//       …

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/shared/json.h"
#include "io/shared/utf8.h"
#include "serve/api_error.h"
#include "serve/forms.h"
#include "transformer/io/config.h"

namespace transformer::serve {

struct Bounds {
  bool required = false;
  std::optional<double> least = {}, most = {};  // of a number, or of the length of a list
};

// A field that may be of several types: what was given, and the schema that it is described by. It is checked by who uses it.
struct AnyOf {
  nlohmann::ordered_json value = nullptr;    // a schema's properties come in their order
  std::vector<nlohmann::json> schemas = {};  // empty: any JSON
  bool given() const { return !value.is_null(); }
};

namespace detail {

template <class T>
inline constexpr bool is_any = std::is_same_v<T, AnyOf>;

template <class T>
inline constexpr bool is_text = std::is_same_v<T, std::string> || std::is_same_v<T, std::optional<std::string>>;

[[noreturn]] inline void wrong(const std::string& key, const std::string& expected) {
  throw ApiError(400, fmt::format("'{}' must be {}", key, expected), key, "invalid_value");
}

inline std::string in_words(const Bounds& b) {
  if (b.least && b.most) return fmt::format("from {} to {}", *b.least, *b.most);
  return b.least ? fmt::format("{} or more", *b.least) : fmt::format("{} or less", *b.most);
}
inline bool inside(const Bounds& b, double value) { return (!b.least || value >= *b.least) && (!b.most || value <= *b.most); }

template <class T>
concept Fields = requires(T& t) {
  T::visit(t, [](std::string_view, auto&, std::string_view, Bounds = {}) {});
};

template <Fields T>
void read_object(const nlohmann::ordered_json& json, T& to, const std::string& inside);

template <class T>
void read_field(const nlohmann::ordered_json& json, T& value, const std::string& key, const Bounds& bounds) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) wrong(key, "true or false");
    value = json.get<bool>();
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    // A JSON schema's integers may be written as 1.0.
    const double number = json.is_number() ? json.get<double>() : NAN;
    if (!(number == std::floor(number)) || std::abs(number) > 9.0e18) wrong(key, "an integer");
    if (!detail::inside(bounds, number)) wrong(key, in_words(bounds));
    value = json.is_number_float() ? static_cast<std::int64_t>(number) : json.get<std::int64_t>();
  } else if constexpr (std::is_same_v<T, double>) {
    if (!json.is_number()) wrong(key, "a number");
    value = json.get<double>();
    if (!std::isfinite(value)) wrong(key, "a finite number");
    if (!detail::inside(bounds, value)) wrong(key, in_words(bounds));
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!json.is_string()) wrong(key, "a string");
    value = json.get<std::string>();
  } else if constexpr (is_any<T>) {
    value.value = json;
  } else if constexpr (transformer::detail::is_optional<T>) {
    if (json.is_null()) return value.reset();
    read_field(json, value.emplace(), key, bounds);
  } else if constexpr (transformer::detail::is_vector<T>) {
    if (!json.is_array()) wrong(key, "a list");
    if (!detail::inside(bounds, static_cast<double>(json.size()))) wrong(key, "a list whose length is " + in_words(bounds));
    value.clear();
    for (std::size_t i = 0; i < json.size(); ++i) read_field(json[i], value.emplace_back(), fmt::format("{}[{}]", key, i), {});
  } else {
    read_object(json, value, key);
  }
}

template <Fields T>
void read_object(const nlohmann::ordered_json& json, T& to, const std::string& inside) {
  if (!json.is_object()) wrong(inside.empty() ? "body" : inside, "an object");
  std::vector<std::string> known;
  const std::string prefix = inside.empty() ? "" : inside + ".";
  T::visit(to, [&](std::string_view name, auto& value, std::string_view, const Bounds& bounds = {}) {
    known.emplace_back(name);
    const auto found = json.find(name);
    if (found != json.end()) read_field(*found, value, prefix + std::string(name), bounds);
    else if (bounds.required)
      throw ApiError(400, fmt::format("'{}{}' is missing", prefix, name), prefix + std::string(name), "missing_field");
  });
  for (const auto& [key, value] : json.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw ApiError(400, fmt::format("'{}{}' is not known here{}", prefix, key, did_you_mean(key, known)), prefix + key, "unknown_field");
}

template <Fields T>
nlohmann::json object_schema();

template <class T>
nlohmann::json field_schema(const T& value, const Bounds& bounds) {
  nlohmann::json schema;
  if constexpr (std::is_same_v<T, bool>) {
    schema = {{"type", "boolean"}};
  } else if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, double>) {
    schema = {{"type", std::is_same_v<T, double> ? "number" : "integer"}};
    if (bounds.least) schema["minimum"] = *bounds.least;
    if (bounds.most) schema["maximum"] = *bounds.most;
  } else if constexpr (std::is_same_v<T, std::string>) {
    schema = {{"type", "string"}};
  } else if constexpr (is_any<T>) {
    schema = nlohmann::json::object();
    if (!value.schemas.empty()) schema["anyOf"] = value.schemas;
  } else if constexpr (transformer::detail::is_optional<T>) {
    schema = {{"anyOf", {field_schema(typename T::value_type{}, bounds), {{"type", "null"}}}}};
  } else if constexpr (transformer::detail::is_vector<T>) {
    schema = {{"type", "array"}, {"items", field_schema(typename T::value_type{}, {})}};
    if (bounds.least) schema["minItems"] = *bounds.least;
    if (bounds.most) schema["maxItems"] = *bounds.most;
  } else {
    schema = object_schema<T>();
  }
  return schema;
}

template <Fields T>
nlohmann::json object_schema() {
  nlohmann::json properties = nlohmann::json::object(), required = nlohmann::json::array();
  T defaults;
  T::visit(defaults, [&](std::string_view name, auto& value, std::string_view help, const Bounds& bounds = {}) {
    nlohmann::json schema = field_schema(value, bounds);
    schema["description"] = help;
    properties[std::string(name)] = std::move(schema);
    if (bounds.required) required.push_back(name);
  });
  nlohmann::json schema{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  if (!required.empty()) schema["required"] = required;
  return schema;
}

}  // namespace detail

// The JSON of a body. ApiError 400 says what is wrong with it.
inline nlohmann::ordered_json json_of_body(std::string_view body) {
  if (!is_valid_utf8(body)) throw ApiError(400, "the body is not valid UTF-8", {}, "invalid_utf8");
  try {
    static_cast<void>(parse_json(body, "the body"));  // says where it is wrong, and refuses what is too deep
    return nlohmann::ordered_json::parse(body);
  } catch (const Error& e) {
    throw ApiError(400, e.what(), {}, "invalid_json");
  }
}

// The same as what is asked for.
template <detail::Fields T>
T read_request(const nlohmann::ordered_json& json) {
  T request;
  detail::read_object(json, request, "");
  return request;
}
template <detail::Fields T>
T read_body(std::string_view body) {
  return read_request<T>(json_of_body(body));
}

// The same of a form, where all is text: what cannot be text is read as JSON, and a name that stands twice is a list.
template <detail::Fields T>
T read_form(const Form& form) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [name, text] : form) {
    if (!is_valid_utf8(name) || !is_valid_utf8(text)) throw ApiError(400, "the form is not valid UTF-8", {}, "invalid_utf8");
    if (!json.contains(name)) json[name] = text;
    else if (json[name].is_array()) json[name].push_back(text);
    else json[name] = {json[name], text};
  }
  T named;
  T::visit(named, [&]<class V>(std::string_view name, V&, std::string_view, const Bounds& = {}) {
    if constexpr (!detail::is_text<V> && !detail::is_any<V>) {
      const auto found = json.find(name);
      if (found == json.end() || !found->is_string()) return;
      if (const auto value = nlohmann::ordered_json::parse(found->template get<std::string>(), nullptr, false); value.is_primitive())
        *found = value;
    }
  });
  return read_request<T>(json);
}

template <detail::Fields T>
nlohmann::json schema_of() {
  return detail::object_schema<T>();
}

}  // namespace transformer::serve
