#include "transformer/text/lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include "transformer/core/error.h"

namespace transformer {
namespace {

constexpr unsigned block = 1U << 16;

std::string name_of(const std::string& path) { return path == "-" ? "standard input" : path; }
std::string in_words(int error) { return std::generic_category().message(error); }

int open_for_reading(const std::string& path) {
  const int file = path == "-" ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(name_of(path), "cannot open: {}", in_words(errno));
  struct stat about {};
  if (fstat(file, &about) == 0 && S_ISDIR(about.st_mode)) {
    close(file);
    fail(name_of(path), "cannot read: it is a folder");
  }
  return file;
}

}  // namespace

void LineReader::Close::operator()(gzFile_s* file) const { gzclose_r(file); }

LineReader::LineReader(std::string path, std::size_t longest_line) : path_(std::move(path)), buffer_(block), longest_line_(longest_line) {
  const int file = open_for_reading(path_);
  file_.reset(gzdopen(file, "rb"));  // reads what is not gzip as it is
  if (file_ == nullptr) {
    close(file);
    fail(name_of(path_), "cannot open: out of memory");
  }
  gzbuffer(file_.get(), block);
}

bool LineReader::fill() {
  errno = 0;
  const int bytes = gzread(file_.get(), buffer_.data(), block);
  const int read_error = errno;
  begin_ = 0, end_ = static_cast<std::size_t>(std::max(bytes, 0));
  if (bytes > 0) return true;
  int status = Z_OK;
  std::string what = gzerror(file_.get(), &status);  // "<fd:3>: incorrect data check"
  what.erase(0, what.starts_with('<') ? what.find(": ") + 2 : 0);
  if (status == Z_ERRNO) fail(name_of(path_), "cannot read: {}", in_words(read_error));
  if (status == Z_BUF_ERROR) fail(name_of(path_), "the gzip data end too early, after line {}: the file is cut off", number_);
  if (bytes < 0) fail(name_of(path_), "the gzip data are damaged, after line {}: {}", number_, what);
  return false;
}

bool LineReader::next(std::string& line) {
  line.clear();
  bool found = false, complete = false;
  while (!complete && (begin_ != end_ || fill())) {
    const char* at = buffer_.data() + begin_;
    const auto* newline = static_cast<const char*>(std::memchr(at, '\n', end_ - begin_));
    const std::size_t bytes = newline == nullptr ? end_ - begin_ : static_cast<std::size_t>(newline - at);
    if (line.size() + bytes > longest_line_)
      fail(name_of(path_), "line {} is longer than {} bytes: is this a text file?", number_ + 1, longest_line_);
    line.append(at, bytes);
    found = true, complete = newline != nullptr;
    begin_ += bytes + (complete ? 1 : 0);
  }
  if (!found) return false;
  if (number_++ == 0 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
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
