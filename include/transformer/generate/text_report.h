#pragma once

#include <cstdint>
#include <string>

namespace transformer {

// What was odd about texts; nothing of it is an error.
struct TextReport {
  std::int64_t texts = 0;
  std::int64_t invalid_utf8 = 0;  // sequences replaced by U+FFFD
  std::int64_t truncated = 0;     // longer than the model takes: only the beginning was read

  std::string summary() const;  // one line for people, empty when there is nothing to say
};

}  // namespace transformer
