#include "transformer/vision/image.h"

#include <algorithm>
#include <numeric>

#include "io/shared/mapping.h"
#include "io/shared/read_file.h"
#include "transformer/core/error.h"
#include "vision/formats.h"

namespace transformer {
namespace {

constexpr std::string_view readable = "PNG, JPEG, WebP, BMP or GIF";

constexpr ImageFormat formats[] =
    {
        {"PNG", [](std::string_view bytes) { return bytes.starts_with("\x89PNG\r\n\x1A\n"); }, read_png},
        {"JPEG", [](std::string_view bytes) { return bytes.starts_with("\xFF\xD8\xFF"); }, read_jpeg},
        {"WebP", [](std::string_view bytes) { return bytes.size() >= 12 && bytes.starts_with("RIFF") && bytes.substr(8, 4) == "WEBP"; },
         read_webp},
        {"BMP",
         [](std::string_view bytes) {  // "BM", and how long the header is
  constexpr std::string_view sizes = "\x0C\x28\x34\x38\x40\x6C\x7C";
  return bytes.size() >= 18 && bytes.starts_with("BM") && sizes.find(bytes[14]) != std::string_view::npos &&
      bytes.substr(15, 3) == std::string_view("\0\0\0", 3);
         },
         read_bmp},
        {"GIF", [](std::string_view bytes) { return bytes.starts_with("GIF87a") || bytes.starts_with("GIF89a"); }, read_gif},
};

// What people have beside these, for messages.
std::string_view other_format(std::string_view bytes) {
  using namespace std::string_view_literals;
  if (bytes.starts_with("II*\0"sv) || bytes.starts_with("MM\0*"sv)) return "TIFF";
  if (bytes.size() < 12 || bytes.substr(4, 4) != "ftyp"sv) return bytes.starts_with("\0\0\0\fJXL "sv) ? "JPEG XL" : "";
  const std::string_view brand = bytes.substr(8, 4);
  return brand.starts_with("avi") ? "AVIF" : brand.starts_with("he") || brand == "mif1" || brand == "msf1" ? "HEIC" : "";
}

Image read(const ImageFile& file) {
  constexpr std::size_t largest_file = std::size_t{1} << 30;
  if (file.bytes.size() > largest_file) fail(file.name, "the file has {} bytes: an image may have {}", file.bytes.size(), largest_file);
  if (const ImageFormat* format = image_format(file.bytes)) return format->read(file);
  const std::string_view other = other_format(file.bytes);
  if (!other.empty()) fail(file.name, "it is {}, which is not read: convert it to {}", other, readable);
  fail(file.name, "not an image that can be read: expected {}", readable);
}

}  // namespace

const ImageFormat* image_format(std::string_view bytes) {
  const auto* it = std::ranges::find_if(formats, [&](const ImageFormat& format) { return format.begins(bytes); });
  return it == std::end(formats) ? nullptr : it;
}

std::uint32_t ImageFile::little(std::size_t at, std::size_t count) const {
  if (at > bytes.size() || count > bytes.size() - at) damaged("it is cut off");
  std::uint32_t out = 0;
  for (std::size_t i = count; i > 0; --i) out = out << 8 | static_cast<unsigned char>(bytes[at + i - 1]);
  return out;
}

std::uint32_t ImageFile::big(std::size_t at) const {
  const std::uint32_t value = little(at, 4);
  return value << 24 | (value & 0xFF00) << 8 | (value >> 8 & 0xFF00) | value >> 24;
}

Image ImageFile::image(std::int64_t width, std::int64_t height) const {
  constexpr std::int64_t largest_side = 1 << 15;
  if (width < 1 || height < 1 || width > largest_side || height > largest_side || width * height > most_pixels)
    fail(name, "the image is {} x {}: expected at most {} on a side and {} pixels in all", width, height, largest_side, most_pixels);
  Image out{.height = height, .width = width, .channels = 3};
  if (!header) out.pixels.resize(static_cast<std::size_t>(3 * width * height));
  return out;
}

Palette::Palette() {
  for (std::size_t i = 0; i < colours.size(); ++i) colours[i].fill(static_cast<std::uint8_t>(i));
}

void Palette::paint(const std::uint8_t* numbers, std::size_t count, std::uint8_t* to) const {
  for (std::size_t i = 0; i < count; ++i) to = std::ranges::copy(colours[numbers[i]], to).out;
}

Image decode_image(std::string_view bytes, std::string_view name, std::int64_t most_pixels) {
  return read({.bytes = bytes, .name = name, .most_pixels = most_pixels});
}

Image read_image(const std::filesystem::path& path) { return decode_image(read_file(path), path.string()); }

void check_image_header(const std::filesystem::path& path) {
  const Mapping file(path.string());
  read({.bytes = {reinterpret_cast<const char*>(file.data), file.size}, .name = path.string(), .header = true});
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
