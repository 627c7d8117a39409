#include "transformer/vision/image.h"

#include <gtest/gtest.h>

#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "vision/pattern.h"

#include <fstream>

namespace transformer::test {
namespace {

// The picture that was given to Pillow.

struct Resized {
  Resample filter;
  std::int64_t height, width, new_height, new_width;
  std::vector<int> pixels;
};
// Image.fromarray(pattern).resize((new_width, new_height), filter) of Pillow 12.3
const std::vector<Resized> pillow{
    {Resample::nearest, 9, 11, 4, 3, {145, 198, 251, 77, 130, 183, 169, 222, 19,  105, 158, 211, 173, 226, 23,  145, 198, 251,
                                      65,  118, 171, 13, 66,  119, 121, 174, 227, 25,  78,  131, 109, 162, 215, 97,  150, 203}},
    {Resample::nearest, 3, 4, 5, 7, {0,   53,  106, 0,   53,  106, 37,  90,  143, 37,  90,  143, 148, 201, 254, 77,  130, 183,
                                     77,  130, 183, 0,   53,  106, 0,   53,  106, 37,  90,  143, 37,  90,  143, 148, 201, 254,
                                     77,  130, 183, 77,  130, 183, 91,  144, 197, 91,  144, 197, 145, 198, 251, 145, 198, 251,
                                     17,  70,  123, 219, 16,  69,  219, 16,  69,  182, 235, 32,  182, 235, 32,  253, 50,  103,
                                     253, 50,  103, 142, 195, 248, 105, 158, 211, 105, 158, 211, 182, 235, 32,  182, 235, 32,
                                     253, 50,  103, 253, 50,  103, 142, 195, 248, 105, 158, 211, 105, 158, 211}},
    {Resample::lanczos, 9, 11, 4, 3, {108, 128, 170, 148, 106, 117, 115, 150, 108, 133, 113, 159, 151, 129, 140, 146, 152, 154,
                                      99,  136, 131, 104, 116, 119, 135, 158, 186, 133, 140, 140, 114, 153, 123, 121, 158, 144}},
    {Resample::lanczos, 3, 4, 5, 7, {0,   48,  92,  0,   42,  89,  19,  65,  117, 118, 161, 215, 164, 220, 255, 100, 179, 232,
                                     41,  134, 187, 17,  67,  148, 30,  92,  163, 58,  135, 190, 77,  162, 211, 95,  140, 193,
                                     125, 97,  150, 139, 70,  123, 80,  133, 186, 119, 169, 222, 149, 199, 252, 60,  149, 202,
                                     24,  61,  114, 149, 21,  74,  247, 14,  67,  149, 223, 89,  193, 181, 112, 230, 115, 157,
                                     158, 116, 193, 85,  141, 191, 125, 115, 166, 170, 94,  147, 177, 255, 9,   217, 165, 18,
                                     255, 37,  71,  231, 96,  190, 150, 221, 255, 100, 204, 254, 84,  167, 220}},
    {Resample::bilinear, 9, 11, 4, 3, {113, 123, 166, 142, 112, 123, 121, 146, 113, 126, 116, 154, 145, 134, 137, 143, 149, 158,
                                       107, 133, 132, 110, 124, 126, 132, 156, 172, 131, 137, 141, 115, 149, 128, 122, 156, 147}},
    {Resample::bilinear, 3, 4, 5, 7, {0,   53,  106, 13,  66,  119, 34,  87,  140, 93,  146, 199, 143, 196, 249, 102, 155, 208,
                                      77,  130, 183, 36,  89,  142, 52,  105, 158, 77,  130, 183, 88,  141, 194, 98,  144, 197,
                                      120, 107, 160, 134, 84,  137, 91,  144, 197, 110, 163, 216, 141, 194, 247, 81,  134, 187,
                                      31,  66,  119, 147, 35,  88,  219, 16,  69,  146, 199, 98,  168, 167, 121, 205, 115, 158,
                                      151, 127, 180, 96,  142, 195, 130, 117, 170, 151, 101, 154, 182, 235, 32,  207, 169, 57,
                                      248, 63,  98,  198, 123, 176, 139, 192, 245, 118, 171, 224, 105, 158, 211}},
    {Resample::bicubic, 9, 11, 4, 3, {108, 125, 169, 146, 107, 120, 118, 148, 111, 130, 114, 156, 148, 135, 139, 145, 150, 157,
                                      104, 136, 130, 107, 118, 121, 133, 158, 181, 133, 137, 142, 113, 151, 125, 122, 157, 145}},
    {Resample::bicubic, 3, 4, 5, 7, {0,   43,  96,  0,   52,  105, 23,  76,  129, 101, 153, 206, 158, 211, 255, 99,  166, 219,
                                     59,  132, 185, 27,  77,  142, 40,  96,  157, 67,  131, 185, 84,  149, 202, 99,  147, 200,
                                     122, 104, 157, 134, 78,  131, 87,  140, 193, 112, 165, 218, 146, 199, 252, 72,  141, 194,
                                     22,  64,  117, 153, 27,  80,  235, 12,  65,  149, 215, 89,  179, 176, 112, 221, 110, 155,
                                     156, 122, 186, 91,  145, 198, 129, 117, 170, 156, 100, 153, 183, 255, 13,  215, 175, 35,
                                     255, 43,  83,  214, 111, 181, 146, 208, 255, 109, 186, 239, 92,  166, 219}},
    {Resample::box, 9, 11, 4, 3, {92, 113, 166, 142, 109, 120, 118, 139, 128, 138, 127, 159, 141, 137, 133, 141, 151, 162,
                                  99, 152, 109, 126, 136, 104, 111, 164, 185, 140, 129, 150, 94,  147, 157, 134, 155, 112}},
    {Resample::box, 3, 4, 5, 7, {0,   53,  106, 0,   53,  106, 37,  90,  143, 148, 201, 254, 148, 201, 254, 77,  130, 183, 77,  130, 183,
                                 0,   53,  106, 0,   53,  106, 37,  90,  143, 148, 201, 254, 148, 201, 254, 77,  130, 183, 77,  130, 183,
                                 91,  144, 197, 91,  144, 197, 145, 198, 251, 17,  70,  123, 17,  70,  123, 219, 16,  69,  219, 16,  69,
                                 182, 235, 32,  182, 235, 32,  253, 50,  103, 142, 195, 248, 142, 195, 248, 105, 158, 211, 105, 158, 211,
                                 182, 235, 32,  182, 235, 32,  253, 50,  103, 142, 195, 248, 142, 195, 248, 105, 158, 211, 105, 158, 211}},
    {Resample::hamming, 9, 11, 4, 3, {101, 123, 171, 146, 108, 119, 119, 150, 114, 122, 115, 153, 145, 148, 134, 147, 145, 161,
                                      101, 137, 129, 109, 118, 122, 131, 165, 176, 134, 129, 151, 108, 149, 136, 121, 156, 148}},
    {Resample::hamming, 3, 4, 5, 7, {0,   53,  106, 8,   61,  114, 37,  90,  143, 93,  146, 199, 147, 200, 253, 91,  144, 197,
                                     77,  130, 183, 25,  78,  131, 34,  87,  140, 67,  120, 173, 90,  143, 196, 111, 164, 217,
                                     115, 111, 164, 117, 98,  151, 91,  144, 197, 102, 155, 208, 145, 198, 251, 81,  134, 187,
                                     18,  70,  123, 178, 27,  80,  219, 16,  69,  157, 210, 78,  170, 185, 91,  222, 92,  144,
                                     165, 126, 179, 107, 160, 213, 131, 127, 180, 137, 118, 171, 182, 235, 32,  196, 197, 46,
                                     252, 51,  102, 198, 123, 176, 142, 195, 248, 113, 166, 219, 105, 158, 211}},
};

std::string bytes(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return out;
}

// pattern(3, 2) with transparency, and 8 x 8 pixels, the left half black and the right one grey.
const std::string png = bytes(
    "89504e470d0a1a0a0000000d4948445200000002000000030806000000b9eade810000002349444154789c636430cde254555565608c9e7094d3cccc"
    "8c8161db6b05cebf46e99c004e6606de00d79d620000000049454e44ae426082");
const std::string jpeg = bytes(
    "ffd8ffe000104a46494600010100000100010000ffdb0043000d090a0b0a080d0b0a0b0e0e0d0f13201513121213271c1e17202e2931302e292d2c33"
    "3a4a3e333646372c2d405741464c4e525352323e5a615a50604a51524fffc0000b080008000801011100ffc400140001000000000000000000000000"
    "00000005ffc40018100002030000000000000000000000000000074583c2ffda0008010100003f00395d2956cfffd9");

}  // namespace

TEST(Image, ResizesAsPillow) {
  for (const Resized& r : pillow) {
    const Image got = resize(pattern(r.height, r.width), r.new_height, r.new_width, r.filter);
    ASSERT_EQ(got.height, r.new_height);
    ASSERT_EQ(got.width, r.new_width);
    EXPECT_EQ(std::vector<int>(got.pixels.begin(), got.pixels.end()), r.pixels) << "filter " << static_cast<int>(r.filter);
  }
}

TEST(Image, SameSizeIsTheSamePicture) {
  const Image image = pattern(5, 4);
  for (Resample filter : {Resample::nearest, Resample::bilinear, Resample::bicubic})
    EXPECT_EQ(resize(image, 5, 4, filter).pixels, image.pixels);
}

TEST(Image, CropsTheMiddleAndAddsBlack) {
  const Image image = pattern(5, 4);
  const Image inside = center_crop(image, 3, 2);
  for (int y = 0; y < 3; ++y)
    for (int x = 0; x < 2; ++x) EXPECT_EQ(inside.at(y, x, 1), image.at(y + 1, x + 1, 1));
  const Image around = center_crop(image, 8, 2);  // three rows more: two above, one below, as Hugging Face
  EXPECT_EQ(around.at(1, 0, 1), 0);
  EXPECT_EQ(around.at(2, 0, 1), image.at(0, 1, 1));
  EXPECT_EQ(around.at(6, 1, 2), image.at(4, 2, 2));
  EXPECT_EQ(around.at(7, 0, 1), 0);
}

TEST(Image, ReadsPngAndJpeg) {
  const TemporaryFolder folder;
  std::ofstream(folder / "x.png", std::ios::binary) << png;
  const Image image = read_image(folder / "x.png");
  EXPECT_EQ(image.height, 3);
  EXPECT_EQ(image.width, 2);
  EXPECT_EQ(image.pixels, pattern(3, 2).pixels);
  const Image grey = decode_image(jpeg, "grey.jpg");
  ASSERT_EQ(grey.height, 8);
  ASSERT_EQ(grey.width, 8);
  EXPECT_EQ(grey.channels, 3);
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(grey.at(4, 1, c), 0, 12);
    EXPECT_NEAR(grey.at(4, 6, c), 200, 12);
  }
}

