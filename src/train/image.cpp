#include "transformer/train/image.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/shared/share_out.h"
#include "generate/shared/loop.h"
#include "io/shared/json.h"
#include "io/shared/prefetch.h"
#include "models/shared/purpose.h"
#include "train/batch_size.h"
#include "train/image_model.h"
#include "train/shared/starting_folder.h"
#include "train/shares.h"
#include "transformer/autograd/autograd.h"
#include "transformer/core/setting_error.h"
#include "transformer/core/shuffle.h"
#include "transformer/ops/cross_entropy.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Uses of the random numbers of an epoch; 0 is its order.
constexpr std::uint32_t for_augmentation = 1, for_mixing = 2, for_split = 3;

void check_settings(const ImageSettings& settings) {
  const ImageConfig& c = settings.images;
  check(settings.augmentation);
  auto in = [](const char* name, double value, double least, double most) {
    if (!(value >= least && value <= most)) wrong_setting("train image", name, "is {}: expected {} to {}", value, least, most);
  };
  in("batch_size", static_cast<double>(c.batch_size), 0, 1 << 20);
  in("eval_batch_size", static_cast<double>(c.eval_batch_size), 1, 1 << 20);
  in("valid_split", c.valid_split, 0.0, 0.9);
  in("label_smoothing", c.label_smoothing, 0.0, 1.0);
  in("mixup", c.mixup, 0.0, 4.0);
  in("cutmix", c.cutmix, 0.0, 4.0);
  if (c.mean.size() != c.std.size())
    wrong_setting("train image", "mean", "has {} numbers, `std` {}: expected both for each channel", c.mean.size(), c.std.size());
  for (const float s : c.std) in("std", s, 1e-6, 1e6);
}

// Pairs of images of a batch, the first and the last, the second and the last but one …, exchange what `share` leaves of them: of every
// pixel (mixup), or a rectangle (CutMix), whose middle and sides are shares of the image's.
struct Mixture {
  double share = 1.0;
  bool cut = false;
  double y = 0.0, x = 0.0;

  struct Rectangle {
    std::int64_t top, left, bottom, right;
  };
  Rectangle rectangle(std::int64_t height, std::int64_t width) const {
    const double side = std::sqrt(1.0 - share) / 2.0;
    auto at = [](double place, std::int64_t n) { return std::clamp<std::int64_t>(std::lround(place * static_cast<double>(n)), 0, n); };
    return {at(y - side, height), at(x - side, width), at(y + side, height), at(x + side, width)};
  }
  float label_share(std::int64_t height, std::int64_t width) const {  // of an image's own label
    if (!cut) return static_cast<float>(share);
    const auto [top, left, bottom, right] = rectangle(height, width);
    return 1.0F - static_cast<float>((bottom - top) * (right - left)) / static_cast<float>(height * width);
  }
};

Mixture draw_mixture(const ImageConfig& c, Draws draws) {
  const bool cut = c.cutmix > 0.0F && (c.mixup == 0.0F || draws.uniform() < 0.5F);
  const double share = draw_beta(cut ? c.cutmix : c.mixup, draws), y = draws.uniform(), x = draws.uniform();
  return {share, cut, y, x};
}

// pixels [images, channels, height, width]: all of a batch, of which only those from `begin` to `end` are wanted.
void mix(HostTensor& pixels, const Mixture& m, std::int64_t begin, std::int64_t end) {
  const std::int64_t images = pixels.shape[0], height = pixels.shape[2], width = pixels.shape[3], rows = pixels.shape[1] * height;
  const auto [top, left, bottom, right] = m.rectangle(height, width);
  const auto share = static_cast<float>(m.share);
  const std::vector<float>& all = std::get<std::vector<float>>(pixels.values);
  std::vector<float> mixed(all.begin() + begin * rows * width, all.begin() + end * rows * width);
  for (std::int64_t i = begin; i < end; ++i) {
    if (i == images - 1 - i) continue;  // it is its own partner
    float* a = mixed.data() + (i - begin) * rows * width;
    const float* b = all.data() + (images - 1 - i) * rows * width;
    for (std::int64_t k = 0; !m.cut && k < rows * width; ++k) a[k] = share * a[k] + (1.0F - share) * b[k];
    for (std::int64_t row = 0; m.cut && row < rows; ++row)
      if (row % height >= top && row % height < bottom) std::copy(b + row * width + left, b + row * width + right, a + row * width + left);
  }
  pixels.values = std::move(mixed);
  pixels.shape = {end - begin, pixels.shape[1], height, width};
}

