// BMP of Windows and OS/2: palettes, red, green and blue, bit fields, run lengths.
#include <algorithm>
#include <bit>
#include <utility>

#include "vision/formats.h"

namespace transformer {
namespace {

enum Compression : std::uint32_t { none = 0, runs_of_8 = 1, runs_of_4 = 2, fields = 3 };

// Numbers of colours, a byte each, from pairs of (count, number): [height, width], in the file's order of rows.
std::vector<std::uint8_t> unpack(const ImageFile& file, std::string_view data, bool four_bits, std::size_t width, std::size_t height) {
  std::vector<std::uint8_t> out(width * height);
  std::size_t x = 0, y = 0, at = 0;
  const auto next = [&] { return at < data.size() ? static_cast<std::uint8_t>(data[at++]) : std::uint8_t{0}; };
  const auto put = [&](std::uint8_t number) {
    if (x < width && y < height) out[y * width + x] = number;
    ++x;
  };
  while (y < height) {
    if (at >= data.size()) {
      if (y + 1 == height && x >= width) break;  // the mark of the end alone is missing
      file.damaged("it is cut off");
    }
    const std::uint8_t count = next(), value = next();
    if (count > 0) {  // so many times the value, or its halves in turn
      for (int i = 0; i < count; ++i) put(!four_bits ? value : i % 2 == 0 ? value >> 4 : value & 15);
    } else if (value == 0) {  // the end of the row
      x = 0, ++y;
    } else if (value == 1) {  // of the picture
      break;
    } else if (value == 2) {  // elsewhere
      x += next(), y += next();
    } else {  // so many pixels as they are, up to an even place
      const std::size_t bytes = four_bits ? (value + 1U) / 2 : value;
      for (std::size_t i = 0; i < bytes; ++i) {
        const std::uint8_t pixels = next();
        put(four_bits ? pixels >> 4 : pixels);
        if (four_bits && 2 * i + 1 < value) put(pixels & 15);
      }
      if (bytes % 2 == 1) next();
    }
  }
  return out;
}

// The bits of a mask, from 0 to 255.
std::uint8_t field(std::uint32_t pixel, std::uint32_t mask) {
  if (mask == 0) return 0;
  const int shift = std::countr_zero(mask);
  return static_cast<std::uint8_t>(std::uint64_t{255} * ((pixel & mask) >> shift) / (mask >> shift));
}

}  // namespace

Image read_bmp(const ImageFile& file) {
  const std::size_t header = file.little(14, 4), end = 14 + header;
  const bool old = header == 12;
  const auto sized = static_cast<std::int32_t>(old ? file.little(20, 2) : file.little(22, 4));
  const std::int64_t signed_width = old ? file.little(18, 2) : static_cast<std::int32_t>(file.little(18, 4));
  Image image = file.image(signed_width, std::abs(std::int64_t{sized}));
  const std::size_t width = static_cast<std::size_t>(image.width), height = static_cast<std::size_t>(image.height);
  const std::uint32_t bits = file.little(old ? 24 : 28, 2), compression = old ? none : file.little(30, 4);
  constexpr std::array known{1U, 4U, 8U, 16U, 24U, 32U};
  if (std::ranges::find(known, bits) == known.end()) file.damaged("it has {} bits a pixel", bits);
  const bool runs = (compression == runs_of_8 && bits == 8) || (compression == runs_of_4 && bits == 4);
  if (compression != none && !runs && (compression != fields || bits < 16))
    file.damaged("compression {} of {} bits a pixel is not supported", compression, bits);

  Palette palette;
  std::size_t begin = file.little(10, 4);
  if (bits <= 8) {
    palette.colours = {};
    const std::size_t given = old ? 0 : file.little(46, 4), count = given == 0 ? std::size_t{1} << bits : given, each = old ? 3 : 4;
    for (std::size_t i = 0; i < std::min<std::size_t>(count, 256); ++i)
      for (std::size_t c = 0; c < 3; ++c) palette.colours[i][c] = static_cast<std::uint8_t>(file.little(end + each * i + 2 - c, 1));
    if (begin == end) begin += each * count;  // some writers forget the palette
  }
  std::array<std::uint32_t, 3> masks{0xFF0000, 0xFF00, 0xFF};
  if (bits == 16) masks = {0x7C00, 0x3E0, 0x1F};
  for (std::size_t c = 0; compression == fields && c < 3; ++c) masks[c] = file.little(54 + 4 * c, 4);
  if (masks == std::array<std::uint32_t, 3>{}) masks = {0xFF0000, 0xFF00, 0xFF};

  if (begin > file.bytes.size()) file.damaged("it is cut off");
  const std::string_view data = file.bytes.substr(begin);
  const std::size_t stride = (width * bits + 31) / 32 * 4;
  if (!runs && data.size() < stride * (height - 1) + (width * bits + 7) / 8) file.damaged("it is cut off");
  if (file.header) return image;
  const std::vector<std::uint8_t> unpacked = runs ? unpack(file, data, bits == 4, width, height) : std::vector<std::uint8_t>();
  std::vector<std::uint8_t> numbers(width);
  for (std::size_t y = 0; y < height; ++y) {
    std::uint8_t* to = image.pixels.data() + 3 * width * (sized < 0 ? y : height - 1 - y);  // mostly from the bottom
    const auto* row = reinterpret_cast<const std::uint8_t*>(data.data()) + y * stride;
    if (runs) {
      palette.paint(unpacked.data() + y * width, width, to);
    } else if (bits <= 8) {
      for (std::size_t x = 0; x < width; ++x)
        numbers[x] = static_cast<std::uint8_t>(row[x * bits / 8] >> (8 - bits - x * bits % 8) & ((1U << bits) - 1));
      palette.paint(numbers.data(), width, to);
    } else {
      for (std::size_t x = 0; x < width; ++x) {
        std::uint32_t pixel = 0;
        for (std::size_t i = 0; i < bits / 8; ++i) pixel |= std::uint32_t{row[x * bits / 8 + i]} << 8 * i;
        for (const std::uint32_t mask : masks) *to++ = field(pixel, mask);
      }
    }
  }
  return image;
}

}  // namespace transformer
