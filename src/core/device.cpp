#include "transformer/core/device.h"

#include <charconv>

namespace transformer {

Device Device::parse(std::string_view text) {
  if (text == "cpu") return cpu();
  if (text == "cuda") return cuda();
  if (text.starts_with("cuda:")) {
    int index = 0;
    const char* end = text.data() + text.size();
    if (auto [p, ec] = std::from_chars(text.data() + 5, end, index); ec == std::errc() && p == end && index >= 0) return cuda(index);
  }
  fail("Device", "unknown device '{}': expected cpu, cuda or cuda:N", text);
}

std::string Device::str() const { return kind == Kind::cpu ? "cpu" : "cuda:" + std::to_string(index); }

}  // namespace transformer