// pixel_values of images that have their shape: [images, channels, height, width]
HostTensor pixels_of(const std::vector<Image>& images, const ImageProcessor& processor) {
  const Image& first = images.front();
  const std::size_t size = first.pixels.size();
  std::vector<float> values(images.size() * size);
  for (std::size_t i = 0; i < images.size(); ++i) processor.normalize(images[i], std::span(values).subspan(i * size, size));
  return {.shape = {std::ssize(images), first.channels, first.height, first.width}, .values = std::move(values)};
}

// A batch beside pixel_values and labels may have: the labels of the images that its own are mixed with and the share of their own; the
// images as the teacher takes them.
constexpr const char *partner_labels = "partner_labels", *own_share = "own_share", *teacher_pixels = "teacher_pixel_values";

HostTensor labels_of(std::vector<std::int64_t> labels) { return {.shape = {std::ssize(labels)}, .values = std::move(labels)}; }

}  // namespace

struct ImageTask::Teacher {
  std::unique_ptr<Model> model;
  ImageProcessor processor;
  std::string weights;  // a hash of them

  // The most probable class of each image.
  Tensor answers(Context& ctx, const Tensor& pixels) const {
    const Inference inference(ctx);
    const Tensor logits = cast(ctx, model->run(ctx, {{"pixel_values", pixels}}).at("logits"), DType::float32);
    const std::vector<float> values = logits.to_vector<float>();
    std::vector<std::int64_t> best;
    for (auto row = values.begin(); row != values.end(); row += logits.cols())
      best.push_back(std::max_element(row, row + logits.cols()) - row);
    return Tensor::from<std::int64_t>(ctx, {std::ssize(best)}, best);
  }
};

ImageTask::~ImageTask() = default;

ImageTask::ImageTask(Context& ctx, const ImageSettings& settings, const ImageModelConfig& model, const std::optional<fs::path>& resumed)
    : ModelTask(ctx, "train image"), settings_(settings) {
  check_settings(settings_);
  if (!settings_.images.teacher.empty() && model.arch != ImageArch::deit)
    wrong_setting("train image", "teacher", "is given, but `arch` is vit: deit learns from one");
  check_fresh(resumed);
  dataset_ = open_images(settings_.source, ImageSplit::train);
  const ImageDataset::Extent images = dataset_->extent();
  const ImageModelConfig m = resolved(model, images);
  const std::int64_t height = m.image_size > 0 ? m.image_size : images.height, width = m.image_size > 0 ? m.image_size : images.width;
  const std::vector<float> unknown(static_cast<std::size_t>(m.channels), 0.5F);
  if (!settings_.images.mean.empty() && std::ssize(settings_.images.mean) != m.channels)
    wrong_setting("train image", "mean", "and `std` have {} numbers: expected one for each of {} channels", settings_.images.mean.size(),
                  m.channels);
  const json config = image_model_json(m, height, width, dataset_->classes(), !settings_.images.teacher.empty());
  static_cast<void>(make_model(config));  // says what is wrong with the settings before images are read
  read(ImageProcessor({.resize = ImageProcessorConfig::Size{height, width}, .mean = unknown, .deviation = unknown}));
  set_normalization();
  build_model(config);
  open_teacher();
}

ImageTask::ImageTask(Context& ctx, const ImageSettings& settings, const ImageFineTuning& start)
    : ModelTask(ctx, "train image"), settings_(settings) {
  check_settings(settings_);
  if (!settings_.images.mean.empty())
    wrong_setting("train image", "mean", "and `std` are given, but a model that is trained further keeps its own: leave them out");
  dataset_ = open_images(settings_.source, ImageSplit::train);
  const bool teacher = !settings_.images.teacher.empty();
  open_model(
      start.from, [&](const json& config) { return changed_image_model(config, start, dataset_->classes(), teacher); },
      [&](const Model& model) {
    if (model.purpose() != Purpose::image_labels) return "does not classify images: expected a ViT, DeiT or Swin model";
    return teacher && !has_teacher_head(model.config()) ? "cannot learn from a teacher: expected a DeiT model" : "";
      },
      start.lora);
  const ImageProcessor processor = ImageProcessor::load(start.from);
  const auto [height, width] = image_size_of(model().config());
  if (const auto size = processor.size(); !size || size->first != height || size->second != width)
    fail(start.from, "its preprocessor_config.json does not give images of {} x {}, which its config.json says the model takes", height,
         width);
  read(processor);
  processor_ = processor;
  open_teacher();
}

