#pragma once
// The words of a text, between which there is white space.

#include <sstream>
#include <string>
#include <vector>

namespace transformer::test {

inline std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

}  // namespace transformer::test
