// JPEG, by libjpeg-turbo as Pillow calls it: exact cosine transforms, smooth colours.
#include <csetjmp>
#include <cstdio>  // for jpeglib.h
#include <cstring>

#include <jpeglib.h>
// after it
#include <jerror.h>

#include "vision/formats.h"

namespace transformer {
namespace {

// The library reports an error by a function that must not return: it jumps back to run().
struct Failure {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void stop(j_common_ptr info) {
  auto* failure = reinterpret_cast<Failure*>(info->err);
  failure->manager.format_message(info, failure->message);
  std::longjmp(failure->back, 1);
}

// Of warnings one counts: the file is cut off.
void warned(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) stop(info);
}

// A few bytes a scan, and each goes over the whole picture.
void progressed(j_common_ptr info) {
  constexpr int most_scans = 500;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= most_scans) return;
  auto* failure = reinterpret_cast<Failure*>(info->err);
  std::strcpy(failure->message, "it has too many scans");
  std::longjmp(failure->back, 1);
}

class JpegDecoder {
 public:
  explicit JpegDecoder(const ImageFile& file) : file_(file) {
    info_.err = jpeg_std_error(&failure_.manager);
    failure_.manager.error_exit = stop;
    failure_.manager.emit_message = warned;
    failure_.manager.output_message = [](j_common_ptr) {};
    progress_.progress_monitor = progressed;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Calls of the library; Error with its message when one of them fails. A jump ends `calls`: it must not hold what needs a destructor.
  template <class Calls>
  void run(const Calls& calls) {
    if (setjmp(failure_.back) != 0) file_.damaged("{}", failure_.message);
    calls(&info_);
  }
  const jpeg_decompress_struct& info() const { return info_; }
  jpeg_progress_mgr* progress() { return &progress_; }

 private:
  const ImageFile& file_;
  jpeg_decompress_struct info_ = {};
  jpeg_progress_mgr progress_ = {};
  Failure failure_ = {};
};

CameraNotes notes_of(const jpeg_decompress_struct& info) {
  constexpr std::string_view exif("Exif\0\0", 6), xmp("http://ns.adobe.com/xap/1.0/\0", 29);
  CameraNotes out;
  for (const jpeg_marker_struct* marker = info.marker_list; marker != nullptr; marker = marker->next) {
    const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
    if (data.starts_with(exif)) out.exif += data.substr(out.exif.empty() ? 0 : exif.size());
    if (data.starts_with(xmp)) out.xmp = data.substr(xmp.size());
  }
  return out;
}

// Four inks as they are stored, which is inverted, to light, as Pillow does it.
void from_inks(const std::uint8_t* inks, std::size_t count, std::uint8_t* to) {
  for (std::size_t i = 0; i < count; ++i, inks += 4)
    for (int c = 0; c < 3; ++c) {
      const int light = inks[3], ink = (255 - inks[c]) * light + 128;
      *to++ = static_cast<std::uint8_t>(light - (((ink >> 8) + ink) >> 8));
    }
}

}  // namespace

Image read_jpeg(const ImageFile& file) {
  JpegDecoder decoder(file);
  decoder.run([&](j_decompress_ptr info) {
    jpeg_create_decompress(info);
    info->progress = decoder.progress();
    jpeg_mem_src(info, reinterpret_cast<const unsigned char*>(file.bytes.data()), file.bytes.size());
    jpeg_save_markers(info, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(info, TRUE);
    if (info->num_components == 3) info->out_color_space = JCS_RGB;
  });
  const jpeg_decompress_struct& info = decoder.info();
  const int channels = info.num_components;
  if (channels != 1 && channels != 3 && channels != 4) file.damaged("it has {} colours: expected 1, 3 or 4", channels);
  // A bit at least for 64 pixels.
  if (!info.arith_code && std::int64_t{info.image_width} * info.image_height / 512 > std::ssize(file.bytes))
    file.damaged("it has {} bytes for {} x {} pixels", file.bytes.size(), info.image_width, info.image_height);
  Image image = file.image(info.image_width, info.image_height);
  if (file.header) return image;

  const int orientation = notes_of(info).orientation();  // the library forgets it at the end
  std::vector<std::uint8_t> row(std::size_t{info.image_width} * static_cast<std::size_t>(channels));
  const std::size_t width = info.image_width;
  decoder.run([&](j_decompress_ptr to) {
    if (channels == 4) to->out_color_space = JCS_CMYK;
    jpeg_start_decompress(to);
    for (std::uint8_t* pixels = image.pixels.data(); to->output_scanline < to->output_height; pixels += 3 * width) {
      std::uint8_t* into = channels == 3 ? pixels : row.data();
      jpeg_read_scanlines(to, &into, 1);
      if (channels == 4) from_inks(row.data(), width, pixels);
      for (std::size_t x = 0; channels == 1 && x < width; ++x) std::memset(pixels + 3 * x, row[x], 3);
    }
    jpeg_finish_decompress(to);
  });
  return upright(std::move(image), orientation);
}

}  // namespace transformer
