#include "io/shared/text_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "io/shared/characters.h"

namespace transformer {

std::size_t TextFile::read(void* to, std::size_t size, const std::string& position) {
  constexpr std::size_t block = std::size_t{1} << 16;
  if (encoding_ == Encoding::unknown) {
    bytes_.resize(block);
    bytes_.resize(GzipFile::read(bytes_.data(), block, position));
    encoding_ = bytes_.starts_with("\xFF\xFE") ? Encoding::utf16_little
        : bytes_.starts_with("\xFE\xFF")       ? Encoding::utf16_big
                                               : Encoding::utf8;
    if (encoding_ != Encoding::utf8) {
      bytes_.erase(0, 2);
    } else {
      text_ = std::exchange(bytes_, {});
      if (text_.starts_with("\xEF\xBB\xBF")) text_.erase(0, 3);
    }
  }
  if (encoding_ != Encoding::utf8) {
    for (bool ended = false; text_.empty() && !ended;) {
      decode(false);
      const std::size_t before = bytes_.size();
      bytes_.resize(before + block);
      const std::size_t got = GzipFile::read(bytes_.data() + before, block, position);
      bytes_.resize(before + got);
      ended = got == 0;
      if (ended) decode(true);
    }
  } else if (text_.empty()) {
    return GzipFile::read(to, size, position);
  }
  const std::size_t given = std::min(size, text_.size());
  std::memcpy(to, text_.data(), given);
  text_.erase(0, given);
  return given;
}

void TextFile::decode(bool ended) {
  std::string& to = text_;
  const std::size_t high = encoding_ == Encoding::utf16_big ? 0 : 1;
  const auto unit = [&](std::size_t at) {
    return static_cast<char32_t>(static_cast<unsigned char>(bytes_[at + high]) << 8 | static_cast<unsigned char>(bytes_[at + 1 - high]));
  };
  constexpr char32_t replacement = 0xFFFD;
  const auto is_first = [](char32_t c) { return c >= 0xD800 && c < 0xDC00; };
  const auto is_second = [](char32_t c) { return c >= 0xDC00 && c < 0xE000; };
  std::size_t at = 0;
  for (; at + 2 <= bytes_.size(); at += 2) {
    char32_t c = unit(at);
    if (is_first(c)) {
      if (at + 4 > bytes_.size() && !ended) break;  // the other half comes later
      const bool pair = at + 4 <= bytes_.size() && is_second(unit(at + 2));
      c = pair ? 0x10000 + ((c - 0xD800) << 10) + (unit(at + 2) - 0xDC00) : replacement;
      at += pair ? 2 : 0;
    } else if (is_second(c)) {
      c = replacement;
    }
    append_character(to, c);
  }
  bytes_.erase(0, at);
  if (!ended || bytes_.empty()) return;
  append_character(to, replacement);  // half a unit
  bytes_.clear();
}

}  // namespace transformer
