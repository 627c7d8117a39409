#pragma once
// The bytes of a text file as UTF-8: a byte order mark at the beginning is dropped, and what it says holds. UTF-16 becomes UTF-8, its
// unpaired surrogates U+FFFD.

#include <cstdint>

#include "io/shared/gzip_file.h"

namespace transformer {

class TextFile final : public GzipFile {
 public:
  using GzipFile::GzipFile;
  std::size_t read(void* to, std::size_t size, const std::string& position) override;

 private:
  enum class Encoding : std::uint8_t { unknown, utf8, utf16_little, utf16_big };
  void decode(bool ended);

  Encoding encoding_ = Encoding::unknown;
  std::string bytes_;  // of UTF-16: read, but not decoded
  std::string text_;   // decoded, but not given
};

}  // namespace transformer
