// Files of every format, read as Pillow reads them. make_images.py makes tests/vision/images.
#include "vision/formats.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "io/shared/read_file.h"
#include "support/op_check.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "transformer/io/safetensors.h"

namespace transformer::test {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

const fs::path folder = source_folder() / "tests" / "vision" / "images";

std::string file(const std::string& name) { return read_file(folder / name); }
std::string replaced(std::string text, std::size_t at, std::string_view by) { return text.replace(at, by.size(), by); }

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() != ".safetensors") out.push_back(entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

// 3 x 2 pixels, numbered.
Image numbered() {
  Image image{.height = 2, .width = 3, .channels = 1, .pixels = {1, 2, 3, 4, 5, 6}};
  return image;
}

}  // namespace

TEST(ImageFormats, AreReadAsPillowDoes) {
  const SafetensorsFile expected(folder / "expected.safetensors");
  const std::vector<std::string> all = names();
  ASSERT_EQ(all.size(), expected.names().size());
  for (const std::string& name : all) {
    SCOPED_TRACE(name);
    const Image image = read_image(folder / name);
    const Tensor want = expected.tensor(name);
    ASSERT_EQ(want.shape(), (Shape{image.height, image.width, 3}));
    ASSERT_EQ(image.pixels.size(), static_cast<std::size_t>(want.numel()));
    EXPECT_EQ(std::memcmp(image.pixels.data(), want.raw(), image.pixels.size()), 0);
    EXPECT_NO_THROW(check_image_header(folder / name));
  }
}

TEST(ImageFormats, AreToldByContent) {
  const TemporaryFolder other;
  fs::copy(folder / "plain.gif", other / "picture.png");
  EXPECT_EQ(read_image(other / "picture.png").pixels, read_image(folder / "plain.gif").pixels);
  EXPECT_EQ(image_format("BMW is a maker of cars, which is what this text is about."), nullptr);
  EXPECT_EQ(image_format(file("24.bmp"))->name, "BMP");
  EXPECT_EQ(image_format("RIFF\x10\0\0\0WEBPVP8 "s)->name, "WebP");
  expect_error([] { decode_image("II*\0\x08\0\0\0"s, "a.jpg"); }, {"a.jpg", "TIFF", "convert it to PNG, JPEG, WebP, BMP or GIF"});
  expect_error(
      [] {
    decode_image(
        "\0\0\0\x18"
        "ftypheic\0\0\0\0"s,
        "a.jpg");
      },
      {"a.jpg", "HEIC"});
  expect_error(
      [] {
    decode_image(
        "\0\0\0\x18"
        "ftypavif\0\0\0\0"s,
        "a");
      },
      {"AVIF"});
  for (const std::string& start : {"BM"s, "RIFF"s, "RIFF...."s, "GIF8"s, "\xFF\xD8"s, ""s}) EXPECT_EQ(image_format(start), nullptr);
  expect_error([] { decode_image("hello", "a.jpg"); }, {"a.jpg", "expected PNG, JPEG, WebP, BMP or GIF"});
}

