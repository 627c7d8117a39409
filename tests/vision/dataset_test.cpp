#include "transformer/vision/dataset.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "support/toy_images.h"

namespace transformer::test {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  void write_png(const std::string& name, std::int64_t height, std::int64_t width, std::uint8_t value) const {
    write(name,
          encode_png({.height = height,
                      .width = width,
                      .channels = 1,
                      .pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(height * width), value)}));
  }
  std::string path() const { return folder_.path().string(); }
  std::shared_ptr<const ImageDataset> idx(ImageSplit split = ImageSplit::train) const { return open_images({.idx = path()}, split); }
  TemporaryFolder folder_;
};
using Idx = Files;
using Cifar = Files;
using ImageFolder = Files;
using ImageSetTest = Files;

ImageProcessor grey(std::int64_t height, std::int64_t width) {
  return ImageProcessor({.resize = ImageProcessorConfig::Size{height, width}, .mean = {0.5F}, .deviation = {0.5F}});
}

TEST_F(Idx, GivesImagesAndLabelsPlainOrCompressed) {
  const ToyImages images(7);
  write_idx([&](const std::string& name, const std::string& bytes) { write(name, bytes); }, images, ToyImages(3, 2));
  const auto data = idx();
  ASSERT_EQ(data->size(), 7);
  EXPECT_EQ(data->classes(), (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(data->extent().height, 8);
  EXPECT_EQ(data->extent().channels, 1);
  EXPECT_EQ(data->label(3), 1);
  const Image image = data->image(2);
  EXPECT_TRUE(std::equal(image.pixels.begin(), image.pixels.end(), images.pixels.begin() + 2 * 64));
  EXPECT_EQ(idx(ImageSplit::test)->size(), 3);
  EXPECT_EQ(idx(ImageSplit::valid), nullptr);

  fs::remove(folder_ / "train-images-idx3-ubyte");
  gzFile file = gzopen((folder_ / "train-images-idx3-ubyte.gz").c_str(), "wb");
  const std::string bytes = idx_file({7, 8, 8}, images.pixels);
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  EXPECT_EQ(idx()->image(6).pixels, data->image(6).pixels);
  EXPECT_EQ(open_images({.idx = path(), .class_names = {"across", "upright"}}, ImageSplit::train)->classes()[1], "upright");
  expect_error([&] { open_images({.idx = path(), .class_names = {"across"}}, ImageSplit::train); }, {"class 1", "class_names"});

  const std::string packed = [&] {
    std::ifstream in(folder_ / "train-images-idx3-ubyte.gz", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  write("train-images-idx3-ubyte.gz", packed.substr(0, packed.size() / 2));
  expect_error([&] { idx(); }, {"train-images-idx3-ubyte.gz", "cut off"});
}

TEST_F(Idx, WhatIsWrongIsNamed) {
  const ToyImages images(4);
  auto with = [&](const std::string& image_file, const std::string& label_file) {
    write("train-images-idx3-ubyte", image_file);
    write("train-labels-idx1-ubyte", label_file);
  };
  const std::string good = idx_file({4, 8, 8}, images.pixels), labels = idx_file({4}, images.labels);
  expect_error([&] { idx(); }, {"train-images-idx3-ubyte"});
  with(good.substr(0, good.size() - 1), labels);
  expect_error([&] { idx(); }, {"train-images-idx3-ubyte", "256", "255"});
  with(good + "x", labels);
  expect_error([&] { idx(); }, {"goes on"});
  with(idx_file({4, 30000, 30000}, images.pixels), labels);  // refused before memory is taken for it
  expect_error([&] { idx(); }, {"30000"});
  with(idx_file({-1, -1, -1}, images.pixels), labels);
  expect_error([&] { idx(); }, {"header"});
  with("PNG", labels);
  expect_error([&] { idx(); }, {"not an IDX file"});
  with(good, idx_file({3}, std::vector<int>{0, 1, 0}));
  expect_error([&] { idx(); }, {"3 labels", "4 images"});
  with(good, labels);
  write("emnist-train-images-idx3-ubyte", good);
  expect_error([&] { idx(); }, {"emnist-train-images-idx3-ubyte", "expected one"});
  expect_error([] { open_images({.idx = "/nowhere"}, ImageSplit::train); }, {"/nowhere"});
  expect_error([] { open_images({}, ImageSplit::train); }, {"none"});
  expect_error([] { open_images({.idx = "a", .cifar = "b"}, ImageSplit::train); }, {"several"});
}

TEST_F(Cifar, TenAndAHundred) {
  auto record = [](int label, int extra) {
    std::string out(extra >= 0 ? 1 : 0, static_cast<char>(extra));
    out += static_cast<char>(label);
    for (int c = 0; c < 3; ++c)
      for (int i = 0; i < 1024; ++i) out += static_cast<char>((i * 3 + c * 50) % 256);
    return out;
  };
  write("data_batch_1.bin", record(3, -1) + record(9, -1));
  write("data_batch_2.bin", record(0, -1));
  auto open = [&](ImageSplit split) { return open_images({.cifar = path()}, split); };
  const auto ten = open(ImageSplit::train);
  ASSERT_EQ(ten->size(), 3);
  EXPECT_EQ(ten->label(1), 9);
  EXPECT_EQ(ten->classes().size(), 10U);
  const Image image = ten->image(2);
  EXPECT_EQ(image.channels, 3);
  EXPECT_EQ(image.at(2, 5, 1), (69 * 3 + 50) % 256);
  EXPECT_EQ(open(ImageSplit::test), nullptr);
  write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  EXPECT_EQ(open(ImageSplit::train)->classes()[9], "j");
  write("data_batch_2.bin", record(10, -1));
  expect_error([&] { open(ImageSplit::train); }, {"data_batch_2.bin", "image 0", "10"});
  write("data_batch_2.bin", record(1, -1).substr(1));
  expect_error([&] { open(ImageSplit::train); }, {"data_batch_2.bin", "3072 bytes"});

  write("data_batch_2.bin", record(1, -1));
  write("data_batch_4.bin", record(1, -1));
  expect_error([&] { open(ImageSplit::train); }, {"data_batch_3.bin", "not there", "data_batch_4.bin"});

  write("cifar-100-binary/train.bin", record(77, 3));
  write("cifar-100-binary/test.bin", record(99, 0));
  EXPECT_EQ(open(ImageSplit::train)->label(0), 77);
  EXPECT_EQ(open(ImageSplit::test)->label(0), 99);
  const TemporaryFolder empty;
  expect_error([&] { open_images({.cifar = empty.path().string()}, ImageSplit::train); }, {"data_batch_1.bin"});
}

TEST_F(ImageFolder, ClassesAreTheFoldersInTheirOrder) {
  write_png("train/dog/1.png", 4, 6, 10);
  write_png("train/cat/b.PNG", 3, 3, 20);
  write_png("train/cat/a.png", 5, 5, 30);
  write("train/cat/notes.txt", "not an image");
  write_png("test/dog/x.png", 3, 3, 40);
  auto open = [&](ImageSplit split) { return open_images({.images = path()}, split); };
  const auto train = open(ImageSplit::train);
  ASSERT_EQ(train->size(), 3);
  EXPECT_EQ(train->classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_TRUE(train->name(0).ends_with("train/cat/a.png"));
  EXPECT_EQ(train->image(2).width, 6);
  EXPECT_EQ(train->label(2), 1);
  EXPECT_EQ(open(ImageSplit::test)->size(), 1);
  EXPECT_EQ(open(ImageSplit::valid), nullptr);
  const auto alone = open_images({.images = (folder_ / "train").string()}, ImageSplit::train);
  EXPECT_EQ(alone->size(), 3);
  expect_error([&] { open_images({.images = (folder_ / "train/cat").string()}, ImageSplit::train); }, {"one for each class"});
}

// A class without images is none; files that are not read are counted and named, whatever they are.
TEST_F(ImageFolder, WhatIsLeftOutIsTold) {
  auto open = [&] { return open_images({.images = path()}, ImageSplit::train); };
  write_png("cat/a.png", 3, 3, 20);
  write_png("dog/b.png", 3, 3, 20);
  EXPECT_TRUE(open()->notes().empty());
  fs::rename(folder_ / "dog/b.png", folder_ / "dog/b");  // the content counts
  fs::create_directories(folder_ / "bird");
  write("cat/c.tiff", std::string("II*\0\0\0\0\0", 8));
  write("cat/d.heic", "heic");
  write("cat/.hidden", "x");
  write("yak/notes.txt", "BMW, not an image");
  fs::create_directories(folder_ / "dog/more");
  const auto data = open();
  EXPECT_EQ(data->classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(data->size(), 2);
  ASSERT_EQ(data->notes().size(), 3U);
  EXPECT_NE(data->notes()[0].find("bird: there are no images in it"), std::string::npos) << data->notes()[0];
  EXPECT_NE(data->notes()[1].find("yak: there are no images in it"), std::string::npos) << data->notes()[1];
  EXPECT_NE(data->notes()[2].find("4 files are left out, not PNG, JPEG, WebP, BMP or GIF: cat/c.tiff, cat/d.heic, dog/more, yak/notes.txt"),
            std::string::npos)
      << data->notes()[2];
  for (int i = 0; i < 4; ++i) write("cat/e" + std::to_string(i) + ".avif", "avif");
  EXPECT_NE(open()->notes()[2].find("8 files are left out"), std::string::npos);
  EXPECT_TRUE(open()->notes()[2].ends_with("cat/e2.avif, …")) << open()->notes()[2];
  fs::remove(folder_ / "cat/a.png");
  fs::remove(folder_ / "dog/b");
  expect_error([&] { open(); }, {path(), "no images in its folders", "found cat/c.tiff"});
}

TEST_F(ImageSetTest, InMemoryOrNotItIsTheSame) {
  for (int i = 0; i < 6; ++i)
    write_png("train/" + std::string(i % 2 == 0 ? "a/" : "b/") + std::to_string(i) + ".png", 4 + i, 5, static_cast<std::uint8_t>(40 * i));
  auto open = [&] { return open_images({.images = path()}, ImageSplit::train); };
  const ImageSet memory(open(), grey(8, 8), {.threads = 2}), lazy(open(), grey(8, 8), {.memory = 0});
  EXPECT_TRUE(memory.in_memory());
  EXPECT_FALSE(lazy.in_memory());
  for (std::int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(memory.image(i).pixels, lazy.image(i).pixels);
    EXPECT_EQ(memory.image(i).channels, 1);
    EXPECT_EQ(memory.label(i), lazy.label(i));
  }
  EXPECT_EQ(memory.fingerprint(), ImageSet(open(), grey(8, 8), {}).fingerprint());
  write_png("train/a/0.png", 4, 5, 7);
  EXPECT_NE(memory.fingerprint(), ImageSet(open(), grey(8, 8), {}).fingerprint());
}

TEST_F(ImageSetTest, BrokenImagesAreNamedOrLeftOut) {
  for (int i = 0; i < 4; ++i) write_png("train/a/" + std::to_string(i) + ".png", 4, 4, static_cast<std::uint8_t>(50 * i));
  write("train/a/1.png", "this is no image");
  std::ifstream in(folder_ / "train/a/2.png", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  write("train/a/2.png", whole.substr(0, whole.size() / 2));  // its header is right
  auto open = [&] { return open_images({.images = path()}, ImageSplit::train); };
  for (const std::int64_t memory : {1 << 20, 0})
    expect_error([&] { ImageSet(open(), grey(4, 4), {.memory = memory}); }, {"train/a/1.png", "PNG, JPEG", "skip_broken"});
  for (const std::int64_t memory : {1 << 20, 0}) {
    const ImageSet set(open(), grey(4, 4), {.skip_broken = true, .memory = memory});
    EXPECT_EQ(set.size(), 2);
    ASSERT_EQ(set.broken().size(), 2U);
    EXPECT_NE(set.broken()[1].find("2.png: the image is damaged"), std::string::npos) << set.broken()[1];
    EXPECT_EQ(set.image(1).pixels[0], 150);
  }
}

TEST_F(ImageSetTest, AnUnknownClassIsAnError) {
  write_png("train/cat/1.png", 3, 3, 0);
  write_png("train/yak/1.png", 3, 3, 0);
  expect_error(
      [&] {
    ImageSet(open_images({.images = path()}, ImageSplit::train), grey(3, 3), {.classes = {"ant", "cat"}});
      },
      {"yak/1.png", "'yak'", "the training images do not have"});
  const ImageSet cats(images_in_memory({1, 1, 1}, {5}, {0}, {"cat"}), grey(1, 1), {.classes = {"ant", "cat"}});
  EXPECT_EQ(cats.label(0), 1);  // by its name
}

}  // namespace
}  // namespace transformer::test
