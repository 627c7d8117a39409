#pragma once
// Where a tensor lives and where its ops run.

#include <cstdint>
#include <string>

#include "transformer/core/error.h"

namespace transformer {

struct Device {
  enum class Kind : std::uint8_t {
    cpu,
    cuda,
    guarded,  // the CPU behind memory that the host cannot reach: for tests of what must hold on every device
  };
  Kind kind = Kind::cpu;
  int index = 0;

  static Device cpu() { return {}; }
  static Device cuda(int index = 0) { return {Kind::cuda, index}; }
  static Device guarded() { return {Kind::guarded, 0}; }
  static Device parse(std::string_view text);  // "cpu", "cuda", "cuda:1", "auto": a GPU if there is one
  static Device usual();                       // what the environment variable TRANSFORMER_DEVICE says; the CPU
  std::string str() const;
  friend bool operator==(const Device&, const Device&) = default;
};

}  // namespace transformer

template <>
struct fmt::formatter<transformer::Device> : transformer::detail::PlainFormatter {
  auto format(const transformer::Device& d, fmt::format_context& ctx) const { return write(d.str(), ctx); }
};
