#include "transformer/vision/dataset.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "core/shared/hash.h"
#include "transformer/core/parallel.h"
#include "vision/sources.h"

namespace transformer {

std::shared_ptr<const ImageDataset> open_images(const ImageSource& source, ImageSplit split) {
  const int given = (source.images.empty() ? 0 : 1) + (source.idx.empty() ? 0 : 1) + (source.cifar.empty() ? 0 : 1);
  if (given != 1)
    fail("images", "{} given: expected one of images (a folder by class), idx and cifar", given == 0 ? "none is" : "several are");
  if (!source.class_names.empty() && source.idx.empty())
    fail("images", "class_names are for IDX files: the others have names of their own");
  try {
    if (!source.idx.empty()) return open_idx(source.idx, split, source.class_names);
    if (!source.cifar.empty()) return open_cifar(source.cifar, split);
    return open_image_folder(source.images, split);
  } catch (const std::filesystem::filesystem_error& e) {
    fail(e.path1().string(), "cannot be read: {}", e.code().message());
  }
}

ImagesInMemory::ImagesInMemory(Extent extent, std::vector<std::uint8_t> pixels, std::vector<std::int64_t> labels,
                               std::vector<std::string> classes, bool numbered, std::string name)
    : extent_(extent), pixels_(std::move(pixels)), name_(std::move(name)) {
  labels_ = std::move(labels);
  classes_ = std::move(classes);
  numbered_ = numbered;
  if (pixels_.size() != labels_.size() * static_cast<std::size_t>(extent.height * extent.width * extent.channels))
    fail(name_, "{} values for {} images of {} x {} x {}", pixels_.size(), labels_.size(), extent.height, extent.width, extent.channels);
  for (const std::int64_t label : labels_)
    if (label < 0 || label >= std::ssize(classes_)) fail(name_, "the label {}: expected less than {}", label, classes_.size());
}

Image ImagesInMemory::image(std::int64_t i) const {
  Image out{.height = extent_.height, .width = extent_.width, .channels = extent_.channels};
  const std::int64_t size = extent_.height * extent_.width * extent_.channels;
  out.pixels.assign(pixels_.begin() + i * size, pixels_.begin() + (i + 1) * size);
  return out;
}

std::string ImagesInMemory::name(std::int64_t i) const { return fmt::format("{}, image {}", name_, i); }

std::shared_ptr<const ImageDataset> images_in_memory(ImageDataset::Extent extent, std::vector<std::uint8_t> pixels,
                                                     std::vector<std::int64_t> labels, std::vector<std::string> classes) {
  return std::make_shared<ImagesInMemory>(extent, std::move(pixels), std::move(labels), std::move(classes), false, "images");
}

namespace {

// Where the dataset's classes are among those that are known; -1: nowhere.
std::vector<std::int64_t> places(const ImageDataset& data, const std::vector<std::string>& known) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < std::ssize(data.classes()); ++i) {
    const auto found = std::find(known.begin(), known.end(), data.classes()[static_cast<std::size_t>(i)]);
    if (data.numbered()) out.push_back(i < std::ssize(known) ? i : -1);
    else out.push_back(found == known.end() ? -1 : found - known.begin());
  }
  return out;
}

ImageDataset::Extent extent_of(const ImageDataset& data, const ImageProcessor& processor) {
  const ImageDataset::Extent all = data.extent();
  if (const auto size = processor.size()) return {size->first, size->second, processor.channels()};
  if (processor.config().resize || all.height == 0)
    fail("images", "the size of the images follows from each one's own: expected a processor that gives all of them one size");
  return {all.height, all.width, processor.channels()};
}

}  // namespace

ImageSet::ImageSet(std::shared_ptr<const ImageDataset> data, const ImageProcessor& processor, const ImageSetOptions& options)
    : dataset_(std::move(data)), processor_(processor), extent_(extent_of(*dataset_, processor)), notes_(dataset_->notes()) {
  const std::int64_t count = dataset_->size();
  const std::vector<std::int64_t> place = places(*dataset_, options.classes.empty() ? dataset_->classes() : options.classes);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = dataset_->label(i);
    if (place[static_cast<std::size_t>(label)] < 0)
      fail(dataset_->name(i), "it is of the class '{}', which {} do not have", dataset_->classes()[static_cast<std::size_t>(label)],
           options.known_from);
  }

  // Everything once: decoded into memory, or looked at. What is wrong with an image is kept until the first of them is known.
  const std::int64_t size = extent_.height * extent_.width * extent_.channels;
  const bool keep = count == 0 || size <= options.memory / count;
  if (keep) pixels_.resize(static_cast<std::size_t>(count * size));
  std::vector<std::optional<Error>> wrong(static_cast<std::size_t>(count));
  std::atomic<bool> broken = false;
  parallel_for(options.threads, count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end && (options.skip_broken || !broken); ++i) {
      try {
        if (keep) std::ranges::copy(processor_.shape(dataset_->image(i)).pixels, pixels_.begin() + i * size);
        else if (options.skip_broken) dataset_->image(i);
        else dataset_->check(i);
      } catch (const Error& e) {
        wrong[static_cast<std::size_t>(i)] = e;
        broken = true;
      }
    }
  });
  for (std::int64_t i = 0; i < count; ++i) {
    if (const auto& error = wrong[static_cast<std::size_t>(i)]) {
      if (!options.skip_broken)
        fail(error->where(), "{}. Repair or remove it, or leave such images out (skip_broken)",
             std::string_view(error->what()).substr(error->where().size() + 2));
      broken_.emplace_back(error->what());
      continue;
    }
    if (keep && !broken_.empty()) std::copy_n(pixels_.begin() + i * size, size, pixels_.begin() + std::ssize(labels_) * size);
    labels_.push_back(place[static_cast<std::size_t>(dataset_->label(i))]);
    index_.push_back(i);
  }
  if (labels_.empty()) fail("images", "no image is left: {} are broken, the first of them {}", broken_.size(), broken_.front());
  if (!keep) return;
  pixels_.resize(labels_.size() * static_cast<std::size_t>(size));
  dataset_.reset();
}

Image ImageSet::image(std::int64_t i) const {
  if (dataset_ != nullptr) return processor_.shape(dataset_->image(index_[static_cast<std::size_t>(i)]));
  Image out{.height = extent_.height, .width = extent_.width, .channels = extent_.channels};
  const std::int64_t size = extent_.height * extent_.width * extent_.channels;
  out.pixels.assign(pixels_.begin() + i * size, pixels_.begin() + (i + 1) * size);
  return out;
}

std::uint64_t ImageSet::fingerprint() const {
  Hash hash;
  hash.bytes(labels_.data(), labels_.size() * sizeof(std::int64_t));
  hash.bytes(pixels_.data(), pixels_.size());
  for (std::int64_t i = 0; dataset_ != nullptr && i < size(); ++i)  // not their folders: data may be moved
    hash.text(std::filesystem::path(dataset_->name(index_[static_cast<std::size_t>(i)])).filename().string());
  return hash.finish();
}

}  // namespace transformer
