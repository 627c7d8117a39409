// WebP, by libwebp; of an animation the first picture.
#include <memory>

#include <webp/demux.h>

#include "vision/formats.h"

namespace transformer {
namespace {

std::string chunk(const WebPDemuxer* file, const char* name) {
  WebPChunkIterator it = {};
  std::string out;
  if (WebPDemuxGetChunk(file, name, 1, &it) != 0) out.assign(reinterpret_cast<const char*>(it.chunk.bytes), it.chunk.size);
  WebPDemuxReleaseChunkIterator(&it);
  return out;
}

}  // namespace

Image read_webp(const ImageFile& file) {
  const WebPData data{reinterpret_cast<const std::uint8_t*>(file.bytes.data()), file.bytes.size()};
  // The parts of the file without their pixels. Of a file whose header alone is looked at, the rest may be damaged.
  WebPDemuxState state = WEBP_DEMUX_PARSE_ERROR;
  const std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)> parts(WebPDemuxPartial(&data, &state), WebPDemuxDelete);
  if (parts == nullptr || state < WEBP_DEMUX_PARSED_HEADER) file.damaged("its header is not complete");
  Image image = file.image(WebPDemuxGetI(parts.get(), WEBP_FF_CANVAS_WIDTH), WebPDemuxGetI(parts.get(), WEBP_FF_CANVAS_HEIGHT));
  if (file.header) return image;

  WebPAnimDecoderOptions options;
  WebPAnimDecoderOptionsInit(&options);
  options.color_mode = MODE_RGBA;
  const std::unique_ptr<WebPAnimDecoder, decltype(&WebPAnimDecoderDelete)> decoder(WebPAnimDecoderNew(&data, &options),
                                                                                   WebPAnimDecoderDelete);
  std::uint8_t* pixels = nullptr;  // of the decoder
  int time = 0;
  if (decoder == nullptr || WebPAnimDecoderGetNext(decoder.get(), &pixels, &time) == 0) file.damaged("it cannot be decoded");
  for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = pixels[i / 3 * 4 + i % 3];
  return upright(std::move(image), CameraNotes{.exif = chunk(parts.get(), "EXIF"), .xmp = chunk(parts.get(), "XMP ")}.orientation());
}

}  // namespace transformer
