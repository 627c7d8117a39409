#pragma once
// A schema as a machine that reads bytes: which of them may come next?

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
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

class JsonMachine {
 public:
  explicit JsonMachine(const nlohmann::ordered_json& schema);  // Error names what is not supported

  // How far a text is: the values that are open, the innermost last.
  struct Frame {
    std::int32_t form;
    std::uint8_t phase;
    std::uint8_t extra = 0;    // of strings: continuation bytes or hexadecimal digits to come; white space in a row; digits of a number
    std::uint16_t detail = 0;  // of strings: the least and most next byte; of objects: 1 when a value was there
    std::int32_t count = 0;    // characters, items, properties passed, bytes of a literal
    bool operator==(const Frame&) const = default;
  };
  using State = std::vector<Frame>;
  using States = std::vector<State>;  // several where the schema leaves open which choice this is

  States begin() const;
  States next(const States& states, std::uint8_t byte) const;  // empty: the byte cannot come
  bool is_complete(const States& states) const;

 private:
  class Reader;
  void open(State state, std::int32_t form, States& out) const;
  void feed(const State& state, std::uint8_t byte, States& out) const;
  bool feed_string(Frame& frame, std::uint8_t byte, bool& ends) const;
  bool feed_number(Frame& frame, std::uint8_t byte, bool integer) const;
  void feed_object(State state, std::uint8_t byte, States& out) const;
  void feed_array(State state, std::uint8_t byte, States& out) const;
  const JsonForm& form(const Frame& frame) const { return forms_[static_cast<std::size_t>(frame.form)]; }

  std::vector<JsonForm> forms_;
  std::int32_t root_ = 0, key_form_ = 0;  // of keys that may be any
};

}  // namespace transformer