TEST(Image, DamagedFilesAreErrors) {
  expect_error([] { decode_image("", "empty.png"); }, {"empty.png", "PNG, JPEG"});
  expect_error([] { decode_image("GIF89a..........", "x.gif"); }, {"x.gif", "damaged"});
  expect_error([] { read_image("/nowhere/x.png"); }, {"/nowhere/x.png"});
  std::string many = jpeg;  // codes in a Huffman table, more than the decoder has room for
  const std::size_t table = many.find("\xFF\xC4");
  ASSERT_NE(table, std::string::npos);
  for (std::size_t i = table + 5; i < table + 21; ++i) many[i] = '\x11';
  expect_error([&] { decode_image(many, "many.jpg"); }, {"many.jpg", "Huffman"});
  std::string cut = png;  // a part that would be longer than the file
  cut[33] = 0x70;
  expect_error([&] { decode_image(cut, "cut.png"); }, {"cut.png", "damaged"});
}

TEST(Image, WritesPng) {
  for (const std::int64_t channels : {1, 3}) {
    const Image image = with_channels(pattern(5, 7), channels);
    const Image back = decode_image(encode_png(image), "back.png");
    EXPECT_EQ(with_channels(back, channels).pixels, image.pixels);
  }
  expect_error([] { encode_png({.height = 2, .width = 2, .channels = 3, .pixels = {1}}); }, {"encode_png", "2 x 2"});
}

