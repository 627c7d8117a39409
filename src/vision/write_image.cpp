#include "transformer/core/error.h"
#include "transformer/vision/image.h"

// Into memory only: files are written as everywhere.
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace transformer {

std::string encode_png(const Image& image) {
  if ((image.channels != 1 && image.channels != 3) || image.height < 1 || image.width < 1 ||
      image.pixels.size() != static_cast<std::size_t>(image.height * image.width * image.channels))
    fail("encode_png", "{} x {} pixels of {} channels, {} values: expected 1 or 3 channels and a value for each", image.height, image.width,
         image.channels, image.pixels.size());
  std::string out;
  auto append = [](void* to, void* bytes, int size) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
  };
  const int height = static_cast<int>(image.height), width = static_cast<int>(image.width), channels = static_cast<int>(image.channels);
  if (stbi_write_png_to_func(append, &out, width, height, channels, image.pixels.data(), width * channels) == 0)
    fail("encode_png", "{} x {} pixels cannot be written", height, width);
  return out;
}

}  // namespace transformer
