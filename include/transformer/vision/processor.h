#pragma once
// From images to what a model takes, as preprocessor_config.json says: resized, cropped, scaled to numbers, normalised.
//
//   ImageProcessor processor = ImageProcessor::load("vit-base-patch16-224");
//   Tensor pixel_values = processor(ctx, {read_image("cat.jpg")});                       // [1, 3, 224, 224]

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"
#include "transformer/vision/image.h"

namespace transformer {

struct ImageProcessorConfig {
  struct Size {
    std::int64_t height = 0, width = 0;
    std::int64_t shortest_edge = 0;  // > 0: instead of height and width; the other side keeps its proportion to it
  };
  std::optional<Size> resize = Size{224, 224};
  Resample resample = Resample::bilinear;
  std::optional<Size> crop = {};  // the middle, after resizing
  std::optional<double> rescale = 1.0 / 255.0;
  bool normalize = true;
  std::vector<float> mean = {0.5F, 0.5F, 0.5F}, deviation = {0.5F, 0.5F, 0.5F};  // of the channels: three, or one for grey images
};

class ImageProcessor {
 public:
  explicit ImageProcessor(const ImageProcessorConfig& config = {});
  // preprocessor_config.json of a folder: those of ViT (which Swin uses as well) and DeiT. A key that is not known is an Error.
  static ImageProcessor load(const std::filesystem::path& folder);
  static ImageProcessor from_json(const nlohmann::json& settings);
  nlohmann::json to_json() const;  // as preprocessor_config.json has it

  const ImageProcessorConfig& config() const { return config_; }
  // → float32 [images, channels, height, width]; all must come out in one size.
  Tensor operator()(Context& ctx, const std::vector<Image>& images) const;

  // Its two steps. First the picture with the model's channels (colours become grey, grey becomes red, green and blue), resized and
  // cropped; then its numbers, [channels, height, width].
  Image shape(const Image& image) const;
  void normalize(const Image& shaped, std::span<float> out) const;
  std::int64_t channels() const { return static_cast<std::int64_t>(config_.mean.size()); }
  // Height and width of what shape() gives; nothing when they follow from the image's own.
  std::optional<std::pair<std::int64_t, std::int64_t>> size() const;

 private:
  ImageProcessorConfig config_;
  std::vector<float> levels_;  // [channels, 256]: the number of each value of a pixel
};

}  // namespace transformer
