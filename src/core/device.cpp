#include "transformer/core/device.h"

#include <charconv>
#include <cstdlib>

#include "transformer/core/backend.h"

namespace transformer {

Device Device::parse(std::string_view text) {
  if (text == "cpu") return cpu();
  if (text == "cuda") return cuda();
  if (text == "guarded") return guarded();
  if (text == "auto") return fastest_device();
  if (text.starts_with("cuda:")) {
    int index = 0;
    const char* end = text.data() + text.size();
    if (auto [p, ec] = std::from_chars(text.data() + 5, end, index); ec == std::errc() && p == end && index >= 0) return cuda(index);
  }
  fail("Device", "unknown device '{}': expected cpu, cuda, cuda:N or auto", text);
}

Device Device::usual() {
  const char* text = std::getenv("TRANSFORMER_DEVICE");
  if (text == nullptr || *text == '\0') return cpu();
  try {
    return parse(text);
  } catch (const Error& e) {
    fail("TRANSFORMER_DEVICE", "{}", e.what());
  }
}

std::string Device::str() const {
  switch (kind) {
    case Kind::cpu: return "cpu";
    case Kind::cuda: return "cuda:" + std::to_string(index);
    case Kind::guarded: return "guarded";
  }
  return "?";
}

}  // namespace transformer
