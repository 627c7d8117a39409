#pragma once
// Labelled images, from the files that people have them in.
//
//   auto training = open_images({.idx = "fashion-mnist"}, ImageSplit::train);
//   training->size(), training->label(7), training->classes(), training->image(7)
//
// ImageSet turns them into the size that a model takes and keeps them in memory where they fit.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transformer/io/config.h"
#include "transformer/vision/processor.h"

namespace transformer {

// Where images are: one of the three.
struct ImageSource {
  std::string images = {};
  std::string idx = {};
  std::string cifar = {};
  std::vector<std::string> class_names = {};

  static void visit(auto& self, auto&& field) {
    field("images", self.images,
          "folder with train/CLASS/*.jpg (or PNG, WebP, BMP, GIF), and valid/ and test/ alike where there are any; or with the folders of "
          "the "
          "classes alone");
    field("idx", self.idx, "folder with IDX files, as MNIST has them: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-…; .gz too");
    field("cifar", self.cifar, "folder with the binary version of CIFAR-10 or CIFAR-100: data_batch_1.bin …, or train.bin");
    field("class_names", self.class_names, "names of the classes 0, 1, …: IDX files have none");
  }
};

enum class ImageSplit : std::uint8_t { train, valid, test };
inline EnumNames<ImageSplit> names(ImageSplit) {
  return {{ImageSplit::train, "train"}, {ImageSplit::valid, "valid"}, {ImageSplit::test, "test"}};
}

class ImageDataset {
 public:
  virtual ~ImageDataset() = default;

  std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
  std::int64_t label(std::int64_t i) const { return labels_[static_cast<std::size_t>(i)]; }
  const std::vector<std::string>& classes() const { return classes_; }
  // The classes have numbers alone: names are those of the numbers.
  bool numbered() const { return numbered_; }
  // What is there beside the images and is not used, a sentence each: files of other formats, folders without images.
  const std::vector<std::string>& notes() const { return notes_; }

  virtual Image image(std::int64_t i) const = 0;       // Error names what is wrong with it
  virtual std::string name(std::int64_t i) const = 0;  // for messages: its file, or its place in one
  // Looks at what can be seen without decoding the image: Error names what is wrong with it.
  virtual void check(std::int64_t i) const { static_cast<void>(i); }
  // Of all images; zeros where each has its own.
  struct Extent {
    std::int64_t height = 0, width = 0, channels = 0;
  };
  virtual Extent extent() const = 0;

 protected:
  std::vector<std::int64_t> labels_;
  std::vector<std::string> classes_, notes_;
  bool numbered_ = false;
};

// Null when the source does not have that split, but for the training images: they must be there. Files are checked before memory is
// taken for what they announce; Error names the file and what is wrong with it.
std::shared_ptr<const ImageDataset> open_images(const ImageSource& source, ImageSplit split);

// Images in memory, all of one size: pixels [images, height, width, channels].
std::shared_ptr<const ImageDataset> images_in_memory(ImageDataset::Extent extent, std::vector<std::uint8_t> pixels,
                                                     std::vector<std::int64_t> labels, std::vector<std::string> classes);

struct ImageSetOptions {
  bool skip_broken = false;                        // leaves out images that cannot be read, instead of an Error
  int threads = 1;                                 // to decode with
  std::int64_t memory = std::int64_t{1} << 30;     // bytes: sets that need more are decoded when they are used
  std::vector<std::string> classes = {};           // what the labels count in; empty: the dataset's own
  std::string known_from = "the training images";  // where these classes come from, for messages
};

// A dataset in the size and with the channels that a model takes. What fits into memory is decoded at once, so that broken images are
// known now; of a larger one the headers are looked at.
class ImageSet {
 public:
  // Error for an image of a class that is not among options.classes: it names both.
  ImageSet(std::shared_ptr<const ImageDataset> dataset, const ImageProcessor& processor, const ImageSetOptions& options);

  std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
  std::int64_t label(std::int64_t i) const { return labels_[static_cast<std::size_t>(i)]; }
  Image image(std::int64_t i) const;
  const std::vector<std::string>& notes() const { return notes_; }    // of the dataset
  const std::vector<std::string>& broken() const { return broken_; }  // images that were left out: what is wrong with each
  bool in_memory() const { return dataset_ == nullptr; }
  // Of the labels and the pixels; of what is not in memory, the files' names stand for the pixels.
  std::uint64_t fingerprint() const;

 private:
  std::shared_ptr<const ImageDataset> dataset_;  // null: all is in memory
  ImageProcessor processor_;
  ImageDataset::Extent extent_;
  std::vector<std::int64_t> labels_, index_;  // index_: in the dataset
  std::vector<std::uint8_t> pixels_;          // [images, height, width, channels]
  std::vector<std::string> notes_, broken_;
};

}  // namespace transformer
