#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "transformer/core/error.h"
#include "transformer/io/toml.h"

namespace transformer {
namespace {

using Json = nlohmann::json;

// A string in double quotes. JSON's escapes are TOML's, but for the character DEL.
std::string quoted(const std::string& text) {
  try {
    std::string out;
    for (const char c : Json(text).dump()) c == '\x7F' ? out += "\\u007f" : out += c;
    return out;
  } catch (const Json::exception&) {
    fail("TOML", "a string is not UTF-8: {}", Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

std::string key_of(const std::string& name) {
  constexpr std::string_view bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  return !name.empty() && name.find_first_not_of(bare) == std::string::npos ? name : quoted(name);
}

void check_depth(int depth) {
  if (depth > 100) fail("TOML", "nested too deeply: at most 100 levels are written");
}

// In one line.
std::string value_of(const Json& value, const std::string& key, int depth) {
  check_depth(depth);
  const auto all = [&](char open, char close, const auto& text_of) {
    std::string out;
    for (const auto& [name, item] : value.items())
      if (!value.is_object() || !item.is_null()) out += (out.empty() ? "" : ", ") + text_of(name, item);
    return open + out + close;
  };
  switch (value.type()) {
    case Json::value_t::string: return quoted(value.get_ref<const std::string&>());
    case Json::value_t::boolean: return value.get<bool>() ? "true" : "false";
    case Json::value_t::number_integer: return fmt::format("{}", value.get<std::int64_t>());
    case Json::value_t::number_unsigned:
      if (value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        fail("TOML", "key '{}': {} does not fit a signed integer of 64 bits", key, value.get<std::uint64_t>());
      return fmt::format("{}", value.get<std::uint64_t>());
    case Json::value_t::number_float: {
      const auto number = value.get<double>();
      if (!std::isfinite(number)) fail("TOML", "key '{}': {} is not a finite number", key, number);
      const std::string text = fmt::format("{}", number);  // the shortest that gives it back
      return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
    }
    case Json::value_t::array: return all('[', ']', [&](const std::string&, const Json& item) { return value_of(item, key, depth + 1); });
    case Json::value_t::object:
      return all('{', '}', [&](const std::string& name, const Json& item) {
        return fmt::format("{} = {}", key_of(name), value_of(item, key + "." + name, depth + 1));
      });
    default: fail("TOML", "key '{}': {} has no form in TOML", key, value.type_name());
  }
}

bool is_table_list(const Json& value) {
  return value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_object(); });
}

// The values of a table first: whatever follows the header of another table belongs to that one.
void write_table(const Json& table, const std::string& path, int depth, std::string& out) {
  check_depth(depth);
  const auto inside = [&](const std::string& name) { return path.empty() ? key_of(name) : path + "." + key_of(name); };
  for (const auto& [name, value] : table.items())
    if (!value.is_null() && !value.is_object() && !is_table_list(value))
      out += fmt::format("{} = {}\n", key_of(name), value_of(value, inside(name), depth + 1));
  for (const auto& [name, value] : table.items()) {
    if (value.is_object()) {
      out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", inside(name));
      write_table(value, inside(name), depth + 1, out);
    } else if (is_table_list(value)) {
      for (const Json& item : value) {
        out += fmt::format("{}[[{}]]\n", out.empty() ? "" : "\n", inside(name));
        write_table(item, inside(name), depth + 2, out);
      }
    }
  }
}

}  // namespace

std::string to_toml(const nlohmann::json& value) {
  if (!value.is_object()) fail("TOML", "only an object can be written, not {}", value.type_name());
  std::string out;
  write_table(value, "", 0, out);
  return out;
}

}  // namespace transformer
