#pragma once
// Training a classifier of images: the task behind `transformer train image`.
//
//   ImageSettings settings{.source = {.idx = "fashion-mnist"}, .augmentation = {.flip = true, .crop_padding = 2}};
//   Context ctx({.seed = 1});
//   ImageTask task(ctx, settings, ImageModelConfig{.patch_size = 4, .d_model = 64, .num_heads = 4, .num_layers = 6});
//   Trainer(ctx, task, {.save_dir = "model", .max_epoch = 30, .best_metric = "accuracy"}).run();
//
// or a published one, trained further on other classes:
//
//   ImageTask task(ctx, {.source = {.images = "flowers"}}, ImageFineTuning{.from = "vit-base-patch16-224"});

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transformer/train/model_task.h"
#include "transformer/vision/augment.h"
#include "transformer/vision/dataset.h"

namespace transformer {

enum class ImageArch : std::uint8_t {
  vit,
  deit,  // with a second token beside the first, which learns from a teacher where there is one
};
inline EnumNames<ImageArch> names(ImageArch) { return {{ImageArch::vit, "vit"}, {ImageArch::deit, "deit"}}; }

// The sizes of a fresh model.
struct ImageModelConfig {
  ImageArch arch = ImageArch::vit;
  std::int64_t image_size = 0;
  std::int64_t patch_size = 0;
  std::int64_t channels = 0;
  std::int64_t d_model = 192;
  std::int64_t num_heads = 3;
  std::int64_t num_layers = 12;
  std::int64_t d_ff = 0;
  float dropout = 0.0F, attention_dropout = 0.0F;
  float stochastic_depth = 0.0F;

  static void visit(auto& self, auto&& field) {
    field("arch", self.arch, "family of the model; Hugging Face opens both");
    field("image_size", self.image_size, "height and width that images are brought to (0: as they are, 224 for folders of images)");
    field("patch_size", self.patch_size, "height and width of a patch (0: 16, for images below 64 pixels 4)");
    field("channels", self.channels, "1 for grey, 3 for colours (0: as the images have it)");
    field("d_model", self.d_model, "width of the model");
    field("num_heads", self.num_heads, "attention heads");
    field("num_layers", self.num_layers, "layers");
    field("d_ff", self.d_ff, "width inside the feed-forward layers (0: four times d_model)");
    field("dropout", self.dropout, "after the embeddings and each sublayer");
    field("attention_dropout", self.attention_dropout, "on the attention weights");
    field("stochastic_depth", self.stochastic_depth,
          "how often the last layer's sublayers are left out of a training image; less in those before, never in the first");
  }
};

enum class ImageValidation : std::uint8_t { automatic, split, test, none };
inline EnumNames<ImageValidation> names(ImageValidation) {
  return {{ImageValidation::automatic, "auto"},
          {ImageValidation::split, "split"},
          {ImageValidation::test, "test"},
          {ImageValidation::none, "none"}};
}

// How images are used.
struct ImageConfig {
  ImageValidation valid = ImageValidation::automatic;
  double valid_split = 0.1;
  bool skip_broken = false;
  static constexpr std::int64_t usual_batch_size = 128;
  std::int64_t batch_size = usual_batch_size, eval_batch_size = 256;
  std::vector<float> mean = {}, std = {};
  float label_smoothing = 0.0F;
  float mixup = 0.0F, cutmix = 0.0F;
  std::string teacher = {};

