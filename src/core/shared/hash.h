#pragma once
// Fingerprints of data: whether they are what they were, not against someone who wants to deceive.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace transformer {

struct Hash {
  std::uint64_t value = 0;
  void word(std::uint64_t w) { value = std::rotl((value ^ w) * 0x9E3779B97F4A7C15U, 29); }
  void bytes(const void* data, std::size_t size) {
    const auto* at = static_cast<const std::byte*>(data);
    word(size);
    for (std::size_t done = 0; done < size; done += sizeof(std::uint64_t)) {
      std::uint64_t w = 0;
      std::memcpy(&w, at + done, std::min(sizeof w, size - done));
      word(w);
    }
  }
  void text(std::string_view text) { bytes(text.data(), text.size()); }
  std::uint64_t finish() { return word(0), word(0), value; }  // the last bytes reach all bits
};

}  // namespace transformer
