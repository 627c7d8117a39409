#pragma once
// What tests ask of an SVG document.

#include <algorithm>
#include <cctype>
#include <cstring>
#include <regex>
#include <string>
#include <string_view>
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
  static const std::regex entity("&(amp|lt|gt|quot);");
  if (!is_valid_utf8(xml)) return "not UTF-8";
  const auto check_text = [](const std::string& text) -> std::string {
    for (const char c : text)
      if (static_cast<unsigned char>(c) < 0x20 && c != '\n') return "a control character";
    const std::string rest = std::regex_replace(text, entity, "");
    return rest.find_first_of("<&") == std::string::npos ? "" : "a stray < or & in: " + rest;
  };
  std::vector<std::string> open;
  std::size_t at = 0;
  const auto word = [&](const char* more) {  // letters and digits, and the characters of `more`
    const std::size_t begin = at;
    while (at < xml.size() && (std::isalnum(static_cast<unsigned char>(xml[at])) != 0 || std::strchr(more, xml[at]) != nullptr)) ++at;
    return xml.substr(begin, at - begin);
  };
  const auto take = [&](std::string_view text) {
    const bool there = xml.compare(at, text.size(), text) == 0;
    if (there) at += text.size();
    return there;
  };
  while (true) {
    const std::size_t tag = std::min(xml.find('<', at), xml.size());
    if (const std::string fault = check_text(xml.substr(at, tag - at)); !fault.empty()) return fault;
    if (tag == xml.size()) break;
    at = tag + 1;
    const auto broken = [&] { return "a stray < or & in: " + xml.substr(tag, 80); };
    const bool closes = take("/");
    const std::string name = word("");
    if (name.empty()) return broken();
    while (take(" ")) {
      if (word("_:-").empty() || !take("=\"")) return broken();
      const std::size_t quote = xml.find('"', at);
      if (quote == std::string::npos) return broken();
      if (const std::string fault = check_text(xml.substr(at, quote - at)); !fault.empty()) return fault;
      at = quote + 1;
    }
    const bool empty = take("/");
    if (!take(">")) return broken();
    if (closes) {
      if (open.empty() || open.back() != name) return "</" + name + "> closes nothing";
      open.pop_back();
    } else if (!empty) {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : open.back() + " stays open";
}

}  // namespace transformer::test