  static void visit(auto& self, auto&& field) {
    field("valid", self.valid,
          "images to validate with: a part of the training images, the test images, none; auto: valid/ where there is one, else a part");
    field("valid_split", self.valid_split, "that part, of each class");
    field("skip_broken", self.skip_broken, "leave out images that cannot be read, and say which");
    field("batch_size", self.batch_size, "images of a batch (0: 128, or less where an epoch would have few updates)");
    field("eval_batch_size", self.eval_batch_size, "images of a batch of validation");
    field("mean", self.mean, "mean of the pixels, one number per channel, in [0, 1] (default: that of the training images)");
    field("std", self.std, "their standard deviation");
    field("label_smoothing", self.label_smoothing, "share of the target that is spread over all classes");
    field("mixup", self.mixup, "alpha of mixup: an image is a mixture of two, by a share drawn from Beta(alpha, alpha) (0: none)");
    field("cutmix", self.cutmix, "alpha of CutMix: an image has a rectangle of another; with mixup, one of the two for each batch");
    field("teacher", self.teacher, "with the arch deit: folder of a classifier whose answers the second token learns");
  }
};

// A model that is trained further instead of a fresh one: the folder of a ViT, DeiT or Swin model. Sizes, weights and the preparation of
// images are the folder's; where its classes are others than those of the images it gets a new head.
struct ImageFineTuning {
  std::string from = {};
  LoraConfig lora = {};
  std::optional<float> dropout = {}, attention_dropout = {}, stochastic_depth = {};  // other than its config.json says

  static void visit(auto& self, auto&& field) {
    field("from", self.from,
          "train this model further: a folder of a ViT, DeiT or Swin model. Its sizes stay; with other classes it gets a new head");
    LoraConfig::visit(self.lora, field);
  }
};

struct ImageSettings {
  ImageSource source = {};
  AugmentConfig augmentation = {};
  ImageConfig images = {};
};

// How well a model classifies. Rates are in [0, 1].
struct ImageScores {
  std::int64_t images = 0;
  double loss = 0.0, accuracy = 0.0, top5 = 0.0;  // top5: the right class is among the five most probable
};
// Of the images of a set with these places. The model is one that gives logits of pixel_values.
ImageScores score_images(Context& ctx, const Model& model, const ImageProcessor& processor, const ImageSet& images,
                         std::span<const std::int64_t> places, std::int64_t batch_size);

class ImageTask : public ModelTask {
 public:
  // Reads the images and makes the model, with fresh weights. `resumed`: the checkpoint that training will go on from.
  ImageTask(Context& ctx, const ImageSettings& settings, const ImageModelConfig& model,
            const std::optional<std::filesystem::path>& resumed = std::nullopt);
  // Goes on from the weights of another model.
  ImageTask(Context& ctx, const ImageSettings& settings, const ImageFineTuning& start);
  ~ImageTask() override;

  const std::vector<std::string>& classes() const { return classes_; }
  const ImageProcessor& processor() const { return processor_; }
  std::int64_t training_images() const { return static_cast<std::int64_t>(training_.places.size()); }
  std::int64_t validation_images() const { return static_cast<std::int64_t>(validation_.places.size()); }
  std::int64_t test_images() const { return static_cast<std::int64_t>(test_.places.size()); }
  // Of training, validation and test, each once: what was found beside their images, and which of these are left out.
  std::vector<const ImageSet*> sets() const;

  TaskWords words() const override { return {.unit = "img", .units = "images", .perplexity = false}; }
  nlohmann::json identity() const override;
  nlohmann::json evaluation() const override;
  std::int64_t plan(std::int64_t epoch) override;
  Batch prepare(std::int64_t index, const Share& share = {}) const override;
  Tensor loss(Context& ctx, const Batch& batch) const override;
  Metrics validate(Context& ctx) override { return measure(ctx, validation_); }
  std::vector<std::string> metrics() const override;
  // The same of the test images; nothing when there are none.
  Metrics test(Context& ctx) { return measure(ctx, test_); }

 private:
  struct Teacher;
  // Some of the images of a set.
  struct Part {
    std::shared_ptr<const ImageSet> set;
    std::vector<std::int64_t> places;
  };
  void save_beside(const std::filesystem::path& folder) const override;
  void read(const ImageProcessor& shape);
  void set_normalization();
  void open_teacher();
  Metrics measure(Context& ctx, const Part& part);

  ImageSettings settings_;
  ImageProcessor processor_;
  std::vector<std::string> classes_;
  Part training_, validation_, test_;
  std::shared_ptr<const ImageDataset> dataset_;  // of training, until it is read
  std::unique_ptr<const Teacher> teacher_;
  std::vector<std::int64_t> order_;  // of the planned epoch
  std::int64_t epoch_ = 0;
};

}  // namespace transformer
