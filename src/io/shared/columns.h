#pragma once
// The columns that text takes on a terminal: a letter of Korean, Chinese or Japanese takes two, an accent that stands on its own none.

#include <string>
#include <string_view>

namespace transformer {

int columns_of(char32_t c);
int columns_of(std::string_view text);

// The text and spaces up to so many columns; right: the spaces stand before it.
std::string padded(std::string_view text, int columns, bool right = false);

}  // namespace transformer
