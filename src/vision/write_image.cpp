#include <png.h>

#include "transformer/core/error.h"
#include "transformer/vision/image.h"

namespace transformer {

std::string encode_png(const Image& image) {
  if ((image.channels != 1 && image.channels != 3) || image.height < 1 || image.width < 1 ||
      image.pixels.size() != static_cast<std::size_t>(image.height * image.width * image.channels))
    fail("encode_png", "{} x {} pixels of {} channels, {} values: expected 1 or 3 channels and a value for each", image.height, image.width,
         image.channels, image.pixels.size());
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::string out(PNG_IMAGE_PNG_SIZE_MAX(header), '\0');
  png_alloc_size_t size = out.size();
  if (png_image_write_to_memory(&header, out.data(), &size, 0, image.pixels.data(), 0, nullptr) == 0)
    fail("encode_png", "{} x {} pixels cannot be written: {}", image.height, image.width, header.message);
  out.resize(size);
  return out;
}

}  // namespace transformer
