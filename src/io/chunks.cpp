#include "io/shared/chunks.h"

namespace transformer {

bool read_chunk(const LineSource& next, const std::function<bool()>& ready, std::int64_t most, std::vector<std::string>& lines) {
  constexpr std::size_t largest = std::size_t{16} << 20U;
  lines.clear();
  std::size_t bytes = 0;
  for (std::string line; static_cast<std::int64_t>(lines.size()) < most && bytes < largest;) {
    if (!lines.empty() && ready && !ready()) break;
    if (!next(line)) break;
    bytes += line.size();
    lines.push_back(std::move(line));
  }
  return !lines.empty();
}

LineSource until_end(LineSource next) {
  return [next = std::move(next), ended = false](std::string& line) mutable {
    ended = ended || !next(line);
    return !ended;
  };
}

LineSource lines_of(std::vector<std::string> texts) {
  return [texts = std::move(texts), at = std::size_t{0}](std::string& line) mutable {
    return at < texts.size() && (line = texts[at++], true);
  };
}

}  // namespace transformer
