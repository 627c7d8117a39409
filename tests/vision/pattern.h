#pragma once
// A coloured image in which every pixel differs from its neighbours.

#include "transformer/vision/image.h"

namespace transformer::test {

inline Image pattern(std::int64_t height, std::int64_t width) {
  Image image{.height = height, .width = width, .channels = 3};
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t c = 0; c < 3; ++c)
        image.pixels.push_back(static_cast<std::uint8_t>((x * x * 37 + y * 91 + c * 53 + x * y * 17) % 256));
  return image;
}

}  // namespace transformer::test
