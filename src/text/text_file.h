#pragma once
// The bytes of a text file as UTF-8, one after the other: plain, gzip or standard input ("-"). A byte order mark at the beginning is
// dropped, and what it says holds: UTF-16 becomes UTF-8, unpaired surrogates U+FFFD.

#include <string>

#include "io/gzip_file.h"

namespace transformer {

class TextFile {
 public:
  explicit TextFile(const std::string& path) : file_(path) {}  // Error names what cannot be opened

  // Appends what about `size` more bytes of the file say; false at its end. Errors as those of GzipFile::read.
  bool read(std::string& to, std::size_t size, const std::string& position);
  const std::string& name() const { return file_.name(); }

 private:
  enum class Encoding : std::uint8_t { unknown, utf8, utf16_little, utf16_big };
  void decode(std::string& to, bool ended);

  GzipFile file_;
  Encoding encoding_ = Encoding::unknown;
  std::string bytes_;  // of UTF-16: read, but not yet decoded
};

}  // namespace transformer
