#pragma once
// A JSON schema as a list of forms that values may have.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace transformer {

// What a value may be.
struct JsonForm {
  enum class Kind : std::uint8_t { literal, string, number, integer, object, array, any_of };
  struct Property {
    std::string key;  // as it is written: "\"name\""
    std::int32_t form;
    bool required;
  };
  Kind kind = Kind::literal;
  std::string text = {};                   // literal
  std::int64_t least = 0, most = -1;       // characters of a string, items of an array; -1: no limit
  std::vector<Property> properties = {};   // object
  std::int32_t other = -1;                 // form of items, or of values under any other key; -1: there are none
  std::vector<std::int32_t> choices = {};  // any_of
};

struct JsonForms {
  std::vector<JsonForm> all = {};
  std::int32_t root = 0, key = 0;  // of the whole, and of keys that may be any
};
JsonForms read_json_forms(const nlohmann::ordered_json& schema);  // Error names what is not supported

}  // namespace transformer