void ImageTask::read(const ImageProcessor& shape) {
  const ImageConfig& c = settings_.images;
  classes_ = dataset_->classes();
  const bool wanted = c.valid == ImageValidation::automatic;
  auto valid = wanted ? open_images(settings_.source, ImageSplit::valid) : nullptr;
  auto test = open_images(settings_.source, ImageSplit::test);
  if (c.valid == ImageValidation::test && test == nullptr) wrong_setting("train image", "valid", "is test, but there are no test images");
  ImageSetOptions options{.skip_broken = c.skip_broken, .threads = context().threads(), .classes = classes_};
  auto all = [&](std::shared_ptr<const ImageDataset> data) {
    Part part{.set = std::make_shared<const ImageSet>(std::move(data), shape, options)};
    part.places.resize(static_cast<std::size_t>(part.set->size()));
    std::iota(part.places.begin(), part.places.end(), std::int64_t{0});
    return part;
  };
  training_ = all(std::exchange(dataset_, nullptr));
  if (valid) validation_ = all(std::move(valid));
  if (test) test_ = all(std::move(test));
  if (c.valid == ImageValidation::test) validation_ = test_;

  std::vector<std::vector<std::int64_t>> of_class(classes_.size());
  for (const std::int64_t i : training_.places) of_class[static_cast<std::size_t>(training_.set->label(i))].push_back(i);
  if (std::count_if(of_class.begin(), of_class.end(), [](const auto& some) { return !some.empty(); }) < 2)
    fail("train image", "all training images are of one class: there is nothing to learn");
  for (const auto& [part, what] : {std::pair{&validation_, "validation"}, std::pair{&test_, "test"}})
    for (const std::int64_t i : part->places)
      if (const auto label = static_cast<std::size_t>(part->set->label(i)); of_class[label].empty())
        fail("train image", "the class '{}' is among the {} images (image {}), but no training image is of it", classes_[label], what, i);

  // A part of each class, so that none is in the validation alone.
  if (c.valid == ImageValidation::split || (wanted && validation_.set == nullptr)) {
    validation_.set = training_.set;
    training_.places.clear();
    for (auto& some : of_class) {
      shuffle(some, epoch_stream(seed(), 0, for_split));
      const auto count = std::min(std::ssize(some) - 1, std::lround(c.valid_split * static_cast<double>(some.size())));
      const auto middle = some.begin() + std::max<std::int64_t>(0, count);
      validation_.places.insert(validation_.places.end(), some.begin(), middle);
      training_.places.insert(training_.places.end(), middle, some.end());
    }
    std::sort(validation_.places.begin(), validation_.places.end());
    std::sort(training_.places.begin(), training_.places.end());
  }
  if (c.batch_size == 0) settings_.images.batch_size = batch_for(std::ssize(training_.places), ImageConfig::usual_batch_size, 8);
}

// Mean and deviation of the training images, channel by channel, from exact counts; of a set that is not in memory, of some of them.
void ImageTask::set_normalization() {
  const ImageConfig& c = settings_.images;
  const Image first = training_.set->image(training_.places.front());
  const auto channels = static_cast<std::size_t>(first.channels);
  ImageProcessorConfig config{.resize = ImageProcessorConfig::Size{first.height, first.width}, .mean = c.mean, .deviation = c.std};
  if (c.mean.empty()) {
    std::vector<std::int64_t> counts(channels * 256);
    const std::size_t every = training_.set->in_memory() ? 1 : std::max<std::size_t>(1, training_.places.size() / 5000);
    for (std::size_t i = 0; i < training_.places.size(); i += every) {
      const Image image = training_.set->image(training_.places[i]);
      for (std::size_t j = 0; j < image.pixels.size(); ++j) ++counts[j % channels * 256 + image.pixels[j]];
    }
    auto rounded = [](double v) { return static_cast<float>(std::round(v * 1e4) / 1e4); };
    for (std::size_t channel = 0; channel < channels; ++channel) {
      double n = 0.0, sum = 0.0, squares = 0.0;
      for (std::size_t v = 0; v < 256; ++v) {
        const double count = static_cast<double>(counts[channel * 256 + v]), value = static_cast<double>(v) / 255.0;
        n += count, sum += count * value, squares += count * value * value;
      }
      const double mean = sum / n, deviation = std::sqrt(std::max(0.0, squares / n - mean * mean));
      config.mean.push_back(rounded(mean));
      config.deviation.push_back(deviation < 1e-3 ? 1.0F : rounded(deviation));
    }
  }
  processor_ = ImageProcessor(config);
}

