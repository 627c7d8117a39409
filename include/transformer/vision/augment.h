#pragma once
// Changes of training images that leave what they show: a model then learns that, and not the images by heart.
//
//   Image changed = augment(image, {.flip = true, .crop_padding = 4}, Draws(epoch_stream(seed, epoch, 1), sample));

#include <cstdint>
#include <vector>

#include "transformer/core/random.h"
#include "transformer/io/config.h"
#include "transformer/vision/image.h"

namespace transformer {

struct AugmentConfig {
  bool flip = false;
  std::int64_t crop_padding = 0;
  std::vector<std::int64_t> randaugment = {};
  float random_erasing = 0.0F;

  static void visit(auto& self, auto&& field) {
    field("flip", self.flip, "mirror every second training image, left and right");
    field("crop_padding", self.crop_padding, "add so many black pixels around a training image, and cut its size out somewhere");
    field("randaugment", self.randaugment,
          "N,M: N random changes of a training image (shift, turn, shear, brightness …) of strength M, 0 to 10");
    field("random_erasing", self.random_erasing, "how often a rectangle of a training image is filled with noise");
  }
};
// Error when a setting makes no sense.
void check(const AugmentConfig& config);

// The random numbers of one sample: which ones it gets depends on the stream and the sample alone.
class Draws {
 public:
  Draws(const RandomStream& stream, std::int64_t sample) : stream_(stream), next_(static_cast<std::uint64_t>(sample) << 20) {}
  std::uint32_t bits() { return stream_.bits(next_++); }
  float uniform() { return stream_.uniform(next_++); }                             // [0, 1)
  float uniform(float low, float high) { return low + (high - low) * uniform(); }  // [low, high)
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>((std::uint64_t{bits()} * static_cast<std::uint64_t>(n)) >> 32); }

 private:
  RandomStream stream_;
  std::uint64_t next_;
};

Image augment(Image image, const AugmentConfig& config, Draws draws);

// A number of Beta(alpha, alpha): the share of one image in a mixture of two. 0 < alpha ≤ 4
double draw_beta(double alpha, Draws& draws);

}  // namespace transformer
