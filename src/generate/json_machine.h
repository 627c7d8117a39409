#pragma once
// A schema as a machine that reads bytes: which of them may come next?

#include <cstdint>
#include <vector>

#include "generate/json_forms.h"

namespace transformer {

class JsonMachine {
 public:
  explicit JsonMachine(const nlohmann::ordered_json& schema) : forms_(read_json_forms(schema)) {}

  // How far a text is: the values that are open, the innermost last.
  struct Frame {
    std::int32_t form;
    std::uint8_t phase;
    std::uint8_t extra = 0;    // of strings: continuation bytes or hexadecimal digits to come; white space in a row; digits of a number
    std::uint16_t detail = 0;  // of strings: the least and most next byte; of objects: bytes of the key that were there
    std::int32_t count = 0;    // characters, items, properties passed, bytes of a literal
    bool operator==(const Frame&) const = default;
  };
  using State = std::vector<Frame>;
  using States = std::vector<State>;  // several where the schema leaves open which choice this is

  States begin() const;
  States next(const States& states, std::uint8_t byte) const;  // empty: the byte cannot come
  bool is_complete(const States& states) const;

 private:
  void open(State state, std::int32_t form, States& out) const;
  void feed(const State& state, std::uint8_t byte, States& out) const;
  bool feed_string(Frame& frame, std::uint8_t byte, bool& ends) const;
  bool feed_number(Frame& frame, std::uint8_t byte, bool integer) const;
  void feed_object(State state, std::uint8_t byte, States& out) const;
  void feed_array(State state, std::uint8_t byte, States& out) const;
  const JsonForm& form(const Frame& frame) const { return forms_.all[static_cast<std::size_t>(frame.form)]; }

  JsonForms forms_;
};

}  // namespace transformer
