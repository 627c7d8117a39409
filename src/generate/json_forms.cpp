#include "generate/json_forms.h"

#include <map>
#include <set>

#include "transformer/core/error.h"

namespace transformer {
namespace {

constexpr int deepest_any = 16;  // of values without a schema
constexpr std::size_t most_forms = 20000;

class FormReader {
 public:
  using json = nlohmann::ordered_json;
  FormReader(std::vector<JsonForm>& forms, const json& whole) : forms_(forms), whole_(whole) {}

  std::int32_t read(const json& schema, const std::string& where) {
    if (schema.is_boolean() && schema.get<bool>()) return anything(0);
    if (!schema.is_object()) fail("JSON schema", "{} must be an object", where);
    static const std::set<std::string, std::less<>> known = {
        "type",      "enum",      "const",      "properties", "required", "additionalProperties", "items", "minItems", "maxItems",
        "minLength", "maxLength", "anyOf",      "$ref",       "$defs",    "definitions",          "title", "default",  "examples",
        "$schema",   "$id",       "description"};
    for (const auto& [key, value] : schema.items())
      if (!known.contains(key)) fail("JSON schema", "{}: the keyword '{}' is not supported", where, key);
    if (schema.contains("$ref")) return reference(schema["$ref"], where);
    if (schema.contains("const")) return literal(schema["const"]);
    if (schema.contains("enum")) {
      if (!schema["enum"].is_array() || schema["enum"].empty()) fail("JSON schema", "{}: 'enum' must be a list of values", where);
      std::vector<std::int32_t> choices;
      for (const json& value : schema["enum"]) choices.push_back(literal(value));
      return any_of(std::move(choices));
    }
    if (schema.contains("anyOf")) {
      if (!schema["anyOf"].is_array() || schema["anyOf"].empty()) fail("JSON schema", "{}: 'anyOf' must be a list of schemas", where);
      std::vector<std::int32_t> choices;
      for (std::size_t i = 0; i < schema["anyOf"].size(); ++i)
        choices.push_back(read(schema["anyOf"][i], fmt::format("{}.anyOf[{}]", where, i)));
      return any_of(std::move(choices));
    }
    if (!schema.contains("type")) {
      if (schema.contains("properties")) return typed("object", schema, where);
      if (schema.contains("items")) return typed("array", schema, where);
      return anything(0);
    }
    if (schema["type"].is_array()) {
      std::vector<std::int32_t> choices;
      for (const json& type : schema["type"]) {
        if (!type.is_string()) fail("JSON schema", "{}: 'type' must be the name of a type, or a list of names", where);
        choices.push_back(typed(type.get<std::string>(), schema, where));
      }
      if (choices.empty()) fail("JSON schema", "{}: 'type' is an empty list", where);
      return any_of(std::move(choices));
    }
    if (!schema["type"].is_string()) fail("JSON schema", "{}: 'type' must be the name of a type, or a list of names", where);
    return typed(schema["type"].get<std::string>(), schema, where);
  }

  // Any JSON, not too deep.
  std::int32_t anything(int depth) {
    if (const auto found = any_.find(depth); found != any_.end()) return found->second;
    std::vector<std::int32_t> choices{literal(true), literal(false), literal(nullptr), add({.kind = JsonForm::Kind::string}),
                                      add({.kind = JsonForm::Kind::number})};
    if (depth < deepest_any)
      choices.push_back(any_object(depth)), choices.push_back(add({.kind = JsonForm::Kind::array, .other = anything(depth + 1)}));
    return any_[depth] = any_of(std::move(choices));
  }
  std::int32_t any_object(int depth) { return add({.kind = JsonForm::Kind::object, .other = anything(depth + 1)}); }

 private:
  std::int32_t add(JsonForm form) {
    if (forms_.size() >= most_forms) fail("JSON schema", "is too large: more than {} parts", most_forms);
    forms_.push_back(std::move(form));
    return static_cast<std::int32_t>(forms_.size()) - 1;
  }
  std::int32_t literal(const json& value) { return add({.kind = JsonForm::Kind::literal, .text = value.dump()}); }
  std::int32_t any_of(std::vector<std::int32_t> choices) {
    return choices.size() == 1 ? choices.front() : add({.kind = JsonForm::Kind::any_of, .choices = std::move(choices)});
  }

  static std::int64_t number(const json& schema, const char* key, std::int64_t usual, const std::string& where) {
    if (!schema.contains(key)) return usual;
    if (!schema[key].is_number_integer() || schema[key].get<double>() < 0 || schema[key].get<double>() > 1e6)
      fail("JSON schema", "{}: '{}' must be an integer from 0 to 1000000", where, key);
    return schema[key].get<std::int64_t>();
  }

