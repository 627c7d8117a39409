// `transformer train image` as its user meets it.
#include <fmt/format.h>

#include "cli/training.h"
#include "support/toy_images.h"
#include "transformer/vision/image.h"

namespace transformer::test {
namespace {

namespace fs = std::filesystem;

class TrainImage : public Training {
 protected:
  const std::string sizes_ =
      "--patch-size 4 --d-model 16 --num-heads 2 --num-layers 2 --d-ff 32 --batch-size 16 --lr 0.005 "
      "--warmup-updates 2 --log-interval 10 --threads 1 --save-dir model ";
  const ToyImages training_{120}, test_{40, 2};

  void idx() const {
    write_idx([&](const std::string& name, const std::string& bytes) { write(name, bytes); }, training_, test_);
  }
  static Image picture(const ToyImages& images, std::int64_t i) {
    return {.height = 8, .width = 8, .channels = 1, .pixels = {images.pixels.begin() + i * 64, images.pixels.begin() + (i + 1) * 64}};
  }
  // In colours, and larger than the model's images.
  void png(const std::string& name, const ToyImages& images, std::int64_t i) const {
    Image image = with_channels(picture(images, i), 3);
    for (std::size_t k = 1; k < image.pixels.size(); k += 3) image.pixels[k] /= 2;
    fs::create_directories((folder_ / name).parent_path());
    write(name, encode_png(resize(image, 16, 24, Resample::nearest)));
  }
  void folders() const {
    for (std::int64_t i = 0; i < 120; ++i) png(fmt::format("data/train/{}/{}.png", i % 2 == 0 ? "across" : "upright", i), training_, i);
    for (std::int64_t i = 0; i < 40; ++i) png(fmt::format("data/test/{}/{}.png", i % 2 == 0 ? "across" : "upright", i), test_, i);
  }
  static double number_after(const std::string& text, const std::string& what) {
    const std::size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what << " in:\n" << text;
    return at == std::string::npos ? -1.0 : std::stod(text.substr(at + what.size()));
  }
  // The share of lines of `classify` whose label is the right one.
  double right(const std::string& names, const std::vector<std::string>& labels) const {
    const CommandResult r = run("classify model --image " + names);
    EXPECT_EQ(r.code, 0) << r.err;
    std::istringstream lines(r.out);
    double count = 0.0;
    std::size_t i = 0;
    for (std::string line; std::getline(lines, line); ++i) count += line.find("\t" + labels[i] + "\t") != std::string::npos ? 1.0 : 0.0;
    EXPECT_EQ(i, labels.size());
    return count / static_cast<double>(labels.size());
  }
};

// What validation measured is what `classify` and `evaluate` give, here for grey images.
TEST_F(TrainImage, GreyImagesFromIdxFiles) {
  idx();
  const CommandResult r = run("train image --idx . " + sizes_ + "--max-epoch 4 --flip --crop-padding 1 --valid-split 0.2");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"96 for training, 24 for validation, 40 for the test; 2 classes", " img/s", "test images: loss"});
  EXPECT_EQ(r.err.find("ppl"), std::string::npos);
  const std::string end = r.err.substr(r.err.find("test images:"));
  const double tested = number_after(end, "accuracy ");
  const CommandResult e = run("evaluate model --idx .");
  EXPECT_EQ(e.code, 0) << e.err;
  EXPECT_NEAR(number_after(e.out, "accuracy "), tested, 1e-4);
  EXPECT_NEAR(number_after(e.out, "loss "), number_after(end, "loss "), 1e-3);
  std::string names;
  std::vector<std::string> labels;
  for (std::int64_t i = 0; i < 40; ++i) {
    write(fmt::format("{}.png", i), encode_png(picture(test_, i)));
    names += fmt::format("{}.png ", i), labels.push_back(std::to_string(i % 2));
  }
  EXPECT_NEAR(right(names, labels), tested, 1e-4);

  for (const char* out : {"map.svg", "map.png"}) {
    const CommandResult x = run(fmt::format("explain model --image 3.png --out {}", out));
    EXPECT_EQ(x.code, 0) << x.err;
    EXPECT_TRUE(x.out.starts_with("0\t") || x.out.starts_with("1\t")) << x.out;
  }
  expect_parts(read("map.svg"), {"<svg", "data:image/png"});
  EXPECT_EQ(read_image(folder_ / "map.png").width, 2 * (336 + 32)) << "two pixels for each of the picture and its margins";
  expect_usage("explain model --image 3.png --out map.txt", ".svg or .png");
  expect_usage("explain model --out map.svg", "--image");
  expect_failure("explain model --image none.png --out map.svg", "none.png");
}

