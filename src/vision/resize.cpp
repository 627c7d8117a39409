// Resizing as Pillow does it. A new pixel is a weighted mean of the old ones under its filter, which is as wide as the pixel is:
// first along x, then along y, each time rounded to 8 bits. Weights are fixed-point numbers of 22 bits, so that the result is
// the same to the last bit.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "transformer/core/error.h"
#include "transformer/vision/image.h"

namespace transformer {
namespace {

constexpr int weight_bits = 22;

struct Filter {
  double support;  // beyond this distance it is zero
  double (*value)(double distance);
};

double sinc(double x) { return x == 0.0 ? 1.0 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); }

double box(double x) { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }
double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }
double hamming(double x) { return std::abs(x) >= 1.0 ? 0.0 : sinc(x) * (0.54 + 0.46 * std::cos(std::numbers::pi * x)); }
double lanczos(double x) { return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0; }
// Keys' cubic with a = -1/2.
double cubic(double x) {
  const double t = std::abs(x);
  if (t < 1.0) return (1.5 * t - 2.5) * t * t + 1.0;
  return t < 2.0 ? ((-0.5 * t + 2.5) * t - 4.0) * t + 2.0 : 0.0;
}

Filter filter_of(Resample kind) {
  switch (kind) {
    case Resample::box: return {0.5, box};
    case Resample::bilinear: return {1.0, triangle};
    case Resample::hamming: return {1.0, hamming};
    case Resample::bicubic: return {2.0, cubic};
    case Resample::lanczos: return {3.0, lanczos};
    case Resample::nearest: break;
  }
  fail("resize", "there is no filter {}", static_cast<int>(kind));
}

// Where a new pixel looks along one axis: at old ones from `first` on, and what each weighs.
struct Taps {
  std::int64_t first;
  std::vector<std::int32_t> weights;
};

std::vector<Taps> taps_of(std::int64_t from, std::int64_t to, const Filter& filter) {
  const double step = static_cast<double>(from) / static_cast<double>(to), stretch = std::max(step, 1.0);
  const double reach = filter.support * stretch;
  std::vector<Taps> all;
  for (std::int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * step;
    const auto begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(center - reach + 0.5));
    const auto end = std::min<std::int64_t>(from, static_cast<std::int64_t>(center + reach + 0.5));
    std::vector<double> values;
    double total = 0.0;
    for (std::int64_t j = begin; j < end; ++j) {
      values.push_back(filter.value((static_cast<double>(j) - center + 0.5) * (1.0 / stretch)));
      total += values.back();
    }
    Taps taps{begin, {}};
    for (double v : values) {
      const double fixed = (total != 0.0 ? v / total : v) * (1 << weight_bits);
      taps.weights.push_back(static_cast<std::int32_t>(fixed < 0.0 ? fixed - 0.5 : fixed + 0.5));
    }
    all.push_back(std::move(taps));
  }
  return all;
}

std::uint8_t rounded(std::int64_t sum) {
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>((sum + (1 << (weight_bits - 1))) >> weight_bits, 0, 255));
}

Image resize_width(const Image& image, std::int64_t width, const Filter& filter) {
  const std::vector<Taps> taps = taps_of(image.width, width, filter);
  Image out{.height = image.height, .width = width, .channels = image.channels};
  out.pixels.reserve(static_cast<std::size_t>(out.height * width * out.channels));
  for (std::int64_t y = 0; y < image.height; ++y)
    for (const Taps& t : taps)
      for (std::int64_t c = 0; c < image.channels; ++c) {
        const std::uint8_t* p = image.pixels.data() + (y * image.width + t.first) * image.channels + c;
        std::int64_t sum = 0;
        for (std::int32_t weight : t.weights) sum += std::int64_t{weight} * *p, p += image.channels;
        out.pixels.push_back(rounded(sum));
      }
  return out;
}

Image resize_height(const Image& image, std::int64_t height, const Filter& filter) {
  Image out{.height = height, .width = image.width, .channels = image.channels};
  const std::int64_t row = image.width * image.channels;
  out.pixels.reserve(static_cast<std::size_t>(height * row));
  std::vector<std::int64_t> sums(static_cast<std::size_t>(row));
  for (const Taps& t : taps_of(image.height, height, filter)) {
    std::fill(sums.begin(), sums.end(), 0);
    const std::uint8_t* p = image.pixels.data() + t.first * row;
    for (std::int32_t weight : t.weights)
      for (std::int64_t& sum : sums) sum += std::int64_t{weight} * *p++;
    for (std::int64_t sum : sums) out.pixels.push_back(rounded(sum));
  }
  return out;
}

// The old pixel under the middle of each new one. The places are summed up, not multiplied: where a middle falls between two old
// pixels, rounding decides, and Pillow's is that of sums.
std::vector<std::int64_t> nearest(std::int64_t from, std::int64_t to) {
  const double step = static_cast<double>(from) / static_cast<double>(to);
  std::vector<std::int64_t> places;
  double at = 0.5 * step;
  for (std::int64_t i = 0; i < to; ++i, at += step) places.push_back(std::min(from - 1, static_cast<std::int64_t>(at)));
  return places;
}

Image resize_nearest(const Image& image, std::int64_t height, std::int64_t width) {
  const std::vector<std::int64_t> rows = nearest(image.height, height), columns = nearest(image.width, width);
  Image out{.height = height, .width = width, .channels = image.channels};
  out.pixels.reserve(static_cast<std::size_t>(height * width * image.channels));
  for (std::int64_t y : rows)
    for (std::int64_t x : columns)
      for (std::int64_t c = 0; c < image.channels; ++c) out.pixels.push_back(image.at(y, x, c));
  return out;
}

}  // namespace

Image resize(const Image& image, std::int64_t height, std::int64_t width, Resample filter) {
  constexpr std::int64_t largest = 1 << 15;
  if (height < 1 || width < 1 || height > largest || width > largest)
    fail("resize", "a picture of {} x {} asked: expected 1 to {} on a side", height, width, largest);
  if (image.height < 1 || image.width < 1) fail("resize", "the picture is empty ({} x {})", image.height, image.width);
  if (height == image.height && width == image.width) return image;
  if (filter == Resample::nearest) return resize_nearest(image, height, width);
  const Filter f = filter_of(filter);
  Image out = width == image.width ? image : resize_width(image, width, f);
  return height == image.height ? out : resize_height(out, height, f);
}

}  // namespace transformer
