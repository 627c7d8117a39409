// The binary versions of CIFAR-10 and CIFAR-100. An image is its label (CIFAR-100: the coarse one, then the fine one), then 32 x 32
// pixels of red, of green and of blue.
#include <algorithm>
#include <fstream>

#include "io/shared/read_file.h"
#include "vision/sources.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t side = 32, area = side * side;

// The folder itself, or the one that the archive makes in it.
fs::path inside(const std::string& folder) {
  if (!fs::is_directory(folder)) fail(folder, "there is no such folder");
  for (const char* name : {"cifar-10-batches-bin", "cifar-100-binary"})
    if (fs::is_directory(fs::path(folder) / name)) return fs::path(folder) / name;
  return folder;
}

// The names in the file, one per line; numbers where there is no such file.
std::vector<std::string> class_names(const fs::path& path, std::int64_t count) {
  std::vector<std::string> names;
  std::ifstream file(path);
  for (std::string line; std::ssize(names) < count && std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (std::ssize(names) < count) names.clear();
  for (std::int64_t i = std::ssize(names); i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

// data_batch_1.bin up to the last that is there. Error when one is missing between them: a part of the images would be.
std::vector<fs::path> training_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (int i = 1; i <= 5; ++i) files.push_back(folder / fmt::format("data_batch_{}.bin", i));
  while (files.size() > 1 && !fs::exists(files.back())) files.pop_back();
  for (const fs::path& file : files)
    if (files.size() > 1 && !fs::exists(file)) fail(file.string(), "it is not there, but {} is", files.back().filename().string());
  return files;
}

}  // namespace

std::shared_ptr<const ImageDataset> open_cifar(const std::string& given, ImageSplit split) {
  const fs::path folder = inside(given);
  if (split == ImageSplit::valid) return nullptr;
  const bool hundred = fs::exists(folder / "train.bin") || fs::exists(folder / "test.bin");
  std::vector<fs::path> files;
  if (split == ImageSplit::test) files = {folder / (hundred ? "test.bin" : "test_batch.bin")};
  else if (hundred) files = {folder / "train.bin"};
  else files = training_files(folder);
  if (!fs::exists(files.front())) {
    if (split == ImageSplit::test) return nullptr;
    fail(folder.string(), "there is no data_batch_1.bin (CIFAR-10) nor train.bin (CIFAR-100): the binary version is expected");
  }

  const std::size_t labels_of_one = hundred ? 2 : 1, record = labels_of_one + 3 * area;
  const std::int64_t classes = hundred ? 100 : 10;
  std::vector<std::uint8_t> pixels;
  std::vector<std::int64_t> labels;
  for (const fs::path& path : files) {
    const std::string bytes = read_file(path);
    if (bytes.empty() || bytes.size() % record != 0)
      fail(path.string(), "it has {} bytes: expected images of {} bytes each", bytes.size(), record);
    for (std::size_t at = 0; at < bytes.size(); at += record) {
      const auto label = static_cast<std::uint8_t>(bytes[at + labels_of_one - 1]);
      if (label >= classes) fail(path.string(), "image {} has the label {}: expected less than {}", at / record, label, classes);
      labels.push_back(label);
      const char* planes = bytes.data() + at + labels_of_one;
      for (std::int64_t i = 0; i < area; ++i)
        for (std::int64_t c = 0; c < 3; ++c) pixels.push_back(static_cast<std::uint8_t>(planes[c * area + i]));
    }
  }
  const fs::path names = folder / (hundred ? "fine_label_names.txt" : "batches.meta.txt");
  return std::make_shared<ImagesInMemory>(ImageDataset::Extent{side, side, 3}, std::move(pixels), std::move(labels),
                                          class_names(names, classes), true, files.front().string());
}

}  // namespace transformer
