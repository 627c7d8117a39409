#include "transformer/vision/processor.h"

#include <algorithm>
#include <array>
#include <set>

#include "io/shared/json.h"
#include "transformer/io/config.h"

namespace transformer {
namespace {

constexpr std::string_view where = "preprocessor_config.json";

// Keys that do not change the numbers, or hold for all images here: they are read as red, green and blue.
constexpr std::array neutral = {"image_processor_type",
                                "feature_extractor_type",
                                "processor_class",
                                "_processor_class",
                                "do_convert_rgb",
                                "data_format",
                                "input_data_format",
                                "return_tensors",
                                "device",
                                "disable_grouping",
                                "default_to_square",
                                "_valid_processor_keys",
                                "auto_map",
                                "image_seq_length",
                                "model_input_names",
                                "_name_or_path",
                                "backend"};
// Keys for steps that are not done: refused unless they say so.
constexpr std::array off = {"do_pad",           "pad_size",  "do_thumbnail", "do_align_long_axis",
                            "do_reduce_labels", "do_rotate", "offset",       "crop_pct"};

class SettingsReader {
 public:
  explicit SettingsReader(const nlohmann::json& settings) : settings_(settings) {
    if (!settings_.is_object()) fail(where, "expected a JSON object");
  }

  // Null and a key that is not there are the same.
  const nlohmann::json* find(const char* key) {
    known_.emplace(key);
    const auto it = settings_.find(key);
    return it == settings_.end() || it->is_null() ? nullptr : &*it;
  }
  template <class T>
  T get(const char* key, T fallback) {
    if (const nlohmann::json* given = find(key)) detail::read_value(*given, fallback, key);
    return fallback;
  }
  ImageProcessorConfig::Size size(const char* key, ImageProcessorConfig::Size fallback) {
    const nlohmann::json* given = find(key);
    if (given == nullptr) return fallback;
    ImageProcessorConfig::Size s;
    if (given->is_array()) {
      const auto both = get(key, std::vector<std::int64_t>{});
      if (both.size() != 2) fail(where, "{} is {}: expected height and width", key, given->dump());
      s = {both[0], both[1]};
    } else if (given->is_object()) {
      for (const auto& [name, value] : given->items()) {
        std::int64_t* field = name == "height" ? &s.height
            : name == "width"                  ? &s.width
            : name == "shortest_edge"          ? &s.shortest_edge
                                               : nullptr;
        if (field == nullptr) fail(where, "{}.{} is not supported: expected height and width, or shortest_edge", key, name);
        detail::read_value(value, *field, fmt::format("{}.{}", key, name));
      }
    } else {
      s.height = s.width = get(key, std::int64_t{0});
    }
    auto fits = [](std::int64_t n) { return n >= 1 && n <= 4096; };
    if (s.shortest_edge != 0 ? !fits(s.shortest_edge) || s.height != 0 || s.width != 0 : !fits(s.height) || !fits(s.width))
      fail(where, "{} is {}: expected height and width, or shortest_edge, of 1 to 4096", key, given->dump());
    return s;
  }
  std::vector<float> channels(const char* key, std::vector<float> fallback) {
    const nlohmann::json* given = find(key);
    if (given == nullptr) return fallback;
    if (given->is_number()) return std::vector<float>(3, get(key, 0.0F));
    auto values = get(key, fallback);
    if (values.size() != 3 && values.size() != 1)
      fail(where, "{} is {}: expected three numbers, one per channel, or one for grey images", key, given->dump());
    return values;
  }
  void done() {
    for (const char* key : neutral) known_.emplace(key);
    for (const char* key : off)
      if (const nlohmann::json* given = find(key); given != nullptr && *given != false && *given != 0)
        fail(where, "{} is {}: this step is not supported", key, given->dump());
    const std::vector<std::string> known(known_.begin(), known_.end());
    for (const auto& [key, value] : settings_.items())
      if (!known_.contains(key)) fail(where, "unknown key '{}'{}", key, did_you_mean(key, known));
  }