  std::int32_t typed(const std::string& type, const json& schema, const std::string& where) {
    if (type == "string")
      return add(
          {.kind = JsonForm::Kind::string, .least = number(schema, "minLength", 0, where), .most = number(schema, "maxLength", -1, where)});
    if (type == "number") return add({.kind = JsonForm::Kind::number});
    if (type == "integer") return add({.kind = JsonForm::Kind::integer});
    if (type == "boolean") return any_of({literal(true), literal(false)});
    if (type == "null") return literal(nullptr);
    if (type == "array") {
      JsonForm form{
          .kind = JsonForm::Kind::array, .least = number(schema, "minItems", 0, where), .most = number(schema, "maxItems", -1, where)};
      form.other = schema.contains("items") ? read(schema["items"], where + ".items") : anything(1);
      return add(std::move(form));
    }
    if (type == "object") return object(schema, where);
    fail("JSON schema", "{}: '{}' is not a type: expected string, number, integer, boolean, null, array or object", where, type);
  }

  std::int32_t object(const json& schema, const std::string& where) {
    JsonForm form{.kind = JsonForm::Kind::object};
    std::set<std::string> required;
    if (schema.contains("required")) {
      if (!schema["required"].is_array()) fail("JSON schema", "{}: 'required' must be a list of names", where);
      for (const json& name : schema["required"]) {
        if (!name.is_string()) fail("JSON schema", "{}: 'required' must be a list of names", where);
        required.insert(name.get<std::string>());
      }
    }
    if (schema.contains("properties")) {
      if (!schema["properties"].is_object()) fail("JSON schema", "{}: 'properties' must be an object", where);
      for (const auto& [name, value] : schema["properties"].items()) {
        if (name.size() > 1000) fail("JSON schema", "{}: a property's name has {} bytes: expected 1000 or fewer", where, name.size());
        form.properties.push_back({json(name).dump(), read(value, where + "." + name), required.contains(name)});
        required.erase(name);
      }
    }
    if (!required.empty()) fail("JSON schema", "{}: '{}' is required, but not among the properties", where, *required.begin());
    // Other keys come only where there are no properties: an answer is to have those that were thought of.
    if (form.properties.empty()) {
      const json other = schema.value("additionalProperties", json(true));
      if (!(other.is_boolean() && !other.get<bool>()))
        form.other = other.is_boolean() ? anything(1) : read(other, where + ".additionalProperties");
    }
    return add(std::move(form));
  }

  std::int32_t reference(const json& ref, const std::string& where) {
    const std::string name = ref.is_string() ? ref.get<std::string>() : "";
    if (const auto found = references_.find(name); found != references_.end()) return found->second;
    if (!name.starts_with("#/"))
      fail("JSON schema", "{}: '$ref' must begin with #/: only parts of the schema itself are referred to", where);
    const json* target = nullptr;
    try {
      target = &whole_.at(json::json_pointer(name.substr(1)));
    } catch (const json::exception&) {
      fail("JSON schema", "{}: '{}' is not there", where, name);
    }
    // A place first: the target may refer to itself.
    const std::int32_t place = add({.kind = JsonForm::Kind::any_of});
    references_[name] = place;
    const std::int32_t form = read(*target, name);
    if (form == place) fail("JSON schema", "{}: refers to itself alone", name);
    forms_[static_cast<std::size_t>(place)].choices = {form};
    return place;
  }

  std::vector<JsonForm>& forms_;
  const json& whole_;
  std::map<int, std::int32_t> any_;
  std::map<std::string, std::int32_t> references_;
};

}  // namespace

JsonForms read_json_forms(const nlohmann::ordered_json& schema) {
  JsonForms forms;
  FormReader reader(forms.all, schema);
  forms.root = reader.read(schema, "the schema");
  forms.key = static_cast<std::int32_t>(forms.all.size());
  forms.all.push_back({.kind = JsonForm::Kind::string});
  // any_of that leads back to itself without a byte in between would never end.
  for (std::size_t i = 0; i < forms.all.size(); ++i) {
    std::set<std::int32_t> seen;
    std::vector<std::int32_t> to_see = forms.all[i].choices;
    while (!to_see.empty()) {
      const std::int32_t at = to_see.back();
      to_see.pop_back();
      if (at == static_cast<std::int32_t>(i)) fail("JSON schema", "a choice refers to itself alone");
      const std::vector<std::int32_t>& choices = forms.all[static_cast<std::size_t>(at)].choices;
      if (seen.insert(at).second) to_see.insert(to_see.end(), choices.begin(), choices.end());
    }
  }
  return forms;
}

}  // namespace transformer
