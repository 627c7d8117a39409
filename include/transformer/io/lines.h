#pragma once
// Text files, line by line: plain, gzip (told by their first bytes, not by their name) or standard input ("-").

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace transformer {

class GzipFile;

class LineReader {
 public:
  // Error names the file when it is missing, a folder or unreadable. "-" is standard input; what is read ahead of it is
  // lost with the reader.
  explicit LineReader(std::string path, std::size_t longest_line = std::size_t{1} << 30);
  LineReader(LineReader&&) noexcept;
  ~LineReader();

  // As std::getline: the next line without its end ("\n" or "\r\n"); false after the last one, which needs no end. A byte
  // order mark at the beginning of the file is dropped. Error when reading fails, when gzip data are cut off or damaged,
  // and for a line longer than `longest_line` bytes; memory stays within that.
  bool next(std::string& line);

  std::int64_t number() const { return number_; }  // of the line read last, from 1
  const std::string& path() const { return path_; }

 private:
  bool fill();  // more bytes into buffer_; false at the end of the file

  std::string path_;
  std::unique_ptr<GzipFile> file_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // the bytes of buffer_ that are not yet used
  std::size_t longest_line_;
  std::int64_t number_ = 0;
};

// Something that gives lines, one per call, until it returns false.
using LineSource = std::function<bool(std::string& line)>;

// The lines of all files, one file after the other.
LineSource read_lines(std::vector<std::string> files);

}  // namespace transformer
