#include "text/text_file.h"

#include "text/characters.h"

namespace transformer {

bool TextFile::read(std::string& to, std::size_t size, const std::string& position) {
  const bool first = encoding_ == Encoding::unknown, decoded = !first && encoding_ != Encoding::utf8;
  std::string& into = decoded ? bytes_ : to;
  const std::size_t before = into.size();
  into.resize(before + size);
  const std::size_t got = file_.read(into.data() + before, size, position);
  into.resize(before + got);
  if (first) {
    const auto begins_with = [&](std::string_view mark) { return to.compare(before, mark.size(), mark) == 0; };
    encoding_ = begins_with("\xFF\xFE") ? Encoding::utf16_little : begins_with("\xFE\xFF") ? Encoding::utf16_big : Encoding::utf8;
    if (encoding_ == Encoding::utf8) {
      if (begins_with("\xEF\xBB\xBF")) to.erase(before, 3);
    } else {
      bytes_ = to.substr(before + 2);
      to.resize(before);
    }
  }
  if (encoding_ != Encoding::utf8) decode(to, got == 0);
  return got > 0;
}

void TextFile::decode(std::string& to, bool ended) {
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
