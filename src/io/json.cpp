#include "transformer/io/json.h"

#include <algorithm>
#include <string>

#include "io/atomic_file.h"
#include "io/read_file.h"
#include "transformer/core/error.h"

namespace transformer {

nlohmann::json read_json(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    const std::size_t at = std::min(e.byte == 0 ? 0 : e.byte - 1, text.size());
    const auto begin = text.begin(), end = begin + static_cast<std::ptrdiff_t>(at);
    const auto line = 1 + std::count(begin, end, '\n');
    const std::size_t newline = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
    const std::size_t column = newline == std::string::npos ? at + 1 : at - newline;
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error …" → "syntax error …"
    std::string what = e.what();
    if (const auto colon = what.find(": "); colon != std::string::npos) what.erase(0, colon + 2);
    fail(path.string(), "line {}, column {}: {}", line, column, what);
  }
}

void write_json(const std::filesystem::path& path, const nlohmann::json& value) {
  std::string text;
  try {
    text = value.dump(2) + "\n";
  } catch (const nlohmann::json::exception& e) {
    fail(path.string(), "cannot write as JSON: {}", e.what());
  }
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace transformer
