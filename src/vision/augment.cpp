#include "transformer/vision/augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "transformer/core/setting_error.h"

namespace transformer {
namespace {

std::uint8_t to_byte(float value) { return static_cast<std::uint8_t>(std::clamp(std::lround(value), 0L, 255L)); }

template <class F>
void each_value(Image& image, F&& f) {
  for (std::uint8_t& v : image.pixels) v = f(v);
}

void mirror(Image& image) {
  const std::int64_t c = image.channels;
  for (std::int64_t y = 0; y < image.height; ++y)
    for (std::int64_t left = 0, right = image.width - 1; left < right; ++left, --right)
      std::swap_ranges(image.pixels.begin() + (y * image.width + left) * c, image.pixels.begin() + (y * image.width + left + 1) * c,
                       image.pixels.begin() + (y * image.width + right) * c);
}

// The picture moved by whole pixels, black behind it.
Image moved(const Image& image, std::int64_t down, std::int64_t right) {
  Image out{.height = image.height, .width = image.width, .channels = image.channels};
  out.pixels.resize(image.pixels.size());
  const std::int64_t width = image.width - std::abs(right);
  for (std::int64_t y = std::max<std::int64_t>(0, down); width > 0 && y < std::min(image.height, image.height + down); ++y) {
    const std::int64_t to = y * image.width + std::max<std::int64_t>(0, right);
    const std::int64_t from = (y - down) * image.width + std::max<std::int64_t>(0, -right);
    std::copy_n(image.pixels.begin() + from * image.channels, width * image.channels, out.pixels.begin() + to * image.channels);
  }
  return out;
}

// What stands at (x, y) came from the middle plus [xx xy; yx yy] · (x, y from the middle) plus (dx, dy); between pixels, from the four
// around; black outside.
struct Affine {
  float xx = 1.0F, xy = 0.0F, dx = 0.0F, yx = 0.0F, yy = 1.0F, dy = 0.0F;
};
Image warped(const Image& image, const Affine& a) {
  Image out{.height = image.height, .width = image.width, .channels = image.channels};
  out.pixels.resize(image.pixels.size());
  const float middle_x = static_cast<float>(image.width - 1) / 2.0F, middle_y = static_cast<float>(image.height - 1) / 2.0F;
  for (std::int64_t y = 0; y < image.height; ++y)
    for (std::int64_t x = 0; x < image.width; ++x) {
      const float u = static_cast<float>(x) - middle_x, v = static_cast<float>(y) - middle_y;
      const float from_x = middle_x + a.xx * u + a.xy * v + a.dx, from_y = middle_y + a.yx * u + a.yy * v + a.dy;
      const float left = std::floor(from_x), top = std::floor(from_y), fx = from_x - left, fy = from_y - top;
      for (std::int64_t c = 0; c < image.channels; ++c) {
        float sum = 0.0F;
        for (int k = 0; k < 4; ++k) {
          const std::int64_t px = static_cast<std::int64_t>(left) + k % 2, py = static_cast<std::int64_t>(top) + k / 2;
          if (px < 0 || py < 0 || px >= image.width || py >= image.height) continue;
          sum += (k % 2 == 0 ? 1.0F - fx : fx) * (k / 2 == 0 ? 1.0F - fy : fy) * static_cast<float>(image.at(py, px, c));
        }
        out.pixels[static_cast<std::size_t>((y * image.width + x) * image.channels + c)] = to_byte(sum);
      }
    }
  return out;
}

// What RandAugment chooses from. `strength` is in [0, 1]; `sign` is -1 or 1.
using Change = void (*)(Image& image, float strength, float sign);

void shift_x(Image& image, float s, float sign) { image = warped(image, {.dx = sign * s * 0.45F * static_cast<float>(image.width)}); }
void shift_y(Image& image, float s, float sign) { image = warped(image, {.dy = sign * s * 0.45F * static_cast<float>(image.height)}); }
void shear_x(Image& image, float s, float sign) { image = warped(image, {.xy = sign * s * 0.3F}); }
void shear_y(Image& image, float s, float sign) { image = warped(image, {.yx = sign * s * 0.3F}); }
void turn(Image& image, float s, float sign) {
  const float angle = sign * s * std::numbers::pi_v<float> / 6.0F, c = std::cos(angle), d = std::sin(angle);
  image = warped(image, {.xx = c, .xy = -d, .yx = d, .yy = c});
}
void brightness(Image& image, float s, float sign) {
  each_value(image, [f = 1.0F + sign * 0.9F * s](std::uint8_t v) { return to_byte(f * static_cast<float>(v)); });
}
void contrast(Image& image, float s, float sign) {
  float mean = 0.0F;
  for (const std::uint8_t v : image.pixels) mean += static_cast<float>(v);
  mean /= static_cast<float>(image.pixels.size());
  each_value(image, [mean, f = 1.0F + sign * 0.9F * s](std::uint8_t v) { return to_byte(mean + f * (static_cast<float>(v) - mean)); });
}
void posterise(Image& image, float s, float) {
  const int dropped = static_cast<int>(std::lround(4.0F * s));  // of the 8 bits
  each_value(image, [dropped](std::uint8_t v) { return static_cast<std::uint8_t>(v >> dropped << dropped); });
}
void solarise(Image& image, float s, float) {
  const float threshold = 256.0F * (1.0F - s);
  each_value(image, [threshold](std::uint8_t v) { return static_cast<float>(v) < threshold ? v : static_cast<std::uint8_t>(255 - v); });
}
void stretch(Image& image, float, float) {  // the values to 0 … 255
  const auto [least, greatest] = std::minmax_element(image.pixels.begin(), image.pixels.end());
  const float low = *least, range = static_cast<float>(*greatest) - low;
  if (range > 0.0F) each_value(image, [low, range](std::uint8_t v) { return to_byte((static_cast<float>(v) - low) * 255.0F / range); });
}
void saturate(Image& image, float s, float sign) {  // colours further from grey, or nearer
  if (image.channels != 3) return;
  const Image grey = with_channels(image, 1);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    const float g = grey.pixels[i / 3];
    image.pixels[i] = to_byte(g + (1.0F + sign * 0.9F * s) * (static_cast<float>(image.pixels[i]) - g));
  }
}
void nothing(Image&, float, float) {}

constexpr std::array<Change, 12> changes{nothing,    shift_x,  shift_y,   turn,     shear_x, shear_y,
                                         brightness, contrast, posterise, solarise, stretch, saturate};

// A rectangle of 2 to 33 % of the picture, its sides 0.3 to 3.3 in proportion (Zhong et al.).
void erase(Image& image, Draws& draws) {
  const float area = static_cast<float>(image.height * image.width) * draws.uniform(0.02F, 0.33F);
  const float ratio = std::exp(draws.uniform(std::log(0.3F), std::log(1.0F / 0.3F)));
  const auto side = [](float length, std::int64_t most) { return std::clamp<std::int64_t>(std::lround(length), 1, most); };
  const std::int64_t height = side(std::sqrt(area * ratio), image.height), width = side(std::sqrt(area / ratio), image.width);
  const std::int64_t top = draws.below(image.height - height + 1), left = draws.below(image.width - width + 1);
  for (std::int64_t y = top; y < top + height; ++y) {
    const std::int64_t row = (y * image.width + left) * image.channels;
    std::uint32_t noise = 0;
    for (std::int64_t i = 0; i < width * image.channels; ++i, noise >>= 8) {
      if (i % 4 == 0) noise = draws.bits();
      image.pixels[static_cast<std::size_t>(row + i)] = static_cast<std::uint8_t>(noise);
    }
  }
}

}  // namespace

