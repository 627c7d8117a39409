#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "chat/jinja/machine.h"

namespace transformer::jinja {

// The filters that work on lists, by name.
std::vector<std::pair<std::string_view, Value (*)(Machine&, const Value&, const Arguments&)>> sequence_filters();

}  // namespace transformer::jinja
