#pragma once
// What tests ask of an SVG document.

#include <regex>
#include <string>
#include <vector>

#include "io/shared/utf8.h"

namespace transformer::test {

inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

// Well-formed as far as our pictures go: tags are closed in order, attributes quoted, < and & appear only as markup, and no
// character that XML forbids. Empty when all is well.
inline std::string fault_of(const std::string& xml) {
  static const std::regex tag(R"re(<(/?)([a-z]+)((?: [\w:-]+="[^"<]*")*)(/?)>)re"), entity("&(amp|lt|gt|quot);");
  if (!is_valid_utf8(xml)) return "not UTF-8";
  std::vector<std::string> open;
  std::size_t at = 0;
  const auto check_text = [](const std::string& text) -> std::string {
    for (const char c : text)
      if (static_cast<unsigned char>(c) < 0x20 && c != '\n') return "a control character";
    const std::string rest = std::regex_replace(text, entity, "");
    return rest.find_first_of("<&") == std::string::npos ? "" : "a stray < or & in: " + rest;
  };
  for (std::sregex_iterator it(xml.begin(), xml.end(), tag), end; it != end; ++it) {
    const auto begin = static_cast<std::size_t>(it->position());
    if (const std::string fault = check_text(xml.substr(at, begin - at)); !fault.empty()) return fault;
    if (const std::string fault = check_text((*it)[3]); !fault.empty()) return fault;
    at = begin + static_cast<std::size_t>(it->length());
    if ((*it)[1].length() > 0) {
      if (open.empty() || open.back() != (*it)[2]) return "</" + (*it)[2].str() + "> closes nothing";
      open.pop_back();
    } else if ((*it)[4].length() == 0) {
      open.push_back((*it)[2]);
    }
  }
  if (!open.empty()) return open.back() + " stays open";
  return check_text(xml.substr(at));
}

}  // namespace transformer::test
