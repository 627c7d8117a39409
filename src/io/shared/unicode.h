#pragma once
// Text as code points, with the meaning that Python gives to its words: whitespace, lower case, categories.

#include <string>
#include <string_view>
#include <vector>

namespace transformer {

// Every bad sequence (its longest valid beginning, as the Unicode standard has it) becomes U+FFFD.
std::u32string to_code_points(std::string_view utf8);
std::string to_utf8(std::u32string_view text);

bool is_space(char32_t c);        // str.isspace: \t \n \v \f \r, U+001C–U+001F, U+0085 and the Unicode spaces; not U+200B
bool is_punctuation(char32_t c);  // \p{P}
bool is_symbol(char32_t c);       // \p{S}
bool is_number(char32_t c);       // \p{N}

// Full lower-casing: İ gives two code points, Σ at the end of a word gives ς.
std::u32string to_lower(std::u32string_view text);

// What stands between whitespace, as str.split(). The pieces are views of text.
std::vector<std::u32string_view> split_words(std::u32string_view text);
// Without the whitespace at its end, as str.rstrip().
std::u32string_view without_trailing_space(std::u32string_view text);

}  // namespace transformer
