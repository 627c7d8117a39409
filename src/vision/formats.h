#pragma once
// The formats that images come in, one reader per file. What an image is, is told by how its bytes begin, not by its name; colours are
// those of Pillow's convert("RGB"), upright as ImageOps.exif_transpose makes them.

#include <array>
#include <string>

#include "transformer/core/error.h"
#include "transformer/vision/image.h"

namespace transformer {

// An image file as its reader gets it.
struct ImageFile {
  std::string_view bytes, name;
  std::int64_t most_pixels = std::int64_t{1} << 27;
  bool header = false;  // only the header is of interest: the Image has its sizes and no pixels

  // The number of `count` bytes there, the lowest first. Error when the file ends before.
  std::uint32_t little(std::size_t at, std::size_t count) const;
  std::uint32_t big(std::size_t at) const;  // of four bytes, the highest first
  template <class... Args>
  [[noreturn]] void damaged(fmt::format_string<Args...> what, Args&&... args) const {
    fail(name, "the image is damaged: {}", fmt::format(what, std::forward<Args>(args)...));
  }
  // An image of this size, in colours, with memory for its pixels. Error for sizes that are none or too large.
  Image image(std::int64_t width, std::int64_t height) const;
};

struct ImageFormat {
  std::string_view name;
  bool (*begins)(std::string_view bytes);  // the first 32 are enough
  Image (*read)(const ImageFile& file);
};
// Null for what is in none of the formats.
const ImageFormat* image_format(std::string_view bytes);

Image read_png(const ImageFile& file);
Image read_jpeg(const ImageFile& file);
Image read_webp(const ImageFile& file);
Image read_bmp(const ImageFile& file);
Image read_gif(const ImageFile& file);

// Red, green and blue by number: at first grey, as bright as the number; those that a file's own palette does not have are black.
struct Palette {
  std::array<std::array<std::uint8_t, 3>, 256> colours;
  Palette();
  // Of one byte a pixel, into `to`.
  void paint(const std::uint8_t* numbers, std::size_t count, std::uint8_t* to) const;
};

// What cameras note beside the pixels.
struct CameraNotes {
  std::string exif, xmp;
  // How the picture lies, from 1 (upright) to 8: EXIF's Orientation, or that of XMP. Notes that cannot be read say nothing.
  int orientation() const;
};
// The picture as it is to be looked at.
Image upright(Image image, int orientation);

}  // namespace transformer
