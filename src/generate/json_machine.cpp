#include "generate/json_machine.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "transformer/core/error.h"

namespace transformer {
namespace {

constexpr int deepest_any = 16;  // of values without a schema
constexpr std::size_t most_forms = 20000;
constexpr std::uint8_t most_space = 16;  // characters of white space in a row
constexpr std::uint8_t most_digits = 20;

// Phases of a frame.
enum Phase : std::uint8_t {
  text_body,     // literal: count bytes were there; string: between characters
  text_escape,   // behind a backslash
  text_hex,      // extra digits of \u are to come
  text_more,     // extra continuation bytes are to come
  number_begin,  // nothing yet
  number_minus,
  number_zero,
  number_whole,
  number_point,
  number_fraction,
  number_e,
  number_sign,
  number_exponent,
  value_begin,  // a value comes: white space, then it
  container_open,
  container_value,  // a value was there: a comma or the end
  container_comma,  // behind a comma
  object_colon,     // behind a key
};

bool is_space(std::uint8_t b) { return b == ' ' || b == '\n' || b == '\t' || b == '\r'; }
bool is_digit(std::uint8_t b) { return b >= '0' && b <= '9'; }
bool is_hex(std::uint8_t b) { return is_digit(b) || (b >= 'a' && b <= 'f') || (b >= 'A' && b <= 'F'); }

}  // namespace

// --- from the schema to forms ---------------------------------------------------------------------------------------------

class JsonMachine::Reader {
 public:
  using json = nlohmann::ordered_json;
  Reader(std::vector<JsonForm>& forms, const json& whole) : forms_(forms), whole_(whole) {}

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

JsonMachine::JsonMachine(const nlohmann::ordered_json& schema) {
  Reader reader(forms_, schema);
  root_ = reader.read(schema, "the schema");
  key_form_ = static_cast<std::int32_t>(forms_.size());
  forms_.push_back({.kind = JsonForm::Kind::string});
  // any_of that leads back to itself without a byte in between would never end.
  for (std::size_t i = 0; i < forms_.size(); ++i) {
    std::set<std::int32_t> seen;
    std::vector<std::int32_t> to_see = forms_[i].choices;
    while (!to_see.empty()) {
      const std::int32_t at = to_see.back();
      to_see.pop_back();
      if (at == static_cast<std::int32_t>(i)) fail("JSON schema", "a choice refers to itself alone");
      if (seen.insert(at).second)
        to_see.insert(to_see.end(), forms_[static_cast<std::size_t>(at)].choices.begin(),
                      forms_[static_cast<std::size_t>(at)].choices.end());
    }
  }
}

// --- from bytes to states -------------------------------------------------------------------------------------------------

JsonMachine::States JsonMachine::begin() const { return {{{.form = root_, .phase = value_begin}}}; }

// The state with the value that begins here open, nothing of it read: one for each choice.
void JsonMachine::open(State state, std::int32_t which, States& out) const {
  const JsonForm& form = forms_[static_cast<std::size_t>(which)];
  if (form.kind == JsonForm::Kind::any_of) {
    for (const std::int32_t choice : form.choices) open(state, choice, out);
    return;
  }
  const bool number = form.kind == JsonForm::Kind::number || form.kind == JsonForm::Kind::integer;
  state.push_back({.form = which, .phase = number ? std::uint8_t{number_begin} : std::uint8_t{text_body}, .count = -1});
  out.push_back(std::move(state));
}

JsonMachine::States JsonMachine::next(const States& states, std::uint8_t byte) const {
  States out;
  for (const State& state : states) feed(state, byte, out);
  // Choices that have read the same are one.
  std::sort(out.begin(), out.end(), [](const State& a, const State& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](const Frame& x, const Frame& y) {
      return std::tie(x.form, x.phase, x.extra, x.detail, x.count) < std::tie(y.form, y.phase, y.extra, y.detail, y.count);
    });
  });
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void JsonMachine::feed(const State& state, std::uint8_t byte, States& out) const {
  if (state.empty()) return;  // complete: nothing comes behind it
  State s = state;
  Frame& top = s.back();
  if (top.phase == value_begin) {
    if (is_space(byte)) {
      if (top.extra < most_space) ++top.extra, out.push_back(std::move(s));
      return;
    }
    const std::int32_t which = top.form;
    s.pop_back();
    States opened;
    open(std::move(s), which, opened);
    for (const State& o : opened) feed(o, byte, out);
    return;
  }
  const JsonForm& form = this->form(top);
  switch (form.kind) {
    case JsonForm::Kind::literal: {
      const auto at = static_cast<std::size_t>(top.count + 1);
      if (static_cast<std::uint8_t>(form.text[at]) != byte) return;
      if (at + 1 == form.text.size()) s.pop_back();
      else ++top.count;
      out.push_back(std::move(s));
      return;
    }
    case JsonForm::Kind::string: {
      if (top.count < 0) {  // the quote that it begins with
        if (byte == '"') top.count = 0, out.push_back(std::move(s));
        return;
      }
      bool ends = false;
      if (!feed_string(top, byte, ends)) return;
      if (ends && top.count < form.least) return;
      const bool within = top.phase != text_body;  // a character that will count
      if (!ends && form.most >= 0 && top.count + (within ? 1 : 0) > form.most) return;
      if (ends) s.pop_back();
      out.push_back(std::move(s));
      return;
    }
    case JsonForm::Kind::number:
    case JsonForm::Kind::integer: {
      const bool may_end = top.phase == number_zero || top.phase == number_whole || top.phase == number_fraction ||
          top.phase == number_exponent;
      Frame more = top;
      if (feed_number(more, byte, form.kind == JsonForm::Kind::integer)) {
        top = more;
        out.push_back(std::move(s));
      } else if (may_end) {
        s.pop_back();
        feed(s, byte, out);
      }
      return;
    }
    case JsonForm::Kind::object: return feed_object(std::move(s), byte, out);
    case JsonForm::Kind::array: return feed_array(std::move(s), byte, out);
    case JsonForm::Kind::any_of: return;
  }
}

// The inside of a string. count: its characters.
bool JsonMachine::feed_string(Frame& f, std::uint8_t byte, bool& ends) const {
  switch (f.phase) {
    case text_escape:
      if (byte == 'u') return f.phase = text_hex, f.extra = 4, true;
      if (std::string_view("\"\\/bfnrt").find(static_cast<char>(byte)) == std::string_view::npos) return false;
      ++f.count;
      return f.phase = text_body, true;
    case text_hex:
      // No halves of surrogate pairs, which are D8 to DF: they would be no character.
      if (!is_hex(byte) || (f.extra == 3 && f.detail == 1 && !(is_digit(byte) && byte < '8'))) return false;
      f.detail = f.extra == 4 && (byte == 'd' || byte == 'D') ? 1 : 0;
      if (--f.extra == 0) f.phase = text_body, ++f.count;
      return true;
    case text_more:
      if (byte < (f.detail >> 8U) || byte > (f.detail & 0xFFU)) return false;
      f.detail = 0x80BF;
      if (--f.extra == 0) f.phase = text_body, f.detail = 0, ++f.count;
      return true;
    default: break;
  }
  if (byte == '"') return ends = true;
  if (byte == '\\') return f.phase = text_escape, true;
  if (byte < 0x20) return false;
  if (byte < 0x80) return ++f.count, true;
  // Well-formed UTF-8: what the second byte may be depends on the first.
  if (byte < 0xC2 || byte > 0xF4) return false;
  f.phase = text_more;
  f.extra = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  f.detail = byte == 0xE0 ? 0xA0BF : byte == 0xED ? 0x809F : byte == 0xF0 ? 0x90BF : byte == 0xF4 ? 0x808F : 0x80BF;
  return true;
}

bool JsonMachine::feed_number(Frame& f, std::uint8_t byte, bool integer) const {
  const auto go = [&](std::uint8_t phase) {
    if (is_digit(byte) && ++f.extra > most_digits) return false;
    f.phase = phase;
    return true;
  };
  switch (f.phase) {
    case number_begin:
      if (byte == '-') return go(number_minus);
      [[fallthrough]];
    case number_minus: return byte == '0' ? go(number_zero) : is_digit(byte) && go(number_whole);
    case number_whole:
      if (is_digit(byte)) return go(number_whole);
      [[fallthrough]];
    case number_zero:
      if (integer) return false;
      return byte == '.' ? go(number_point) : (byte == 'e' || byte == 'E') && go(number_e);
    case number_point: return is_digit(byte) && go(number_fraction);
    case number_fraction: return is_digit(byte) ? go(number_fraction) : (byte == 'e' || byte == 'E') && go(number_e);
    case number_e:
      if (byte == '+' || byte == '-') return go(number_sign);
      [[fallthrough]];
    case number_sign:
      f.extra = std::max<std::uint8_t>(f.extra, most_digits - 2);  // e+99 at most
      return is_digit(byte) && go(number_exponent);
    case number_exponent: return is_digit(byte) && go(number_exponent);
    default: return false;
  }
}

// count: properties that were there or passed over, or -1 before the brace; a key is matched by a frame of its own, a literal.
void JsonMachine::feed_object(State s, std::uint8_t byte, States& out) const {
  Frame& top = s.back();
  const JsonForm& form = this->form(top);
  if (top.count < 0) {
    if (byte == '{') top.count = 0, top.phase = container_open, out.push_back(std::move(s));
    return;
  }
  if (is_space(byte) && top.phase != text_body) {
    if (top.extra < most_space) ++top.extra, out.push_back(std::move(s));
    return;
  }
  const std::int32_t size = static_cast<std::int32_t>(form.properties.size());
  const auto all_required_were = [&] {
    for (std::int32_t i = top.count; i < size; ++i)
      if (form.properties[static_cast<std::size_t>(i)].required) return false;
    return true;
  };
  switch (top.phase) {
    case container_open:
    case container_value:
      if (byte == '}') {
        if (!all_required_were()) return;
        s.pop_back();
        out.push_back(std::move(s));
        return;
      }
      if (top.phase == container_value) {
        if (byte == ',' && (top.count < size || form.other >= 0)) top.phase = container_comma, top.extra = 0, out.push_back(std::move(s));
        return;
      }
      [[fallthrough]];
    case container_comma:
      if (byte != '"') return;
      // The keys that may come: the next properties up to one that must. detail: bytes of the key that were there.
      if (form.other >= 0) {
        top.phase = object_colon, top.extra = 0;
        s.push_back({.form = key_form_, .phase = text_body, .count = 0});
        out.push_back(std::move(s));
        return;
      }
      for (std::int32_t i = top.count; i < size; ++i) {
        State keyed = s;
        keyed.back().phase = text_body, keyed.back().extra = 0, keyed.back().count = i, keyed.back().detail = 1;
        out.push_back(std::move(keyed));
        if (form.properties[static_cast<std::size_t>(i)].required) break;
      }
      return;
    case text_body: {  // within the key of property `count`
      const std::string& key = form.properties[static_cast<std::size_t>(top.count)].key;
      if (static_cast<std::uint8_t>(key[top.detail]) != byte) return;
      if (++top.detail == key.size()) top.phase = object_colon, top.detail = 0;
      out.push_back(std::move(s));
      return;
    }
    case object_colon: {
      if (byte != ':') return;
      const std::int32_t value = form.other >= 0 ? form.other : form.properties[static_cast<std::size_t>(top.count)].form;
      if (form.other < 0) ++top.count;
      top.phase = container_value, top.extra = 0;
      s.push_back({.form = value, .phase = value_begin});
      out.push_back(std::move(s));
      return;
    }
    default: return;
  }
}

// count: items, or -1 before the bracket.
void JsonMachine::feed_array(State s, std::uint8_t byte, States& out) const {
  Frame& top = s.back();
  const JsonForm& form = this->form(top);
  if (top.count < 0) {
    if (byte == '[') top.count = 0, top.phase = container_open, out.push_back(std::move(s));
    return;
  }
  if (is_space(byte)) {
    if (top.extra < most_space) ++top.extra, out.push_back(std::move(s));
    return;
  }
  if (byte == ']' && top.count >= form.least) {
    s.pop_back();
    out.push_back(std::move(s));
    return;
  }
  const bool more = form.most < 0 || top.count < form.most;
  if (!more) return;
  if (top.phase == container_value) {
    if (byte != ',') return;
    ++top.count, top.extra = 0;
    s.push_back({.form = form.other, .phase = value_begin});
    out.push_back(std::move(s));
    return;
  }
  ++top.count, top.extra = 0, top.phase = container_value;
  s.push_back({.form = form.other, .phase = value_begin});
  feed(s, byte, out);
}

bool JsonMachine::is_complete(const States& states) const {
  for (const State& s : states) {
    if (s.empty()) return true;
    const Frame& top = s.back();
    const JsonForm::Kind kind = form(top).kind;
    const bool number = kind == JsonForm::Kind::number || kind == JsonForm::Kind::integer;
    if (s.size() == 1 && number &&
        (top.phase == number_zero || top.phase == number_whole || top.phase == number_fraction || top.phase == number_exponent))
      return true;
  }
  return false;
}

}  // namespace transformer
