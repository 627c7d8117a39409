#include "transformer/vision/image.h"

#include <algorithm>
#include <fstream>
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
namespace {

// What follows looks at a file before the decoder does: stb_image takes memory for whatever a header announces, and before 2.28 it
// writes past the end of large Huffman tables.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  std::size_t size() const { return bytes_.size(); }
  std::size_t operator[](std::size_t i) const { return i < size() ? static_cast<unsigned char>(bytes_[i]) : 0U; }
  std::size_t two(std::size_t i) const { return (*this)[i] << 8 | (*this)[i + 1]; }
  std::size_t four(std::size_t i) const { return two(i) << 16 | two(i + 2); }

 private:
  std::string_view bytes_;
};

bool is_png(const Bytes& file) { return file.four(0) == 0x89504E47; }

// JPEG: no Huffman table has more than 256 codes.
void check_tables(const Bytes& jpeg, std::string_view name) {
  for (std::size_t i = 0; i < jpeg.size();) {
    const std::size_t marker = jpeg[i + 1];
    if (jpeg[i] != 0xFF || marker == 0xFF) {
      ++i;  // data, padding
    } else if (marker <= 0x01 || (marker >= 0xD0 && marker <= 0xD9)) {
      i += 2;  // without a segment: a stuffed 0, TEM, RST0 to RST7, SOI, EOI
    } else {
      const std::size_t end = i + 2 + jpeg.two(i + 2);
      for (std::size_t table = i + 4; marker == 0xC4 && table < end;) {
        std::size_t codes = 0;
        for (std::size_t length = 1; length <= 16; ++length) codes += jpeg[table + length];
        if (codes > 256) fail(name, "the image is damaged: a Huffman table has {} codes, more than 256", codes);
        table += 17 + codes;
      }
      i = end;
    }
  }
}

// PNG: every chunk is there as a whole.
void check_chunks(const Bytes& png, std::string_view name) {
  constexpr std::size_t last = 0x49454E44;  // IEND
  for (std::size_t i = 8; i + 8 <= png.size() && png.four(i + 4) != last; i += 12 + png.four(i))
    if (png.four(i) > png.size() - i - 8)
      fail(name, "the image is damaged: a part of {} bytes is announced, {} are left", png.four(i), png.size() - i - 8);
}

void check_sides(std::int64_t width, std::int64_t height, std::string_view name) {
  constexpr std::int64_t largest_side = 1 << 15, most_pixels = std::int64_t{1} << 27;
  if (width < 1 || height < 1 || width > largest_side || height > largest_side || width * height > most_pixels)
    fail(name, "the image is {} x {}: expected at most {} on a side and {} pixels in all", width, height, largest_side, most_pixels);
}

// Can so many pixels be in the file? A byte of PNG gives at most 1032 bytes (deflate); JPEG has a bit at least for 64 pixels.
void check_pixels(const Bytes& file, std::int64_t pixels, std::string_view name) {
  constexpr std::size_t channels[] = {1, 1, 3, 1, 2, 1, 4};  // by the type of colour
  const std::size_t type = std::min<std::size_t>(file[25], 6), bits = std::max<std::size_t>(file[24], 1) * channels[type];
  const std::size_t most = is_png(file) ? file.size() * 1032 * 8 / bits : file.size() * 512;
  if (static_cast<std::size_t>(pixels) > most) fail(name, "the image is damaged: it has {} bytes for {} pixels", file.size(), pixels);
}

}  // namespace

Image decode_image(std::string_view bytes, std::string_view name) {
  constexpr std::size_t largest_file = std::size_t{1} << 30;
  if (bytes.size() > largest_file) fail(name, "the file has {} bytes: an image may have {}", bytes.size(), largest_file);
  const Bytes file(bytes);
  if (is_png(file)) check_chunks(file, name);
  if (file[0] == 0xFF) check_tables(file, name);
  const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const int size = static_cast<int>(bytes.size());
  int width = 0, height = 0, channels = 0;
  if (stbi_info_from_memory(data, size, &width, &height, &channels) == 0)
    fail(name, "not an image that can be read: expected PNG or JPEG ({})", stbi_failure_reason());
  check_sides(width, height, name);
  check_pixels(file, std::int64_t{width} * height, name);
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(stbi_load_from_memory(data, size, &width, &height, &channels, 3), stbi_image_free);
  if (!pixels) fail(name, "the image is damaged: {}", stbi_failure_reason());
  Image image{.height = height, .width = width, .channels = 3};
  image.pixels.assign(pixels.get(), pixels.get() + std::int64_t{3} * width * height);
  return image;
}

Image read_image(const std::filesystem::path& path) { return decode_image(read_file(path), path.string()); }

void check_image_header(const std::filesystem::path& path) {
  const std::string name = path.string();
  std::ifstream file(path, std::ios::binary);
  if (!file || is_directory(path)) fail(name, "cannot be opened");
  // The next bytes; fewer at the end of the file.
  auto next = [&](std::size_t count) {
    std::string bytes(count, '\0');
    file.read(bytes.data(), static_cast<std::streamsize>(count));
    bytes.resize(static_cast<std::size_t>(file.gcount()));
    return bytes;
  };
  const std::string start = next(2);
  if (start == "\x89P") {
    const std::string header = start + next(24);
    const Bytes png(header);
    if (header.size() == 26 && is_png(png) && png.four(12) == 0x49484452)  // IHDR
      return check_sides(static_cast<std::int64_t>(png.four(16)), static_cast<std::int64_t>(png.four(20)), name);
  }
  for (bool jpeg = start == "\xFF\xD8"; jpeg;) {
    const std::string bytes = next(4);  // of a segment: marker, length
    const Bytes segment(bytes);
    const std::size_t marker = segment[1], length = segment.two(2);
    if (bytes.size() == 4 && (segment[0] != 0xFF || marker == 0xFF)) {  // padding, or what decoders step over
      file.seekg(-3, std::ios::cur);
      continue;
    }
    if (bytes.size() < 4 || length < 2) break;
    if (marker >= 0xC0 && marker <= 0xC2) {
      const std::string frame = next(5);
      if (frame.size() < 5) break;
      return check_sides(static_cast<std::int64_t>(Bytes(frame).two(3)), static_cast<std::int64_t>(Bytes(frame).two(1)), name);
    }
    file.seekg(static_cast<std::streamoff>(length) - 2, std::ios::cur);
  }
  fail(name, "not an image that can be read: expected PNG or JPEG");
}

Image with_channels(const Image& image, std::int64_t channels) {
  if (channels == image.channels) return image;
  if ((channels != 1 && channels != 3) || (image.channels != 1 && image.channels != 3))
    fail("images", "an image has {} channels: expected 1 or 3, to make {} of them", image.channels, channels);
  Image out{.height = image.height, .width = image.width, .channels = channels};
  const auto count = static_cast<std::size_t>(image.height * image.width);
  out.pixels.resize(count * static_cast<std::size_t>(channels));
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* from = image.pixels.data() + i * static_cast<std::size_t>(image.channels);
    if (channels == 1) out.pixels[i] = static_cast<std::uint8_t>((from[0] * 19595U + from[1] * 38470U + from[2] * 7471U + 0x8000U) >> 16);
    else std::fill_n(out.pixels.begin() + static_cast<std::ptrdiff_t>(3 * i), 3, *from);
  }
  return out;
}

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
