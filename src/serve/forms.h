#pragma once
// Bodies that are forms, as LibreTranslate's clients send them: curl -d and curl -F, pages, its own libraries.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transformer::serve {

using Form = std::vector<std::pair<std::string, std::string>>;  // names and texts, in their order

// name=text&name=text. (httplib leaves out what stands there twice, and of a text with = in it takes the end alone.)
Form coded_form(std::string_view body);
// A form of several parts, whose Content-Type is `type`. ApiError 400 says what is wrong with it.
Form form_in_parts(std::string_view type, std::string_view body);

bool is_form_in_parts(std::string_view type);
// Whichever it is; none: something else. (curl calls a body of JSON a form, too, unless it is told.)
std::optional<Form> form_of(std::string_view type, std::string_view body);

}  // namespace transformer::serve
