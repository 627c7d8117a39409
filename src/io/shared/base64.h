#pragma once

#include <string>
#include <string_view>

namespace transformer {

// The bytes of base64 text (RFC 4648); Error when it is none.
std::string from_base64(std::string_view text);
std::string to_base64(std::string_view bytes);

}  // namespace transformer
