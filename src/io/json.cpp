#include "io/shared/json.h"

#include <algorithm>
#include <string>

#include "io/shared/atomic_file.h"
#include "io/shared/read_file.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

// Copying, comparing and writing a value recurse into it: the stack must hold that.
constexpr int deepest = 256;

// Where the text is nested too deeply, or its size.
std::size_t too_deep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    else if (quoted) i += c == '\\' ? 1 : 0;
    else if (c == '[' || c == '{') ++depth;
    else if (c == ']' || c == '}') --depth;
    if (depth > deepest) return i;
  }
  return text.size();
}

[[noreturn]] void refuse(std::string_view text, std::size_t at, const std::string& where, std::string_view what) {
  const std::string_view before = text.substr(0, at);
  const std::size_t newline = before.rfind('\n');
  fail(where, "line {}, column {}: {}", 1 + std::count(before.begin(), before.end(), '\n'),
       newline == std::string_view::npos ? at + 1 : at - newline, what);
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& where, const nlohmann::json::parser_callback_t& look) {
  if (const std::size_t at = too_deep(text); at < text.size())
    refuse(text, at, where, fmt::format("nested too deeply: at most {} levels are read", deepest));
  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error …" → "syntax error …"
  const auto after = [](std::string what, std::string_view mark) {
    const auto at = what.find(mark);
    return at == std::string::npos ? what : what.substr(at + mark.size());
  };
  try {
    return nlohmann::json::parse(text, look);
  } catch (const nlohmann::json::parse_error& e) {
    refuse(text, std::min(e.byte == 0 ? 0 : e.byte - 1, text.size()), where, "not JSON: " + after(e.what(), ": "));
  } catch (const nlohmann::json::exception& e) {  // a number that no double holds
    fail(where, "{}", after(e.what(), "] "));
  }
}

nlohmann::json read_json(const std::filesystem::path& path) { return parse_json(read_file(path), path.string()); }

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
