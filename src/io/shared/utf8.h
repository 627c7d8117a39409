#pragma once
// UTF-8: the only encoding of text here. Text that is not valid UTF-8 is repaired and counted, never refused.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace transformer {

// How many bytes at the beginning of text are well-formed UTF-8: all of them when text is valid.
std::size_t valid_utf8_prefix(std::string_view text);
inline bool is_valid_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

// The bytes of the ill-formed sequence that text, not empty, begins with: its maximal subpart.
std::size_t ill_formed_prefix(std::string_view text);

// text with each ill-formed sequence replaced by U+FFFD, one for every maximal subpart as the Unicode standard recommends
// (chapter 3.9); `replaced` grows by their number.
std::string sanitize_utf8(std::string_view text, std::int64_t& replaced);

}  // namespace transformer