// As Pillow's convert("L"), where (10, 200, 90) gives 131, and convert("RGB").
TEST(Image, ChangesTheChannels) {
  const Image colours{.height = 1, .width = 2, .channels = 3, .pixels = {10, 200, 90, 77, 77, 77}};
  const Image grey = with_channels(colours, 1);
  EXPECT_EQ(grey.pixels, (std::vector<std::uint8_t>{131, 77}));
  EXPECT_EQ(with_channels(grey, 3).pixels, (std::vector<std::uint8_t>{131, 131, 131, 77, 77, 77}));
  expect_error([&] { with_channels(colours, 2); }, {"2"});
}

TEST(Image, LooksAtHeaders) {
  const TemporaryFolder folder;
  auto check = [&](const std::string& content) {
    std::ofstream(folder / "x", std::ios::binary) << content;
    check_image_header(folder / "x");
  };
  EXPECT_NO_THROW(check(png));
  EXPECT_NO_THROW(check(jpeg));
  EXPECT_NO_THROW(check(png.substr(0, 40)));  // the rest is not looked at
  for (const std::string& wrong : {std::string(), std::string("TIFF........................"), png.substr(0, 20), jpeg.substr(0, 60)})
    expect_error([&] { check(wrong); }, {(folder / "x").string()});
  std::string vast = png;
  vast[16] = 0x7f;
  expect_error([&] { check(vast); }, {"x"});
  expect_error([&] { check_image_header(folder.path()); }, {folder.path().string()});
}

TEST(Image, Errors) {
  expect_error([] { resize(pattern(2, 2), 0, 3, Resample::bilinear); }, {"resize", "0 x 3"});
  expect_error([] { resize(Image{}, 2, 3, Resample::bilinear); }, {"resize", "empty"});
  expect_error([] { resize(pattern(2, 2), 1 << 20, 3, Resample::bilinear); }, {"resize", "1048576"});
  expect_error([] { center_crop(pattern(2, 2), -1, 3); }, {"center_crop"});
}

}  // namespace transformer::test
