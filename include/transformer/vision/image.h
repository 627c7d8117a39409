#pragma once
// Images as people see them: 8 bits a channel, rows from the top.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace transformer {

struct Image {
  std::int64_t height = 0, width = 0, channels = 3;
  std::vector<std::uint8_t> pixels;  // [height, width, channels]

  std::uint8_t at(std::int64_t y, std::int64_t x, std::int64_t channel) const {
    return pixels[static_cast<std::size_t>((y * width + x) * channels + channel)];
  }
};

// PNG, JPEG, WebP, BMP or GIF (the first picture of it), as red, green and blue, upright as the camera was held; transparency is
// dropped. What comes out is what Pillow gives: ImageOps.exif_transpose(Image.open(path)).convert("RGB"). Error names the file and what is
// wrong with it; sizes are looked at before memory is taken for them.
Image read_image(const std::filesystem::path& path);
Image decode_image(std::string_view bytes, std::string_view name, std::int64_t most_pixels = std::int64_t{1} << 27);
// Error when the file does not begin as an image does; what comes behind its header is not read.
void check_image_header(const std::filesystem::path& path);
// The bytes of a PNG file: grey for one channel, red, green and blue for three.
std::string encode_png(const Image& image);

// The same picture with 1 channel (grey, as Pillow's mode L) or 3.
Image with_channels(const Image& image, std::int64_t channels);

// The filters of Pillow, with its numbers. All but nearest look at every pixel a new one covers (antialiasing).
enum class Resample : std::uint8_t { nearest = 0, lanczos = 1, bilinear = 2, bicubic = 3, box = 4, hamming = 5 };

// The same picture in another size, equal to Image.resize of Pillow up to 12. (Later ones may take the axes in the other order.)
Image resize(const Image& image, std::int64_t height, std::int64_t width, Resample filter);

// The middle of the picture; where it is smaller, black is added around it.
Image center_crop(const Image& image, std::int64_t height, std::int64_t width);

}  // namespace transformer
