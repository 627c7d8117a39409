#pragma once
// The text of a template as tokens, its white space already controlled: a line break after a block is dropped, and so is the
// indentation before one (trim_blocks and lstrip_blocks, as Hugging Face Transformers sets them).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace transformer::jinja {

struct Token {
  enum class Kind : std::uint8_t { data, variable_begin, variable_end, block_begin, block_end, name, string, integer, real, symbol, end };
  Kind kind;
  std::string text;  // of a string: what it says
  int line;
};

// `where` is for messages. Error names the line.
std::vector<Token> tokenize(std::string_view source, std::string_view where);

}  // namespace transformer::jinja