TEST_F(TrainImage, ColouredImagesFromFolders) {
  folders();
  const CommandResult r = run("train image --images data --image-size 8 --arch deit " + sizes_ +
                              "--max-epoch 4 --mixup 0.2 --label-smoothing 0.1");
  ASSERT_EQ(r.code, 0) << r.err;
  const double tested = number_after(r.err.substr(r.err.find("test images:")), "accuracy ");
  EXPECT_NEAR(number_after(run("evaluate model --images data").out, "accuracy "), tested, 1e-4);
  std::string names;
  std::vector<std::string> labels;
  for (std::int64_t i = 0; i < 40; ++i) {
    labels.emplace_back(i % 2 == 0 ? "across" : "upright");
    names += fmt::format("data/test/{}/{}.png ", labels.back(), i);
  }
  EXPECT_NEAR(right(names, labels), tested, 1e-4);
  fs::create_directories(folder_ / "data/test/yak");
  fs::copy(folder_ / "data/test/across/0.png", folder_ / "data/test/yak/0.png");
  expect_failure("evaluate model --images data", "'yak', which the classes of the model do not have");

  // Trained further, its sizes stay.
  fs::remove_all(folder_ / "data/test/yak");
  const std::string further =
      "train image --from model --images data --batch-size 16 --lr 0.001 --warmup-updates 2 --threads 1 --max-update 4 ";
  const CommandResult f = run(further + "--save-dir further --stochastic-depth 0.1");
  EXPECT_EQ(f.code, 0) << f.err;
  expect_parts(f.err, {"deit, from model"});
  expect_usage(further + "--save-dir other --image-size 16 --d-model 32", "--d-model, --image-size");
}

TEST_F(TrainImage, BadInputIsNamedAndNothingIsWritten) {
  folders();
  const std::string train = "train image --images data --image-size 8 " + sizes_ + "--max-epoch 1 ";
  const std::string whole = read("data/train/across/4.png");
  write("data/train/across/4.png", whole.substr(0, 60));
  expect_failure(train, "data/train/across/4.png: the image is damaged");
  expect_failure(train, "--skip-broken");
  EXPECT_FALSE(fs::exists(folder_ / "model/config.json"));
  const CommandResult skipped = run(train + "--skip-broken --save-dir skipped");
  EXPECT_EQ(skipped.code, 0) << skipped.err;
  expect_parts(skipped.err, {"data/train/across/4.png: the image is damaged", "left out: 1 image that cannot be read"});
  write("data/test/upright/1.png", "x");
  expect_failure("evaluate skipped --images data", "data/test/upright/1.png");
  const CommandResult evaluated = run("evaluate skipped --images data --skip-broken");
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  expect_parts(evaluated.err, {"data/test/upright/1.png: not an image", "left out: 1 image that cannot be read"});
  expect_parts(evaluated.out, {"images 39,"});
  fs::copy(folder_ / "data/test/upright/3.png", folder_ / "data/test/upright/1.png", fs::copy_options::overwrite_existing);
  write("data/train/across/4.png", whole);

  fs::create_directories(folder_ / "data/test/yak");
  fs::copy(folder_ / "data/test/across/0.png", folder_ / "data/test/yak/0.png");
  expect_failure(train, "data/test/yak/0.png: it is of the class 'yak', which the training images do not have");
  fs::remove_all(folder_ / "data/test/yak");
  expect_failure(train + "--patch-size 3", "patches of 3 x 3");
  expect_usage(train + "--num-heads 5", "--num-heads, 5");
  expect_failure(train + "--idx .", "several are given");
  expect_usage(train + "--randaugment 2", "--randaugment");
  expect_usage(train + "--teacher x", "--teacher");
  expect_failure("train image --images data --from nowhere --max-epoch 1 --save-dir model", "nowhere");
  expect_failure("train image --save-dir model --max-epoch 1", "none is given");
  EXPECT_FALSE(fs::exists(folder_ / "model/config.json"));
}

// Nothing in the folders is passed over in silence.
TEST_F(TrainImage, WhatIsNotUsedIsTold) {
  folders();
  fs::create_directories(folder_ / "data/train/yak");
  write("data/train/across/x.tiff", "II*");
  const CommandResult r = run("train image --images data --image-size 8 " + sizes_ + "--max-update 4");
  EXPECT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"2 classes", "data/train/yak: there are no images in it", "1 file is left out", "across/x.tiff"});
}

TEST_F(TrainImage, AnotherRunIsRefusedByName) {
  idx();
  const std::string train = "train image --idx . " + sizes_ + "--max-update 4 ";
  ASSERT_EQ(run(train).code, 0) << read("stderr");
  for (const auto& [flags, message] : {std::pair{"--d-model 32", "architecture.hidden_size: 16 in the checkpoint, 32 now"},
                                       std::pair{"--flip", "augmentation.flip: false in the checkpoint, true now"},
                                       std::pair{"--batch-size 8", "images.batch_size: 16 in the checkpoint, 8 now"}}) {
    const CommandResult r = run(train + flags);
    EXPECT_EQ(r.code, 1);
    expect_parts(r.err, {message});
  }
  ToyImages other = training_;
  other.pixels[5] ^= 1;
  write("train-images-idx3-ubyte", idx_file({120, 8, 8}, other.pixels));
  expect_parts(run(train).err, {"images.fingerprint"});
}

}  // namespace
}  // namespace transformer::test
