// GIF: the first picture of it.
#include <algorithm>

#include "vision/formats.h"

namespace transformer {
namespace {

// The codes of Lempel, Ziv and Welch: below 2^bits a pixel; then one that clears the table, one that ends; from there on what was met
// before, each code a known row of pixels and one more. They are as long as the largest one, 12 bits at most.
class Codes {
 public:
  explicit Codes(std::uint32_t bits) : bits_(bits), clear_(1U << bits) { reset(); }

  // Takes a byte of the file and puts the pixels that it completes; false at the end, and at what is not a code.
  template <class Put>
  bool take(std::uint32_t byte, const Put& put) {
    buffer_ |= byte << held_;
    held_ += 8;
    while (held_ >= size_) {
      const std::uint32_t code = buffer_ & ((1U << size_) - 1);
      buffer_ >>= size_;
      held_ -= size_;
      if (code == clear_ + 1) return false;
      if (code == clear_) reset();
      else if (!expand(code, put)) return false;
    }
    return true;
  }
  bool damaged() const { return damaged_; }

 private:
  static constexpr std::uint32_t most = 4096, no_code = most;

  void reset() {
    size_ = bits_ + 1;
    next_ = clear_ + 2;
    last_ = no_code;
  }
  template <class Put>
  bool expand(std::uint32_t code, const Put& put) {
    if (code > next_ || (code == next_ && last_ == no_code) || (code > clear_ && last_ == no_code)) return damaged_ = true, false;
    // The row from its end: each code leads to the one before.
    std::uint32_t count = 0, at = code;
    if (code == next_) row_[count++] = first_, at = last_;
    for (; at > clear_; at = before_[at]) row_[count++] = pixel_[at];
    row_[count++] = first_ = static_cast<std::uint8_t>(at);
    if (last_ != no_code && next_ < most) {
      before_[next_] = static_cast<std::uint16_t>(last_);
      pixel_[next_++] = first_;
      if (next_ == 1U << size_ && size_ < 12) ++size_;
    }
    last_ = code;
    while (count > 0) put(row_[--count]);
    return true;
  }

  std::uint32_t bits_, clear_, size_ = 0, next_ = 0, last_ = no_code, buffer_ = 0, held_ = 0;
  std::uint8_t first_ = 0;
  bool damaged_ = false;
  std::array<std::uint16_t, most> before_ = {};
  std::array<std::uint8_t, most> pixel_ = {};
  std::array<std::uint8_t, most + 1> row_ = {};
};

class GifReader {
 public:
  explicit GifReader(const ImageFile& file) : file_(file) {}

  Image read() {
    std::int64_t width = file_.little(6, 2), height = file_.little(8, 2);
    at_ = 13;
    read_palette(file_.little(10, 1));
    find_picture();
    const std::int64_t left = next(2), top = next(2), columns = next(2), rows = next(2);
    if (columns == 0 || rows == 0) file_.damaged("its first picture is empty");
    Image image = file_.image(std::max(width, left + columns), std::max(height, top + rows));  // as Pillow, should it be outside
    if (file_.header) return image;
    const std::uint32_t flags = next(1);
    read_palette(flags);
    std::vector<std::uint8_t> numbers(static_cast<std::size_t>(image.width * image.height), static_cast<std::uint8_t>(background_));
    decode(numbers.data() + top * image.width + left, image.width, columns, rows, (flags & 0x40) != 0);
    palette_.paint(numbers.data(), numbers.size(), image.pixels.data());
    return image;
  }

 private:
  std::uint32_t next(std::size_t count) {
    const std::uint32_t value = file_.little(at_, count);
    at_ += count;
    return value;
  }
  void read_palette(std::uint32_t flags) {
    if ((flags & 0x80) == 0) return;
    palette_.colours = {};
    for (std::size_t i = 0; i < std::size_t{2} << (flags & 7); ++i)
      for (std::uint8_t& value : palette_.colours[i]) value = static_cast<std::uint8_t>(next(1));
  }
  // Steps over the extensions before it; of them it matters which colour is the transparent one.
  void find_picture() {
    for (std::uint32_t kind = next(1); kind != ','; kind = next(1)) {
      if (kind == ';') file_.damaged("there is no picture in it");
      if (kind != '!') continue;
      const bool control = next(1) == 0xF9;
      for (std::uint32_t size = next(1), block = 0; size > 0; size = next(1), ++block) {
        if (control && block == 0 && size >= 4 && (file_.little(at_, 1) & 1) != 0) background_ = file_.little(at_ + 3, 1);
        at_ += size;
      }
    }
  }
  // Rows of an interlaced picture come in four rounds: every 8th, those between, ….
  void decode(std::uint8_t* to, std::int64_t stride, std::int64_t columns, std::int64_t rows, bool interlaced) {
    constexpr std::int64_t starts[] = {0, 4, 2, 1}, steps[] = {8, 8, 4, 2};
    const std::uint32_t bits = next(1);
    if (bits < 1 || bits > 8) file_.damaged("it has {} bits a pixel", bits);
    Codes codes(bits);
    std::int64_t x = 0, y = 0, done = 0;
    int round = 0;
    const auto put = [&](std::uint8_t number) {
      if (done == rows) return;
      to[y * stride + x] = number;
      if (++x < columns) return;
      x = 0, ++done;
      y += interlaced ? steps[round] : 1;
      while (interlaced && y >= rows && round < 3) y = starts[++round];
    };
    for (bool more = true; more && done < rows;) {
      std::uint32_t size = next(1);
      if (size == 0) break;
      for (; more && size > 0; --size) more = codes.take(next(1), put);
    }
    if (codes.damaged() && done < rows) file_.damaged("its pixels make no sense");
    if (done < rows) file_.damaged("pixels are missing");
  }

  const ImageFile& file_;
  std::size_t at_ = 0;
  Palette palette_;
  std::uint32_t background_ = 0;
};

}  // namespace

Image read_gif(const ImageFile& file) { return GifReader(file).read(); }

}  // namespace transformer
