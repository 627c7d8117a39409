#include "transformer/io/lines.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "io/shared/text_file.h"
#include "transformer/core/error.h"

namespace transformer {

LineReader::LineReader(LineReader&&) noexcept = default;
LineReader::~LineReader() = default;

LineReader::LineReader(std::string path, std::size_t longest_line)
    : path_(std::move(path)), file_(std::make_unique<TextFile>(path_)), buffer_(std::size_t{1} << 16), longest_line_(longest_line) {}

bool LineReader::fill() {
  begin_ = 0;
  end_ = file_->read(buffer_.data(), buffer_.size(), fmt::format("after line {}", number_));
  return end_ > 0;
}

bool LineReader::next(std::string& line) {
  line.clear();
  bool found = false, complete = false;
  while (!complete && (begin_ != end_ || fill())) {
    const char* at = buffer_.data() + begin_;
    const auto* newline = static_cast<const char*>(std::memchr(at, '\n', end_ - begin_));
    const std::size_t bytes = newline == nullptr ? end_ - begin_ : static_cast<std::size_t>(newline - at);
    if (line.size() + bytes > longest_line_)
      fail(file_->name(), "line {} is longer than {} bytes: is this a text file?", number_ + 1, longest_line_);
    line.append(at, bytes);
    found = true, complete = newline != nullptr;
    begin_ += bytes + (complete ? 1 : 0);
  }
  if (!found) return false;
  ++number_;
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

LineSource read_lines(std::vector<std::string> files) {
  struct State {
    std::vector<std::string> files;
    std::size_t at = 0;
    std::optional<LineReader> reader;
  };
  return [state = std::make_shared<State>(State{std::move(files), 0, {}})](std::string& line) {
    for (auto& [files, at, reader] = *state; at < files.size(); ++at, reader.reset()) {
      if (!reader) reader.emplace(files[at]);
      if (reader->next(line)) return true;
    }
    return false;
  };
}

}  // namespace transformer
