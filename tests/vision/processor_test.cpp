#include "transformer/vision/processor.h"

#include "io/shared/json.h"
#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "vision/pattern.h"

namespace transformer::test {
namespace {

using nlohmann::json;

// The first values and the sum of all, from Pillow and NumPy.
void expect_pixels(const Tensor& got, const std::vector<double>& first, double sum) {
  const std::vector<float> values = got.to_vector<float>();
  double total = 0.0;
  for (float v : values) total += v;
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(values[i], first[i], 1e-6) << i;
  EXPECT_NEAR(total, sum, 1e-4);
}

}  // namespace

TEST(ImageProcessor, OfVit) {
  Context ctx;
  const auto processor = ImageProcessor::from_json(
      {{"image_processor_type", "ViTImageProcessor"}, {"size", {{"height", 4}, {"width", 4}}}});
  const Tensor x = processor(ctx, {pattern(10, 14), pattern(10, 14)});
  EXPECT_EQ(x.shape(), (Shape{2, 3, 4, 4}));
  expect_pixels(x.row_block(0, 1), {-0.098039, 0.152941, -0.027451, 0.215686, -0.035294, 0.05098, 0.152941, 0.011765}, 1.96862745);
  expect_pixels(x.row_block(1, 1), {-0.098039, 0.152941}, 1.96862745);
}

TEST(ImageProcessor, ShorterEdgeAndCrop) {
  Context ctx;
  const auto processor = ImageProcessor::from_json({{"feature_extractor_type", "DeiTFeatureExtractor"},
                                                    {"size", {{"shortest_edge", 6}}},
                                                    {"crop_size", 4},
                                                    {"image_mean", {0.485, 0.456, 0.406}},
                                                    {"image_std", {0.229, 0.224, 0.225}}});
  EXPECT_EQ(processor.config().resample, Resample::bicubic);
  const Tensor x = processor(ctx, {pattern(10, 14)});
  expect_pixels(x, {0.639181, 1.324172, 0.228187, 0.039815, 0.330936, -0.473928, 0.519308, 0.536433}, 19.88641766);
}

TEST(ImageProcessor, StepsCanBeLeftOut) {
  Context ctx;
  const auto processor = ImageProcessor::from_json({{"do_resize", false}, {"do_rescale", false}, {"do_normalize", false}, {"size", 224}});
  const Tensor x = processor(ctx, {pattern(2, 3)});
  EXPECT_EQ(x.shape(), (Shape{1, 3, 2, 3}));
  EXPECT_EQ(x.to_vector<float>()[4], static_cast<float>(pattern(2, 3).at(1, 1, 0)));
}

TEST(ImageProcessor, DefaultsAreThoseOfTheFamily) {
  const auto vit = ImageProcessor::from_json(json::object()).config();
  EXPECT_EQ(vit.resize->height, 224);
  EXPECT_EQ(vit.resample, Resample::bilinear);
  EXPECT_FALSE(vit.crop);
  const auto deit = ImageProcessor::from_json({{"image_processor_type", "DeiTImageProcessor"}}).config();
  EXPECT_EQ(deit.resize->height, 256);
  EXPECT_EQ(deit.crop->width, 224);
}

TEST(ImageProcessor, RefusesByName) {
  auto refuses = [](const json& settings, const std::vector<std::string>& parts) {
    expect_error([&] { ImageProcessor::from_json(settings); }, parts);
  };
  refuses({{"image_processor_type", "ConvNextImageProcessor"}}, {"ConvNextImageProcessor", "not supported"});
  refuses({{"imagemean", 0.5}}, {"imagemean", "image_mean"});
  refuses({{"do_pad", true}}, {"do_pad"});
  refuses({{"size", {{"longest_edge", 3}}}}, {"size.longest_edge"});
  refuses({{"size", {{"height", 3}}}}, {"size", "height and width"});
  refuses({{"size", -1}}, {"size"});
  refuses({{"size", 1 << 20}}, {"size"});
  refuses({{"size", "large"}}, {"size"});
  refuses({{"resample", 9}}, {"resample", "9"});
  refuses({{"image_std", {1, 0, 1}}}, {"image_std", "zero"});
  refuses({{"image_mean", {1, 0}}}, {"image_mean", "three"});
  refuses(json::array(), {"object"});
  const TemporaryFolder folder;
  expect_error([&] { ImageProcessor::load(folder.path()); }, {"preprocessor_config.json"});
  write_json(folder / "preprocessor_config.json", {{"do_pad", true}});
  expect_error([&] { ImageProcessor::load(folder.path()); }, {folder.path().string(), "do_pad"});
}

TEST(ImageProcessor, OneNumberIsForGreyImages) {
  Context ctx;
  const auto processor = ImageProcessor::from_json({{"do_resize", false}, {"image_mean", {0.2}}, {"image_std", {0.5}}});
  const Image image{.height = 1, .width = 2, .channels = 1, .pixels = {0, 255}};
  const Tensor values = processor(ctx, {image});
  EXPECT_EQ(values.shape().str(), "[1, 1, 1, 2]");
  expect_near(values, {-0.4, 1.6}, 1e-6);
  expect_near(processor(ctx, {with_channels(image, 3)}), {-0.4, 1.6}, 1e-6);  // read from a file it has three channels
  expect_error([] { ImageProcessor::from_json({{"image_mean", {0.2}}}); }, {"image_mean has 1", "image_std 3"});
}

TEST(ImageProcessor, IsReadAsItWasWritten) {
  const ImageProcessor made(
      {.resize = ImageProcessorConfig::Size{28, 30}, .resample = Resample::bicubic, .mean = {0.286F}, .deviation = {0.353F}});
  const ImageProcessor read = ImageProcessor::from_json(made.to_json());
  EXPECT_EQ(read.to_json(), made.to_json());
  EXPECT_EQ(read.config().mean, made.config().mean);
  EXPECT_EQ(read.size(), (std::pair<std::int64_t, std::int64_t>{28, 30}));
  const auto cropped = ImageProcessor::from_json({{"size", {{"shortest_edge", 40}}}, {"do_center_crop", true}, {"crop_size", 32}});
  EXPECT_EQ(ImageProcessor::from_json(cropped.to_json()).to_json(), cropped.to_json());
  EXPECT_FALSE(ImageProcessor::from_json({{"size", {{"shortest_edge", 40}}}}).size());
}

TEST(ImageProcessor, OneBatchHasOneSize) {
  Context ctx;
  const auto processor = ImageProcessor::from_json({{"do_resize", false}});
  expect_error([&] { processor(ctx, {pattern(2, 3), pattern(3, 2)}); }, {"2 x 3", "3 x 2"});
  expect_error([&] { processor(ctx, {}); }, {"none given"});
}

}  // namespace transformer::test