 private:
  const nlohmann::json& settings_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace

ImageProcessor ImageProcessor::load(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / where;
  try {
    return from_json(read_json(path));
  } catch (const Error& e) {
    if (e.where() != where) throw;
    fail(folder.string(), "{}", e.what());
  }
}

ImageProcessor ImageProcessor::from_json(const nlohmann::json& settings) {
  SettingsReader r(settings);
  const std::string type = r.get("image_processor_type", r.get("feature_extractor_type", std::string("ViTImageProcessor")));
  const bool deit = type.starts_with("DeiT");
  const std::array known{"ViTImageProcessor",  "ViTImageProcessorFast",  "ViTFeatureExtractor",
                         "DeiTImageProcessor", "DeiTImageProcessorFast", "DeiTFeatureExtractor"};
  if (std::find(known.begin(), known.end(), type) == known.end())
    fail(where, "the image processor '{}' is not supported: those of ViT, Swin and DeiT are", type);

  ImageProcessorConfig c;
  const ImageProcessorConfig::Size size = r.size("size",
                                                 deit ? ImageProcessorConfig::Size{256, 256} : ImageProcessorConfig::Size{224, 224});
  if (r.get("do_resize", true)) c.resize = size;
  else c.resize.reset();
  const auto filter = r.get("resample", std::int64_t{deit ? 3 : 2});
  if (filter < 0 || filter > 5) fail(where, "resample is {}: expected one of Pillow's filters, 0 to 5", filter);
  c.resample = static_cast<Resample>(filter);
  const ImageProcessorConfig::Size crop = r.size("crop_size", {224, 224});
  if (r.get("do_center_crop", deit)) {
    if (crop.shortest_edge != 0) fail(where, "crop_size has shortest_edge: expected height and width");
    c.crop = crop;
  }
  const double factor = r.get("rescale_factor", 1.0 / 255.0);
  if (!r.get("do_rescale", true)) c.rescale.reset();
  else c.rescale = factor;
  c.normalize = r.get("do_normalize", true);
  c.mean = r.channels("image_mean", c.mean);
  c.deviation = r.channels("image_std", c.deviation);
  if (c.mean.size() != c.deviation.size())
    fail(where, "image_mean has {} numbers, image_std {}: expected one for each channel", c.mean.size(), c.deviation.size());
  for (float d : c.deviation)
    if (c.normalize && d == 0.0F) fail(where, "image_std has a zero: nothing can be divided by it");
  r.done();
  return ImageProcessor(c);
}

nlohmann::json ImageProcessor::to_json() const {
  nlohmann::json out{{"image_processor_type", "ViTImageProcessor"},
                     {"do_resize", config_.resize.has_value()},
                     {"resample", static_cast<int>(config_.resample)},
                     {"do_rescale", config_.rescale.has_value()},
                     {"rescale_factor", config_.rescale.value_or(1.0 / 255.0)},
                     {"do_normalize", config_.normalize},
                     {"image_mean", nlohmann::json::array()},
                     {"image_std", nlohmann::json::array()}};
  for (const float m : config_.mean) out["image_mean"].push_back(detail::from_float("image_mean", m));
  for (const float d : config_.deviation) out["image_std"].push_back(detail::from_float("image_std", d));
  auto size = [&](const ImageProcessorConfig::Size& s) {
    return s.shortest_edge > 0 ? nlohmann::json{{"shortest_edge", s.shortest_edge}}
                               : nlohmann::json{{"height", s.height}, {"width", s.width}};
  };
  if (config_.resize) out["size"] = size(*config_.resize);
  if (config_.crop) out["do_center_crop"] = true, out["crop_size"] = size(*config_.crop);
  return out;
}

ImageProcessor::ImageProcessor(const ImageProcessorConfig& config) : config_(config) {
  for (std::size_t c = 0; c < config_.mean.size(); ++c) {
    const float mean = config_.normalize ? config_.mean[c] : 0.0F, deviation = config_.normalize ? config_.deviation[c] : 1.0F;
    for (int value = 0; value < 256; ++value)
      levels_.push_back((static_cast<float>(value * config_.rescale.value_or(1.0)) - mean) / deviation);
  }
}

std::optional<std::pair<std::int64_t, std::int64_t>> ImageProcessor::size() const {
  if (config_.crop) return std::pair{config_.crop->height, config_.crop->width};
  if (config_.resize && config_.resize->shortest_edge == 0) return std::pair{config_.resize->height, config_.resize->width};
  return {};
}

Image ImageProcessor::shape(const Image& image) const {
  Image out = with_channels(image, channels());
  if (config_.resize) {
    std::int64_t height = config_.resize->height, width = config_.resize->width;
    if (const std::int64_t edge = config_.resize->shortest_edge; edge > 0) {
      const std::int64_t shorter = std::max<std::int64_t>(1, std::min(image.height, image.width));
      height = edge * image.height / shorter;  // rounded down, as the longer side is
      width = edge * image.width / shorter;
    }
    out = resize(out, height, width, config_.resample);
  }
  return config_.crop ? center_crop(out, config_.crop->height, config_.crop->width) : out;
}

void ImageProcessor::normalize(const Image& image, std::span<float> out) const {
  const auto channels = static_cast<std::size_t>(image.channels), pixels = static_cast<std::size_t>(image.height * image.width);
  if (image.channels != this->channels() || out.size() != channels * pixels)
    fail("images", "an image of {} channels, {} numbers: expected {} channels and {} numbers", channels, out.size(), this->channels(),
         channels * pixels);
  for (std::size_t c = 0; c < channels; ++c) {
    const float* levels = levels_.data() + c * 256;
    for (std::size_t i = 0; i < pixels; ++i) out[c * pixels + i] = levels[image.pixels[i * channels + c]];
  }
}

Tensor ImageProcessor::operator()(Context& ctx, const std::vector<Image>& images) const {
  if (images.empty()) fail("images", "none given");
  std::int64_t height = 0, width = 0;
  std::vector<float> values;
  for (const Image& given : images) {
    const Image image = shape(given);
    if (values.empty()) height = image.height, width = image.width;
    if (image.height != height || image.width != width)
      fail("images", "images of {} x {} and {} x {} cannot be one batch: give them one size, or one at a time", height, width, image.height,
           image.width);
    const std::size_t begin = values.size();
    values.resize(begin + image.pixels.size());
    normalize(image, std::span(values).subspan(begin));
  }
  return Tensor::from<float>(ctx, {static_cast<std::int64_t>(images.size()), channels(), height, width}, values);
}

}  // namespace transformer
