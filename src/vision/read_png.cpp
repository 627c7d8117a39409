// PNG, by libpng.
#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <utility>

#include <png.h>

#include "vision/formats.h"

namespace transformer {
namespace {

// The file up to the first part that is cut off: the library takes memory for what a part announces. Length, name, content, check sum.
std::string_view whole_parts(const ImageFile& file) {
  std::size_t at = 8;
  while (at + 12 <= file.bytes.size() && file.big(at) <= file.bytes.size() - at - 12) at += 12 + file.big(at);
  return file.bytes.substr(0, at);
}

// The library reports an error by a function that must not return: it jumps back to run().
class PngDecoder {
 public:
  explicit PngDecoder(const ImageFile& file) : file_(file), rest_(whole_parts(file)) {}
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  // Calls of the library; false when one of them fails. A jump ends `calls`: it must not hold what needs a destructor.
  template <class Calls>
  bool try_to(const Calls& calls) {
    if (setjmp(back_) != 0) return false;
    calls(png_, info_);
    return true;
  }
  template <class Calls>
  void run(const Calls& calls) {
    if (!try_to(calls)) file_.damaged("{}", message_);
  }

  png_structp png() const { return png_; }
  png_infop info() const { return info_; }

  void open() {
    run([this](png_structp, png_infop) {
      png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, stop, [](png_structp, png_const_charp) {});
      if (png_ == nullptr) return;
      info_ = png_create_info_struct(png_);
      png_set_read_fn(png_, this, next);
    });
    if (info_ == nullptr) file_.damaged("the library cannot be used");
  }

 private:
  [[noreturn]] static void stop(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::strncpy(self->message_, message, sizeof(self->message_) - 1);
    std::longjmp(self->back_, 1);
  }
  static void next(png_structp png, png_bytep to, std::size_t count) {
    auto* self = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (count > self->rest_.size()) png_error(png, "it is cut off");
    std::copy_n(self->rest_.begin(), count, to);
    self->rest_.remove_prefix(count);
  }

  const ImageFile& file_;
  std::string_view rest_;  // that is not read yet
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf back_ = {};
  char message_[100] = {};
};

// Of ImageMagick, before PNG had a place for EXIF: three lines, then the bytes as hexadecimal digits.
std::string raw_profile(std::string_view text) {
  for (int line = 0; line < 3; ++line) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  std::string out;
  int half = -1;
  for (const char c : text) {
    const std::size_t digit = std::string_view("0123456789abcdefABCDEF").find(c);
    if (digit == std::string_view::npos) continue;
    const int value = static_cast<int>(digit > 15 ? digit - 6 : digit);
    if (half < 0) half = value;
    else out += static_cast<char>(std::exchange(half, -1) * 16 + value);
  }
  return out;
}

CameraNotes notes_of(png_structp png, png_infop info) {
  CameraNotes out;
  png_textp texts = nullptr;
  const int count = png_get_text(png, info, &texts, nullptr);
  for (int i = 0; i < count; ++i) {
    const std::string_view key = texts[i].key;
    const std::string_view text(texts[i].text, std::max(texts[i].text_length, texts[i].itxt_length));
    if (key == "Raw profile type exif" && !text.empty()) out.exif = raw_profile(text);
    if (key == "XML:com.adobe.xmp") out.xmp = text;
  }
  png_bytep exif = nullptr;
  png_uint_32 size = 0;
  if (png_get_eXIf_1(png, info, &size, &exif) != 0) out.exif.assign(reinterpret_cast<const char*>(exif), size);
  return out;
}

}  // namespace

Image read_png(const ImageFile& file) {
  if (file.bytes.size() < 26 || file.bytes.substr(12, 4) != "IHDR") file.damaged("its header is missing");
  const std::uint32_t width = file.big(16), height = file.big(20), bits = file.little(24, 1), type = file.little(25, 1);
  // A byte of the file gives at most 1032 (deflate).
  if (!file.header && std::uint64_t{width} * bits / 8 * height / 1032 > file.bytes.size())
    file.damaged("it has {} bytes for {} x {} pixels", file.bytes.size(), width, height);
  Image image = file.image(width, height);
  if (file.header) return image;

  PngDecoder decoder(file);
  decoder.open();
  decoder.run([](png_structp png, png_infop info) {
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // file.image() limits them
    png_set_chunk_cache_max(png, 32);                            // texts, each of 8 MB at most
    png_read_info(png, info);
  });
  Palette palette;
  png_colorp listed = nullptr;
  int count = 0;
  if (type == PNG_COLOR_TYPE_PALETTE && png_get_PLTE(decoder.png(), decoder.info(), &listed, &count) != 0) palette.colours = {};
  for (int i = 0; i < std::min(count, 256); ++i)
    palette.colours[static_cast<std::size_t>(i)] = {listed[i].red, listed[i].green, listed[i].blue};
  std::size_t bytes = 0;                              // of a row
  decoder.run([&](png_structp png, png_infop info) {  // a byte a value; but grey of 16 bits stays as it is
    if (bits < 8 && type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
    else if (bits < 8) png_set_packing(png);
    if (type != PNG_COLOR_TYPE_GRAY) png_set_strip_16(png);
    png_set_strip_alpha(png);
    if (type == PNG_COLOR_TYPE_GRAY_ALPHA) png_set_gray_to_rgb(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    bytes = png_get_rowbytes(png, info);
  });
  const bool colours = bytes == 3 * std::size_t{width};
  std::vector<std::uint8_t> other(colours ? 0 : bytes * height);
  std::vector<png_bytep> rows(height);
  for (std::size_t y = 0; y < height; ++y) rows[y] = (colours ? image.pixels.data() : other.data()) + y * bytes;
  decoder.run([&](png_structp png, png_infop) { png_read_image(png, rows.data()); });
  for (std::size_t y = 0; !colours && y < height; ++y) {
    const std::uint8_t* row = rows[y];
    // Of 16 bits Pillow keeps what fits into 8.
    for (std::size_t x = 0; bits == 16 && x < width; ++x) rows[y][x] = row[2 * x] != 0 ? 255 : row[2 * x + 1];
    palette.paint(row, width, image.pixels.data() + 3 * y * width);
  }
  decoder.try_to([](png_structp png, png_infop info) { png_read_end(png, info); });  // what comes behind the pixels may be missing
  return upright(std::move(image), notes_of(decoder.png(), decoder.info()).orientation());
}

}  // namespace transformer