void check(const AugmentConfig& c) {
  if (c.crop_padding < 0 || c.crop_padding > 4096) wrong_setting("images", "crop_padding", "is {}: expected 0 to 4096", c.crop_padding);
  if (!(c.random_erasing >= 0.0F && c.random_erasing <= 1.0F))
    wrong_setting("images", "random_erasing", "is {}: expected a probability", c.random_erasing);
  const auto& r = c.randaugment;
  if (!r.empty() && (r.size() != 2 || r[0] < 0 || r[0] > 100 || r[1] < 0 || r[1] > 10))
    wrong_setting("images", "randaugment",
                  "is wrong: expected two numbers, of changes (0 to 100) and their strength (0 to 10), such as 2,9");
}

Image augment(Image image, const AugmentConfig& config, Draws draws) {
  if (const std::int64_t p = config.crop_padding; p > 0) {
    const std::int64_t down = draws.below(2 * p + 1) - p, right = draws.below(2 * p + 1) - p;
    image = moved(image, down, right);
  }
  if (config.flip && draws.uniform() < 0.5F) mirror(image);
  for (std::int64_t i = 0; !config.randaugment.empty() && i < config.randaugment[0]; ++i) {
    const Change change = changes[static_cast<std::size_t>(draws.below(std::ssize(changes)))];
    const float strength = static_cast<float>(config.randaugment[1]) / 10.0F;
    change(image, strength, draws.uniform() < 0.5F ? -1.0F : 1.0F);
  }
  if (config.random_erasing > 0.0F && draws.uniform() < config.random_erasing) erase(image, draws);
  return image;
}

// Jöhnk: of u^(1/α) and v^(1/α), taken until their sum is at most 1, the first one's share; as logarithms, since they can be tiny.
double draw_beta(double alpha, Draws& draws) {
  if (!(alpha > 0.0 && alpha <= 4.0)) fail("images", "alpha of a mixture is {}: expected more than 0 and at most 4", alpha);
  for (int i = 0; i < 10'000; ++i) {
    const double a = std::log(1.0 - static_cast<double>(draws.uniform())) / alpha;  // log of (0, 1]
    const double b = std::log(1.0 - static_cast<double>(draws.uniform())) / alpha;
    const double largest = std::max(a, b), sum = std::exp(a - largest) + std::exp(b - largest);
    if (largest + std::log(sum) <= 0.0) return std::exp(a - largest) / sum;
  }
  return 0.5;
}

}  // namespace transformer
