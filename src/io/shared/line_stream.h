#pragma once
// Lines as they arrive: from a terminal or a pipe whose writer takes its time. (LineReader is for files: it reads ahead.)

#include <cstddef>
#include <cstdint>
#include <string>

namespace transformer {

class LineStream {
 public:
  // Reads from a file descriptor, by default standard input, which is not closed. Of a line longer than `longest` bytes only
  // the beginning is kept, so that memory stays bounded whatever comes.
  explicit LineStream(int descriptor = 0, std::size_t longest = std::size_t{1} << 20);

  // The next line without its end ("\n" or "\r\n"); waits for it. False after the last one, which needs no end. Error when
  // reading fails, or when the data are compressed.
  bool next(std::string& line);
  // Can next() answer without waiting? If not, waits for up to so many milliseconds that it can.
  bool ready(int milliseconds = 0);

  std::int64_t number() const { return number_; }  // of the line read last, from 1
  std::int64_t cut() const { return cut_; }        // lines of which only the beginning was kept

 private:
  bool fill();  // waits for more bytes; false at the end

  int descriptor_;
  std::size_t longest_;
  std::string buffer_;
  std::size_t begin_ = 0;     // of what is not yet used
  std::size_t searched_ = 0;  // no end of line before this
  bool ended_ = false;
  std::int64_t number_ = 0, cut_ = 0;
};

}  // namespace transformer
