#include "transformer/train/image.h"

#include <cmath>

#include <gtest/gtest.h>

#include <fstream>

#include "io/shared/json.h"
#include "support/metrics.h"
#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "support/toy_images.h"
#include "transformer/ops/copy.h"
#include "transformer/ops/cross_entropy.h"
#include "transformer/train/trainer.h"

namespace transformer::test {
namespace {

class ImageTaskTest : public testing::Test {
 protected:
  ImageTaskTest() {
    write_idx([&](const std::string& name, const std::string& bytes) { std::ofstream(folder_ / name, std::ios::binary) << bytes; },
              ToyImages(120), ToyImages(40, 2));
    settings_.source.idx = folder_.path().string();
    settings_.images.batch_size = 16;
  }
  static ImageModelConfig tiny() { return {.patch_size = 4, .d_model = 16, .num_heads = 2, .num_layers = 2, .d_ff = 32}; }
  static const HostTensors& tensors(const Batch& batch) { return *std::any_cast<HostTensors>(&batch.content); }
  static std::vector<float> floats(const Batch& batch, const char* name) {
    return std::get<std::vector<float>>(tensors(batch).at(name).values);
  }
  static std::vector<std::int64_t> labels(const Batch& batch, const char* name = "labels") {
    return std::get<std::vector<std::int64_t>>(tensors(batch).at(name).values);
  }
  TemporaryFolder folder_;
  ImageSettings settings_;
};

TEST_F(ImageTaskTest, LearnsAndItsFolderOpens) {
  Context ctx({.threads = 1, .seed = 1});
  settings_.images.valid = ImageValidation::test;
  ImageTask task(ctx, settings_, tiny());
  const std::string model = (folder_ / "model").string();
  Trainer(ctx, task, {.save_dir = model, .max_epoch = 12, .lr = 5e-3F, .warmup_updates = 10, .best_metric = "accuracy", .quiet = true})
      .run();
  const Metrics measured = task.validate(ctx);
  EXPECT_EQ(measured.at(1).first, "accuracy");
  EXPECT_EQ(task.metrics(), names_of(measured));
  EXPECT_GE(measured.at(1).second, 0.95);
  const nlohmann::json config = read_json(folder_ / "model/config.json");
  EXPECT_EQ(config.at("architectures").at(0), "ViTForImageClassification");
  EXPECT_EQ(config.at("num_channels"), 1);
  EXPECT_EQ(config.at("image_size"), 8);
  EXPECT_EQ(config.at("label2id").at("1"), 1);
  EXPECT_EQ(ImageProcessor::load(model).to_json(), task.processor().to_json());
  const auto again = load_model(ctx, model);
  const ImageSet set(open_images(settings_.source, ImageSplit::test), task.processor(), {});
  std::vector<std::int64_t> all(40);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  const ImageScores one = score_images(ctx, *again, task.processor(), set, all, 7);
  task.load(ctx, model);
  EXPECT_EQ(task.test(ctx).at(1).second, one.accuracy);
  EXPECT_NEAR(task.test(ctx).at(0).second, one.loss, 1e-5);
}

TEST_F(ImageTaskTest, AnAnswerThatIsNoNumberIsNeverRight) {
  Context ctx({.threads = 1, .seed = 1});
  settings_.images.valid = ImageValidation::test;
  ImageTask task(ctx, settings_, tiny());
  for (const NamedParameter& p : task.parameters()) {
    Tensor weights = p.parameter->tensor.detach();
    copy_into(ctx, Tensor::full(ctx, weights.shape(), std::nanf("")), weights);
  }
  const Metrics measured = task.validate(ctx);
  EXPECT_TRUE(std::isnan(measured.at(0).second));
  EXPECT_EQ(measured.at(1).second, 0.0);
}

TEST_F(ImageTaskTest, ABatchIsAFunctionOfSeedAndEpoch) {
  settings_.augmentation = {.flip = true, .crop_padding = 2, .randaugment = {1, 5}, .random_erasing = 0.3F};
  settings_.images.mixup = 0.4F;
  settings_.images.cutmix = 1.0F;
  Context a({.threads = 1, .seed = 7}), b({.threads = 1, .seed = 7}), other({.threads = 1, .seed = 8});
  ImageTask one(a, settings_, tiny()), two(b, settings_, tiny()), third(other, settings_, tiny());
  ASSERT_EQ(one.plan(3), 7);  // 108 images: a tenth of each class is for validation
  EXPECT_EQ(one.validation_images(), 12);
  two.plan(0), two.prepare(2), two.plan(3);
  third.plan(3);
  EXPECT_EQ(one.prepare(6).targets, 12);
  for (const std::int64_t i : {5, 0, 6}) {
    EXPECT_EQ(floats(one.prepare(i), "pixel_values"), floats(two.prepare(i), "pixel_values"));
    EXPECT_EQ(labels(one.prepare(i)), labels(two.prepare(i)));
    EXPECT_EQ(floats(one.prepare(i), "own_share"), floats(two.prepare(i), "own_share"));
  }
  EXPECT_NE(floats(one.prepare(0), "pixel_values"), floats(third.prepare(0), "pixel_values"));
  one.plan(4);
  EXPECT_NE(floats(one.prepare(0), "pixel_values"), floats(two.prepare(0), "pixel_values"));
  EXPECT_EQ(one.identity(), two.identity());
}

TEST_F(ImageTaskTest, TheSplitHasAPartOfEachClassAndNoImageTwice) {
  settings_.images.valid_split = 0.25;
  Context ctx({.threads = 1, .seed = 1});
  ImageTask task(ctx, settings_, tiny());
  EXPECT_EQ(task.training_images(), 90);
  EXPECT_EQ(task.validation_images(), 30);
  EXPECT_EQ(task.test_images(), 40);
  settings_.images.valid = ImageValidation::none;
  ImageTask all(ctx, settings_, tiny());
  EXPECT_EQ(all.training_images(), 120);
  EXPECT_TRUE(all.validate(ctx).empty());
}

TEST_F(ImageTaskTest, MeanAndDeviationAreThoseOfTheTrainingImages) {
  Context ctx({.threads = 1, .seed = 1});
  settings_.images.valid = ImageValidation::none;
  ImageTask task(ctx, settings_, tiny());
  double sum = 0.0, squares = 0.0;
  std::int64_t n = 0;
  for (std::int64_t i = task.plan(0) - 1; i >= 0; --i)
    for (const float v : floats(task.prepare(i), "pixel_values")) sum += v, squares += v * v, ++n;
  EXPECT_NEAR(sum / static_cast<double>(n), 0.0, 1e-3);
  EXPECT_NEAR(squares / static_cast<double>(n), 1.0, 2e-3);
  settings_.images.mean = {0.5F}, settings_.images.std = {0.25F};
  EXPECT_EQ(ImageTask(ctx, settings_, tiny()).processor().config().mean, std::vector<float>{0.5F});
  settings_.images.mean = settings_.images.std = {0.5F, 0.5F, 0.5F};
  expect_error([&] { ImageTask(ctx, settings_, tiny()); }, {"mean", "3 numbers", "1 channels"});
}

// The loss of a mixture is the mixture of the losses, and a batch that is mixed has the mixed pixels of one that is not.
TEST_F(ImageTaskTest, Mixes) {
  Context ctx({.threads = 1, .seed = 2});
  ImageTask plain(ctx, settings_, tiny());
  plain.plan(0);
  settings_.images.label_smoothing = 0.1F;
  for (const bool cut : {false, true}) {
    settings_.images.mixup = cut ? 0.0F : 1.0F;
    settings_.images.cutmix = cut ? 1.0F : 0.0F;
    ImageTask task(ctx, settings_, tiny());
    task.plan(0);
    const Batch batch = task.prepare(0), pure = plain.prepare(0);
    const std::vector<float> mixed = floats(batch, "pixel_values"), own = floats(pure, "pixel_values");
    const float share = floats(batch, "own_share").at(0);
    ASSERT_EQ(labels(batch), labels(pure));
    std::int64_t foreign = 0;
    for (std::size_t i = 0; i < 16; ++i)
      for (std::size_t k = 0; k < 64; ++k) {
        const float a = own[i * 64 + k], b = own[(15 - i) * 64 + k], got = mixed[i * 64 + k];
        EXPECT_EQ(labels(batch, "partner_labels")[i], labels(batch)[15 - i]);
        if (!cut) EXPECT_NEAR(got, share * a + (1.0F - share) * b, 1e-5);
        else EXPECT_TRUE(got == a || got == b);
        foreign += cut && i == 0 && got != a ? 1 : 0;
      }
    if (cut) {
      EXPECT_NEAR(static_cast<double>(foreign) / 64.0, 1.0 - share, 0.05);
    }
    const Tensor logits = task.model().run(ctx, {{"pixel_values", to_tensors(ctx, tensors(batch)).at("pixel_values")}}).at("logits");
    auto entropy = [&](const char* name) {
      return cross_entropy(ctx, logits, Tensor::from<std::int64_t>(ctx, {16}, labels(batch, name)), {.label_smoothing = 0.1F}).item();
    };
    EXPECT_NEAR(task.loss(ctx, batch).item(), share * entropy("labels") + (1.0F - share) * entropy("partner_labels"), 1e-5);
  }
}

// Hard distillation: the second token learns what the teacher says, the first one the labels.
TEST_F(ImageTaskTest, LearnsFromATeacher) {
  Context ctx({.threads = 1, .seed = 2});
  ImageTask teacher(ctx, settings_, tiny());
  teacher.save(folder_ / "teacher");
  settings_.images.teacher = (folder_ / "teacher").string();
  ImageModelConfig deit = tiny();
  expect_error([&] { ImageTask(ctx, settings_, deit); }, {"teacher", "deit"});
  deit.arch = ImageArch::deit;
  ImageTask task(ctx, settings_, deit);
  EXPECT_EQ(task.model().config().at("architectures").at(0), "DeiTForImageClassificationWithTeacher");
  task.plan(0);
  const Batch batch = task.prepare(0);
  const NamedTensors in = to_tensors(ctx, tensors(batch));
  const NamedTensors said = teacher.model().run(ctx, {{"pixel_values", in.at("teacher_pixel_values")}});
  std::vector<std::int64_t> answers;
  for (std::int64_t i = 0; i < 16; ++i) {
    const std::vector<float> row = said.at("logits").row_block(i, 1).to_vector<float>();
    answers.push_back(row[1] > row[0] ? 1 : 0);
  }
  const NamedTensors out = task.model().run(ctx, {{"pixel_values", in.at("pixel_values")}});
  const float expected = 0.5F *
      (cross_entropy(ctx, out.at("cls_logits"), in.at("labels")).item() +
       cross_entropy(ctx, out.at("distillation_logits"), Tensor::from<std::int64_t>(ctx, {16}, answers)).item());
  EXPECT_NEAR(task.loss(ctx, batch).item(), expected, 1e-5);
  EXPECT_TRUE(task.identity().contains("teacher"));
  EXPECT_FALSE(task.validate(ctx).empty());
}

TEST_F(ImageTaskTest, GoesOnFromAModelWithOtherClasses) {
  Context ctx({.threads = 1, .seed = 2});
  const std::string model = (folder_ / "model").string();
  {
    ImageTask task(ctx, settings_, tiny());
    task.save(model);
  }
  const ToyImages images(60);
  std::vector<std::int64_t> three = images.labels;
  for (std::size_t i = 0; i < three.size(); i += 3) three[i] = 2;
  const std::filesystem::path other = folder_ / "other";
  std::filesystem::create_directories(other);
  std::ofstream(other / "train-images-idx3-ubyte", std::ios::binary) << idx_file({60, 8, 8}, images.pixels);
  std::ofstream(other / "train-labels-idx1-ubyte", std::ios::binary) << idx_file({60}, three);
  settings_.source.idx = other.string();
  ImageTask further(ctx, settings_, ImageFineTuning{.from = model, .dropout = 0.1F, .stochastic_depth = 0.2F});
  EXPECT_EQ(further.model().config().at("id2label").size(), 3U);
  EXPECT_FLOAT_EQ(further.model().config().at("drop_path_rate").get<float>(), 0.2F);
  further.plan(0);
  ctx.set_training(true);
  EXPECT_TRUE(std::isfinite(further.loss(ctx, further.prepare(0)).item()));
  further.save(folder_ / "further");
  EXPECT_EQ(read_json(folder_ / "further/preprocessor_config.json"), read_json(folder_ / "model/preprocessor_config.json"));
  settings_.images.mean = settings_.images.std = {0.5F};
  expect_error([&] { ImageTask(ctx, settings_, ImageFineTuning{.from = model}); }, {"mean", "keeps its own"});
}

TEST_F(ImageTaskTest, WhatCannotBeIsNamed) {
  Context ctx({.threads = 1, .seed = 2});
  auto refuses = [&](auto change, const std::vector<std::string>& parts) {
    ImageSettings settings = settings_;
    ImageModelConfig model = tiny();
    change(settings, model);
    expect_error([&] { ImageTask(ctx, settings, model); }, parts);
  };
  refuses([](auto&, auto& m) { m.patch_size = 3; }, {"8 x 8", "3 x 3"});
  refuses([](auto&, auto& m) { m.num_heads = 3; }, {"d_model is 16: expected a multiple of num_heads, 3"});
  refuses([](auto&, auto& m) { m.channels = 2; }, {"channels is 2"});
  refuses([](auto&, auto& m) { m.dropout = 1.5F; }, {"dropout", "1.5"});
  refuses([](auto& s, auto&) { s.images.batch_size = -1; }, {"batch_size"});
  refuses([](auto& s, auto&) { s.images.valid_split = 1.0; }, {"valid_split"});
  refuses([](auto& s, auto&) { s.images.mixup = -1.0F; }, {"mixup"});
  std::vector<std::int64_t> labels(40, 3);
  std::ofstream(folder_ / "t10k-labels-idx1-ubyte", std::ios::binary) << idx_file({40}, labels);
  refuses([](auto&, auto&) {}, {"'3'", "training images"});
  std::ofstream(folder_ / "train-labels-idx1-ubyte", std::ios::binary) << idx_file({120}, std::vector<int>(120, 3));
  refuses([](auto&, auto&) {}, {"one class"});
}

}  // namespace
}  // namespace transformer::test
