#include "transformer/vision/image.h"

#include <memory>

#include "io/read_file.h"
#include "transformer/core/error.h"

// Of the formats only these two; no files are opened by the decoder itself.
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace transformer {

Image decode_image(std::string_view bytes, std::string_view name) {
  constexpr std::size_t largest_file = std::size_t{1} << 30;
  constexpr std::int64_t largest_side = 1 << 15, most_pixels = std::int64_t{1} << 27;
  if (bytes.size() > largest_file) fail(name, "the file has {} bytes: an image may have {}", bytes.size(), largest_file);
  const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const int size = static_cast<int>(bytes.size());
  int width = 0, height = 0, channels = 0;
  if (stbi_info_from_memory(data, size, &width, &height, &channels) == 0)
    fail(name, "not an image that can be read: expected PNG or JPEG ({})", stbi_failure_reason());
  if (width < 1 || height < 1 || width > largest_side || height > largest_side || std::int64_t{width} * height > most_pixels)
    fail(name, "the image is {} x {}: expected at most {} on a side and {} pixels in all", width, height, largest_side, most_pixels);
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(stbi_load_from_memory(data, size, &width, &height, &channels, 3), stbi_image_free);
  if (!pixels) fail(name, "the image is damaged: {}", stbi_failure_reason());
  Image image{.height = height, .width = width, .channels = 3};
  image.pixels.assign(pixels.get(), pixels.get() + std::int64_t{3} * width * height);
  return image;
}

Image read_image(const std::filesystem::path& path) { return decode_image(read_file(path), path.string()); }

Image center_crop(const Image& image, std::int64_t height, std::int64_t width) {
  if (height < 1 || width < 1) fail("center_crop", "a picture of {} x {} asked: expected 1 or more", height, width);
  Image out{.height = height, .width = width, .channels = image.channels};
  out.pixels.resize(static_cast<std::size_t>(height * width * image.channels));
  auto half = [](std::int64_t n) { return n >= 0 ? n / 2 : -((1 - n) / 2); };  // rounded down
  const std::int64_t top = half(image.height - height), left = half(image.width - width);
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      if (y + top < 0 || y + top >= image.height || x + left < 0 || x + left >= image.width) continue;
      for (std::int64_t c = 0; c < image.channels; ++c)
        out.pixels[static_cast<std::size_t>((y * width + x) * image.channels + c)] = image.at(y + top, x + left, c);
    }
  return out;
}

}  // namespace transformer
