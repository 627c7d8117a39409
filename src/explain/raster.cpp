// PNG files of our SVG documents, by librsvg. It is opened when the first one is asked for: with it come some thirty libraries of text and
// drawing, which nobody else should have to wait for, and no headers are needed to build.
#include <dlfcn.h>

#include <cmath>
#include <memory>

#include "transformer/core/error.h"
#include "transformer/explain/report.h"
#include "transformer/vision/image.h"

namespace transformer {
namespace {

// The part of the interfaces that is used, as their headers have it.
struct RsvgRectangle {
  double x, y, width, height;
};
constexpr int argb32 = 0;  // CAIRO_FORMAT_ARGB32: blue, green, red and opacity, a byte each, colours multiplied by it

class Library {
 public:
  explicit Library(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr)
      fail("png", "PNG files need librsvg, which cannot be opened ({}): install it (Debian: apt-get install librsvg2-2), or write SVG",
           dlerror());
  }
  template <class F>
  F* function(const char* name) const {
    void* found = dlsym(handle_, name);
    if (found == nullptr) fail("png", "librsvg, or a library that it needs, has no {}: it is too old", name);
    return reinterpret_cast<F*>(found);
  }

 private:
  void* handle_;  // stays open: its libraries do not like to be closed
};

struct Rsvg {
  Library rsvg{"librsvg-2.so.2"}, cairo{"libcairo.so.2"}, object{"libgobject-2.0.so.0"};
  void* (*open)(const unsigned char*, std::size_t,
                void**) = rsvg.function<void*(const unsigned char*, std::size_t, void**)>("rsvg_handle_new_from_data");
  int (*size)(void*, double*, double*) = rsvg.function<int(void*, double*, double*)>("rsvg_handle_get_intrinsic_size_in_pixels");
  int (*render)(void*, void*, const RsvgRectangle*,
                void**) = rsvg.function<int(void*, void*, const RsvgRectangle*, void**)>("rsvg_handle_render_document");
  void (*unref)(void*) = object.function<void(void*)>("g_object_unref");
  void* (*surface)(int, int, int) = cairo.function<void*(int, int, int)>("cairo_image_surface_create");
  void (*flush)(void*) = cairo.function<void(void*)>("cairo_surface_flush");
  unsigned char* (*data)(void*) = cairo.function<unsigned char*(void*)>("cairo_image_surface_get_data");
  int (*stride)(void*) = cairo.function<int(void*)>("cairo_image_surface_get_stride");
  void (*destroy_surface)(void*) = cairo.function<void(void*)>("cairo_surface_destroy");
  void* (*create)(void*) = cairo.function<void*(void*)>("cairo_create");
  void (*destroy)(void*) = cairo.function<void(void*)>("cairo_destroy");
};

using Owned = std::unique_ptr<void, void (*)(void*)>;

}  // namespace

std::string svg_to_png(const std::string& svg, double scale) {
  static const Rsvg r;
  const Owned handle(r.open(reinterpret_cast<const unsigned char*>(svg.data()), svg.size(), nullptr), r.unref);
  if (handle == nullptr) fail("png", "librsvg cannot read this SVG document");
  double width = 0.0, height = 0.0;
  if (r.size(handle.get(), &width, &height) == 0) fail("png", "the SVG document has no size");
  constexpr double most = 16384.0;  // pixels
  scale = std::min(scale, most / std::max(width, height));
  const RsvgRectangle all{0.0, 0.0, std::ceil(width * scale), std::ceil(height * scale)};
  const Owned surface(r.surface(argb32, static_cast<int>(all.width), static_cast<int>(all.height)), r.destroy_surface);
  const Owned drawing(r.create(surface.get()), r.destroy);
  if (r.render(handle.get(), drawing.get(), &all, nullptr) == 0) fail("png", "librsvg cannot draw this SVG document");
  r.flush(surface.get());
  const unsigned char* pixels = r.data(surface.get());
  if (pixels == nullptr) fail("png", "a picture of {} x {} pixels does not fit into memory", all.width, all.height);

  Image image{.height = static_cast<std::int64_t>(all.height), .width = static_cast<std::int64_t>(all.width), .channels = 3};
  for (std::int64_t y = 0; y < image.height; ++y)
    for (std::int64_t x = 0; x < image.width; ++x) {
      const unsigned char* p = pixels + y * r.stride(surface.get()) + 4 * x;
      for (const int channel : {2, 1, 0}) image.pixels.push_back(static_cast<std::uint8_t>(p[channel] + 255 - p[3]));  // on white
    }
  return encode_png(image);
}

}  // namespace transformer