void ImageTask::open_teacher() {
  const std::string& folder = settings_.images.teacher;
  if (folder.empty()) return;
  auto teacher = std::make_unique<Teacher>();
  teacher->model = load_model(context(), folder, {.dtype = context().precision()});
  if (teacher->model->purpose() != Purpose::image_labels)
    fail(folder, "{} cannot be a teacher: {}", architecture_of(*teacher->model), describe(teacher->model->purpose()));
  const json &theirs = teacher->model->config(), &ours = model().config();
  if (Settings(theirs).labels() != std::ssize(classes_))
    fail(folder, "the teacher knows {} classes, the images have {}", Settings(theirs).labels(), classes_.size());
  if (theirs.contains("id2label") && theirs.at("id2label") != ours.at("id2label"))
    fail(folder, "the teacher's classes (id2label) are others than those of the images");
  teacher->processor = ImageProcessor::load(folder);
  teacher->weights = StartingFolder(model_folder(folder)).weights;
  teacher_ = std::move(teacher);
}

std::vector<const ImageSet*> ImageTask::sets() const {
  std::vector<const ImageSet*> out;
  for (const Part* part : {&training_, &validation_, &test_})
    if (part->set && std::find(out.begin(), out.end(), part->set.get()) == out.end()) out.push_back(part->set.get());
  return out;
}

json ImageTask::identity() const {
  json out = model_identity();
  const ImageConfig& c = settings_.images;
  out["images"] = {{"training", training_images()},
                   {"fingerprint", hex(training_.set->fingerprint())},
                   {"validation", validation_images()},
                   {"processor", processor_.to_json()},
                   {"batch_size", c.batch_size}};
  if (validation_.set && validation_.set != training_.set) out["images"]["validation_fingerprint"] = hex(validation_.set->fingerprint());
  out["augmentation"] = to_json(settings_.augmentation);
  const json all = to_json(c);
  for (const char* key : {"label_smoothing", "mixup", "cutmix"}) out["augmentation"][key] = all.at(key);
  if (teacher_) out["teacher"] = {{"weights", teacher_->weights}};
  return out;
}

json ImageTask::evaluation() const {
  return test_.set ? json{{"test_images", test_images()}, {"test_fingerprint", hex(test_.set->fingerprint())}} : json::object();
}

std::int64_t ImageTask::plan(std::int64_t epoch) {
  epoch_ = epoch;
  order_ = training_.places;
  shuffle(order_, epoch_stream(seed(), epoch));
  return (std::ssize(order_) + settings_.images.batch_size - 1) / settings_.images.batch_size;
}

Batch ImageTask::prepare(std::int64_t index, const Share& share) const {
  const ImageConfig& c = settings_.images;
  const std::int64_t begin = index * c.batch_size, count = std::min(c.batch_size, std::ssize(order_) - begin);
  const bool mixing = c.mixup > 0.0F || c.cutmix > 0.0F;
  const SampleRange part = range_of(share, count), read = mixing ? SampleRange{0, count} : part;  // an image's partner may be anywhere
  if (part.size() == 0) return {};
  std::vector<Image> images;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = begin + read.begin; i < begin + read.end; ++i) {
    const std::int64_t place = order_[static_cast<std::size_t>(i)];
    images.push_back(
        augment(training_.set->image(place), settings_.augmentation, Draws(epoch_stream(seed(), epoch_, for_augmentation), place)));
    labels.push_back(training_.set->label(place));
  }
  HostTensors batch{{"pixel_values", pixels_of(images, processor_)}};
  if (teacher_) {
    for (Image& image : images) image = teacher_->processor.shape(image);
    batch[teacher_pixels] = pixels_of(images, teacher_->processor);
  }
  if (mixing) {
    const Shape size = batch["pixel_values"].shape;
    const Mixture mixture = draw_mixture(c, Draws(epoch_stream(seed(), epoch_, for_mixing), index));
    for (auto& [name, tensor] : batch) mix(tensor, mixture, part.begin, part.end);
    batch[own_share] = {.shape = {1}, .values = std::vector{mixture.label_share(size[2], size[3])}};
    batch[partner_labels] = labels_of({labels.rbegin() + part.begin, labels.rbegin() + part.end});
    labels = {labels.begin() + part.begin, labels.begin() + part.end};
  }
  batch["labels"] = labels_of(std::move(labels));
  return {.content = std::move(batch), .targets = part.size(), .tokens = part.size()};
}

