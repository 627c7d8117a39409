#include "serve/forms.h"

#include <strings.h>

#include <algorithm>
#include <charconv>

#include "serve/api_error.h"

namespace transformer::serve {
namespace {

bool is_of_type(std::string_view given, std::string_view wanted) {
  return given.size() >= wanted.size() && strncasecmp(given.data(), wanted.data(), wanted.size()) == 0;
}

[[noreturn]] void broken_form(const std::string& why) { throw ApiError(400, "the form cannot be read: " + why, {}, "invalid_form"); }

// The value of name=value or name="value" among what stands behind semicolons; empty: it is not there.
std::string parameter(std::string_view header, std::string_view name) {
  for (std::size_t at = 0; (at = header.find(';', at)) != std::string_view::npos;) {
    at = std::min(header.find_first_not_of(" \t", at + 1), header.size());
    const std::string_view rest = header.substr(at);
    if (!is_of_type(rest, name) || rest.substr(name.size(), 1) != "=") continue;
    const std::string_view value = rest.substr(name.size() + 1);
    if (value.starts_with('"')) return std::string(value.substr(1, value.find('"', 1) - 1));
    return std::string(value.substr(0, value.find_first_of("; \t\r")));
  }
  return {};
}

// The name of the part that begins with this head.
std::string name_of_part(std::string_view head) {
  constexpr std::string_view header = "content-disposition:";
  for (std::size_t at = 0; at < head.size();) {
    const std::string_view line = head.substr(at, head.find("\r\n", at) - at);
    if (is_of_type(line, header)) return parameter(line, "name");
    at += line.size() + 2;
  }
  return {};
}

}  // namespace

Form coded_form(std::string_view body) {
  const auto decoded = [](std::string_view coded) {
    std::string text;
    for (std::size_t i = 0; i < coded.size(); ++i) {
      unsigned value = 0;
      const bool byte = coded[i] == '%' && i + 2 < coded.size() &&
          std::from_chars(coded.data() + i + 1, coded.data() + i + 3, value, 16).ptr == coded.data() + i + 3;
      text += byte ? static_cast<char>(value) : coded[i] == '+' ? ' ' : coded[i];
      i += byte ? 2 : 0;
    }
    return text;
  };
  Form form;
  while (!body.empty()) {
    const std::string_view part = body.substr(0, body.find('&'));
    body.remove_prefix(std::min(part.size() + 1, body.size()));
    const std::size_t at = std::min(part.find('='), part.size());
    if (!part.empty()) form.emplace_back(decoded(part.substr(0, at)), decoded(part.substr(std::min(at + 1, part.size()))));
  }
  return form;
}

Form form_in_parts(std::string_view type, std::string_view body) {
  const std::string boundary = parameter(type, "boundary");
  if (boundary.empty()) broken_form("its Content-Type has no boundary");
  const std::string first = "--" + boundary, next = "\r\n" + first;
  std::size_t at = body.starts_with(first) ? first.size() : body.find(next);
  if (at == std::string_view::npos) broken_form("its boundary is not in it");
  if (!body.starts_with(first)) at += next.size();
  Form form;
  while (body.substr(at, 2) != "--") {
    const std::size_t head = body.find("\r\n", at), text = std::min(body.find("\r\n\r\n", at), body.size());
    const std::size_t end = body.find(next, text + 4);
    if (end == std::string_view::npos) broken_form("it has no end");
    std::string name = name_of_part(body.substr(head + 2, text - head));
    if (name.empty()) broken_form("a part of it has no name");
    form.emplace_back(std::move(name), body.substr(text + 4, end - text - 4));
    at = end + next.size();
  }
  return form;
}

bool is_form_in_parts(std::string_view type) { return is_of_type(type, "multipart/form-data"); }

std::optional<Form> form_of(std::string_view type, std::string_view body) {
  if (is_form_in_parts(type)) return form_in_parts(type, body);
  const std::size_t first = body.find_first_not_of(" \t\r\n");
  const bool json = first != std::string_view::npos && body[first] == '{';
  if (is_of_type(type, "application/x-www-form-urlencoded") && !json) return coded_form(body);
  return {};
}

}  // namespace transformer::serve
