#pragma once
// transformer evaluate MODEL --images|--idx|--cifar FOLDER: how many images a classifier gets right.

#include <string>

#include "cli/compute.h"
#include "transformer/vision/dataset.h"

namespace transformer::cli {

struct EvaluateImages {
  ImageSource source = {};
  ImageSplit split = ImageSplit::test;
  bool skip_broken = false;
  std::int64_t batch = 256;

  bool asked() const { return !source.images.empty() || !source.idx.empty() || !source.cifar.empty(); }
  static void visit(auto& self, auto&& field) {
    ImageSource::visit(self.source, field);
    field("image_split", self.split, "which of these images");
    field("skip_broken", self.skip_broken, "leave out images that cannot be read, and say which");
    field("image_batch", self.batch, "images that are computed together");
  }
};

void evaluate_images(const std::string& model, const std::string& adapter, const EvaluateImages& config, const ComputeConfig& compute);

}  // namespace transformer::cli