// share · CE(logits, labels) + (1 - share) · CE(logits, partners); with a teacher the mean of that, for the first token, and of the
// cross-entropy with the teacher's answers, for the second.
Tensor ImageTask::loss(Context& ctx, const Batch& prepared) const {
  const NamedTensors batch = to_tensors(ctx, *std::any_cast<HostTensors>(&prepared.content));
  const NamedTensors out = model().run(ctx, {{"pixel_values", batch.at("pixel_values")}});
  const Tensor& logits = out.at(teacher_ ? "cls_logits" : "logits");
  const CrossEntropyOptions smoothed{.label_smoothing = settings_.images.label_smoothing};
  Tensor loss = cross_entropy(ctx, logits, batch.at("labels"), smoothed);
  if (batch.contains(partner_labels)) {
    const float share = batch.at(own_share).item();
    const Tensor other = cross_entropy(ctx, logits, batch.at(partner_labels), smoothed);
    loss = add(ctx, scale(ctx, loss, share), scale(ctx, other, 1.0F - share));
  }
  if (!teacher_) return loss;
  const Tensor distilled = cross_entropy(ctx, out.at("distillation_logits"), teacher_->answers(ctx, batch.at(teacher_pixels)));
  return scale(ctx, add(ctx, loss, distilled), 0.5F);
}

ImageScores score_images(Context& ctx, const Model& model, const ImageProcessor& processor, const ImageSet& images,
                         std::span<const std::int64_t> places, std::int64_t batch_size) {
  const NoGradients no_gradients(ctx);
  const std::int64_t count = std::ssize(places), batches = (count + batch_size - 1) / batch_size;
  const std::int64_t rank = ctx.communicator().rank(), step = ctx.communicator().size();
  auto slice_of = [&](std::int64_t i) {
    return places.subspan(static_cast<std::size_t>(i * batch_size), static_cast<std::size_t>(std::min(batch_size, count - i * batch_size)));
  };
  Prefetcher<HostTensors> prefetched(
      [&](std::int64_t i) {
    std::vector<Image> some;
    for (const std::int64_t place : slice_of(rank + i * step)) some.push_back(images.image(place));
    return HostTensors{{"pixel_values", pixels_of(some, processor)}};
      },
      0, (batches - rank + step - 1) / step, 2);
  ImageScores all{.images = count};
  const auto measure = [&](std::int64_t i) {
    std::vector<double> of_images;  // loss, right, among the first five
    const Tensor logits = cast(ctx, model.run(ctx, to_tensors(ctx, *prefetched.next())).at("logits"), DType::float32);
    const std::vector<float> values = logits.to_vector<float>();
    auto row = values.begin();
    for (const std::int64_t place : slice_of(i)) {
      const float right = row[images.label(place)], largest = *std::max_element(row, row + logits.cols());
      double sum = 0.0;
      std::int64_t better = 0, equal = 0;  // of equal ones the first counts
      for (std::int64_t k = 0; k < logits.cols(); ++k) {
        sum += std::exp(static_cast<double>(row[k] - largest));
        better += row[k] <= right ? 0 : 1;  // what is not a number is never right
        equal += row[k] == right && k < images.label(place) ? 1 : 0;
      }
      of_images.push_back(std::log(sum) + static_cast<double>(largest - right));
      of_images.push_back(better + equal == 0 ? 1.0 : 0.0);
      of_images.push_back(better + equal < 5 ? 1.0 : 0.0);
      row += logits.cols();
    }
    return of_images;
  };
  share_out<double>(ctx, batches, measure, [&](std::int64_t, const std::vector<double>& of_images) {
    for (std::size_t i = 0; i < of_images.size(); i += 3)
      all.loss += of_images[i], all.accuracy += of_images[i + 1], all.top5 += of_images[i + 2];
  });
  for (double* value : {&all.loss, &all.accuracy, &all.top5}) *value /= static_cast<double>(std::max<std::int64_t>(1, count));
  return all;
}

Metrics ImageTask::measure(Context& ctx, const Part& part) {
  if (part.places.empty()) return {};
  const ImageScores s = score_images(ctx, model(), processor_, *part.set, part.places, settings_.images.eval_batch_size);
  Metrics out{{"loss", s.loss}, {"accuracy", s.accuracy}};
  if (classes_.size() > 10) out.emplace_back("top5", s.top5);
  return out;
}

std::vector<std::string> ImageTask::metrics() const {
  if (validation_.places.empty()) return {};
  std::vector<std::string> names{"loss", "accuracy"};
  if (classes_.size() > 10) names.emplace_back("top5");
  return names;
}

void ImageTask::save_beside(const fs::path& folder) const { write_json(folder / "preprocessor_config.json", processor_.to_json()); }

}  // namespace transformer
