#pragma once
// The kinds of files that images come in. Each gives null for a split that is not there.

#include "transformer/vision/dataset.h"

namespace transformer {

std::shared_ptr<const ImageDataset> open_idx(const std::string& folder, ImageSplit split, const std::vector<std::string>& class_names);
std::shared_ptr<const ImageDataset> open_cifar(const std::string& folder, ImageSplit split);
std::shared_ptr<const ImageDataset> open_image_folder(const std::string& folder, ImageSplit split);

// Images of one size that lie in memory.
class ImagesInMemory final : public ImageDataset {
 public:
  // `name`: of their file.
  ImagesInMemory(Extent extent, std::vector<std::uint8_t> pixels, std::vector<std::int64_t> labels, std::vector<std::string> classes,
                 bool numbered, std::string name);
  Image image(std::int64_t i) const override;
  std::string name(std::int64_t i) const override;
  Extent extent() const override { return extent_; }

 private:
  Extent extent_;
  std::vector<std::uint8_t> pixels_;
  std::string name_;
};

}  // namespace transformer