// As ImageOps.exif_transpose of Pillow turns 1 2 3 / 4 5 6.
TEST(ImageFormats, TurnsPicturesUpright) {
  using Pixels = std::vector<std::uint8_t>;
  const std::vector<Pixels> want{{1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1}, {4, 5, 6, 1, 2, 3},
                                 {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3}, {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Image image = upright(numbered(), orientation);
    EXPECT_EQ(image.pixels, want[static_cast<std::size_t>(orientation - 1)]) << orientation;
    EXPECT_EQ(image.width, orientation < 5 ? 3 : 2) << orientation;
  }
  for (const int odd : {-1, 0, 9}) EXPECT_EQ(upright(numbered(), odd).pixels, numbered().pixels);
}

TEST(ImageFormats, NotesOfCamerasThatCannotBeReadSayNothing) {
  const auto exif = [](const std::string& bytes) { return CameraNotes{.exif = bytes, .xmp = ""}.orientation(); };
  const std::string head = "II*\0\x08\0\0\0"s, entry = "\x12\x01\x03\0\x01\0\0\0\x06\0\0\0"s;
  EXPECT_EQ(exif(head + "\x01\0"s + entry), 6);
  EXPECT_EQ(exif("Exif\0\0"s + head + "\x01\0"s + entry), 6);
  EXPECT_EQ(exif("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0"s), 8);
  EXPECT_EQ(exif(head + "\x01\0\x12\x01\x04\0\x01\0\0\0\x03\0\0\0"s), 3);    // a number of four bytes
  EXPECT_EQ(exif(head + "\x01\0\x12\x01\x02\0\x01\0\0\0\x06\0\0\0"s), 1);    // text
  EXPECT_EQ(exif(head + "\x01\0\x12\x01\x03\0\x02\0\0\0\x06\0\x06\0"s), 1);  // two numbers
  for (const std::string& bad :
       {""s, "I"s, "II"s, "JFIF"s, head, head + "\xFF\xFF"s, head + "\x01\0"s + entry.substr(0, 9), "II*\0\xFF\xFF\xFF\xFF"s})
    EXPECT_EQ(exif(bad), 1);
  const auto xmp = [](const std::string& text) { return CameraNotes{.exif = "", .xmp = text}.orientation(); };
  EXPECT_EQ(xmp("<tiff:Orientation>3</tiff:Orientation>"), 3);
  EXPECT_EQ(xmp("tiff:Orientation tiff:Orientation=\"7\""), 7);
  EXPECT_EQ(xmp("tiff:Orientation=\""), 1);
  EXPECT_EQ((CameraNotes{.exif = head + "\x01\0"s + entry, .xmp = "tiff:Orientation=\"3\""}).orientation(), 6);
}

// What a header announces takes no memory before it is known to be possible.
TEST(ImageFormats, VastSizesAreErrors) {
  expect_error([] { decode_image(file("444.jpg"), "small.jpg", 100); }, {"small.jpg", "17 x 11", "100 pixels"});
  for (const char* name : {"444.jpg", "rgb-8.png", "lossy.webp", "lossless.webp", "24.bmp", "plain.gif", "animated.webp"})
    expect_error([&] { decode_image(file(name), name, 20); }, {name, "expected at most"});
  expect_error([] { decode_image(replaced(file("rgb-8.png"), 16, "\x7f\xff\xff\xff\x7f\xff\xff\xff"), "vast.png"); }, {"vast.png"});
  const std::size_t frame = file("444.jpg").find("\xFF\xC0");
  expect_error([&] { decode_image(replaced(file("444.jpg"), frame + 5, "\x7f\xff\x0f\xff"), "vast.jpg"); },
               {"vast.jpg", "bytes for 4095 x 32767"});
  expect_error([&] { decode_image(replaced(file("444.jpg"), frame + 5, "\xff\xff\xff\xff"), "vast.jpg"); }, {"vast.jpg"});
  expect_error([] { decode_image(replaced(file("24.bmp"), 18, "\xff\xff\xff\x7f"), "vast.bmp"); }, {"vast.bmp", "on a side"});
  expect_error([] { decode_image(replaced(file("24.bmp"), 18, "\xff\x0f\0\0\xff\x0f\0\0"s), "vast.bmp"); }, {"vast.bmp", "cut off"});
  expect_error([] { decode_image(replaced(file("24.bmp"), 22, "\0\0\0\x80"s), "vast.bmp"); }, {"vast.bmp", "on a side"});
  expect_error([] { decode_image(replaced(file("plain.gif"), 6, "\xff\xff\xff\xff"), "vast.gif"); }, {"vast.gif", "on a side"});
  const std::size_t canvas = file("alpha.webp").find("VP8X") + 12;
  expect_error([&] { decode_image(replaced(file("alpha.webp"), canvas, "\xff\xff\xff\xff\xff\x7f"), "vast.webp"); }, {"vast.webp"});
}

// A file that is cut off is an Error, however much of it is left; Pillow refuses it, too.
TEST(ImageFormats, HalfAFileIsAnError) {
  for (const std::string& name : names()) {
    const std::string whole = file(name);
    for (const std::size_t part : {whole.size() / 2, whole.size() * 3 / 4, whole.size() - std::min<std::size_t>(whole.size() / 8, 20)}) {
      if (name.starts_with("animated") || name.ends_with(".png")) continue;  // what is cut off may be another picture, or no pixels
      EXPECT_THROW(decode_image(std::string_view(whole).substr(0, part), name), Error) << name << ", " << part << " of " << whole.size();
    }
    EXPECT_THROW(decode_image(std::string_view(whole).substr(0, whole.size() / 3), name), Error) << name;
  }
}

// Cut off or changed anywhere: a picture or an Error, nothing else. What can be decoded has a header that can be read.
TEST(ImageFormats, DamageIsAnErrorAtWorst) {
  const TemporaryFolder other;
  int read = 0;
  for (const std::string& name : names()) {
    const std::string whole = file(name);
    const RandomStream random{7, 0, 0};
    for (std::uint64_t i = 0; i < 100; ++i) {
      std::string changed = whole.substr(0, i % 3 == 0 ? random.bits(4 * i) % whole.size() : whole.size());
      for (std::uint64_t k = 1; k < 3 && !changed.empty(); ++k)
        changed[random.bits(4 * i + k) % changed.size()] = static_cast<char>(random.bits(4 * i + k) >> 24);
      try {
        const Image image = decode_image(changed, "changed", 1 << 20);
        EXPECT_EQ(image.pixels.size(), static_cast<std::size_t>(image.height * image.width * 3));
        ++read;
      } catch (const Error&) {
        continue;
      }
      std::ofstream(other / "x", std::ios::binary) << changed;
      EXPECT_NO_THROW(check_image_header(other / "x")) << name << ", " << i;
    }
  }
  EXPECT_GT(read, 1000);
}

}  // namespace transformer::test
