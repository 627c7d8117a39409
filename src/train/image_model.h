#pragma once
// The config.json of an image model, and what is to be changed in another folder's.

#include "transformer/train/image.h"

namespace transformer {

// Zeros of the settings are filled in from the images.
ImageModelConfig resolved(ImageModelConfig model, const ImageDataset::Extent& images);
// height and width: those of the images where image_size is 0
nlohmann::json image_model_json(const ImageModelConfig& resolved, std::int64_t height, std::int64_t width,
                                const std::vector<std::string>& classes, bool teacher);
nlohmann::json changed_image_model(const nlohmann::json& config, const ImageFineTuning& start, const std::vector<std::string>& classes,
                                   bool teacher);

// What the config.json of an image model says.
std::pair<std::int64_t, std::int64_t> image_size_of(const nlohmann::json& config);  // height, width
bool has_teacher_head(const nlohmann::json& config);

}  // namespace transformer
