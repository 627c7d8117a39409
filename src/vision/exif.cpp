// How a picture lies: cameras store it as the sensor gives it and note how it was held.
#include <algorithm>

#include "vision/formats.h"

namespace transformer {
namespace {

// TIFF inside of EXIF: "II" (lowest byte first) or "MM", 42, where the list of entries is; 12 bytes an entry: tag, type, count, value.
int exif_orientation(std::string_view exif) {
  constexpr std::string_view prefix("Exif\0\0", 6);
  for (int i = 0; i < 2 && exif.starts_with(prefix); ++i) exif.remove_prefix(prefix.size());
  const bool little = exif.starts_with("II");
  if (!little && !exif.starts_with("MM")) return 0;
  const auto number = [&](std::size_t at, std::size_t count) {
    std::size_t out = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t place = at + (little ? count - 1 - i : i);
      out = out << 8 | (place < exif.size() ? static_cast<unsigned char>(exif[place]) : 0U);
    }
    return out;
  };
  const std::size_t list = number(4, 4), entries = number(list, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = list + 2 + 12 * i;
    if (entry + 12 > exif.size()) return 0;
    constexpr std::size_t orientation = 0x0112, bytes[] = {0, 1, 0, 2, 4};  // of the types of whole numbers
    if (number(entry, 2) != orientation) continue;
    const std::size_t type = number(entry + 2, 2);
    return type < 5 && bytes[type] != 0 && number(entry + 4, 4) == 1 ? static_cast<int>(number(entry + 8, bytes[type])) : 1;
  }
  return 0;
}

// tiff:Orientation="6", or the same as an element.
int xmp_orientation(std::string_view xmp) {
  constexpr std::string_view tag = "tiff:Orientation";
  for (std::size_t at = xmp.find(tag); at != std::string_view::npos; at = xmp.find(tag, at + 1)) {
    std::string_view value = xmp.substr(at + tag.size());
    if (!value.starts_with("=\"") && !value.starts_with('>')) continue;
    value.remove_prefix(value.starts_with('>') ? 1 : 2);
    if (!value.empty() && value.front() >= '0' && value.front() <= '9') return value.front() - '0';
  }
  return 0;
}

}  // namespace

int CameraNotes::orientation() const {
  int out = exif_orientation(exif);
  if (out == 0) out = xmp_orientation(xmp);
  return out >= 1 && out <= 8 ? out : 1;
}

// From 5 on rows and columns change places; the picture is mirrored left to right, top to bottom, or both.
Image upright(Image image, int orientation) {
  if (orientation <= 1 || orientation > 8 || image.pixels.empty()) return image;
  const bool turned = orientation >= 5;
  const bool left = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool top = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Image out{.height = image.height, .width = image.width, .channels = image.channels};
  if (turned) std::swap(out.height, out.width);
  out.pixels.resize(image.pixels.size());
  auto to = out.pixels.begin();
  for (std::int64_t y = 0; y < out.height; ++y)
    for (std::int64_t x = 0; x < out.width; ++x) {
      const std::int64_t row = turned ? x : y, column = turned ? y : x;  // before they are mirrored
      const std::int64_t from = (top ? image.height - 1 - row : row) * image.width + (left ? image.width - 1 - column : column);
      to = std::copy_n(image.pixels.begin() + from * image.channels, image.channels, to);
    }
  return out;
}

}  // namespace transformer
