// Images by class: a folder for each, whose name is the class.
#include <algorithm>

#include "vision/sources.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;

bool is_image(const fs::path& path) {
  std::string end = path.extension().string();
  std::transform(end.begin(), end.end(), end.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return end == ".png" || end == ".jpg" || end == ".jpeg";
}

std::vector<fs::path> sorted(const fs::path& folder, auto&& wanted) {
  std::vector<fs::path> out;
  std::error_code error;  // of a link that leads nowhere, which is a broken image if it is named like one
  for (const auto& entry : fs::directory_iterator(folder))
    if (!entry.path().filename().string().starts_with('.') && wanted(entry, error)) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

class ImageFolder final : public ImageDataset {
 public:
  explicit ImageFolder(const fs::path& folder) {
    const auto folders = sorted(folder, [](const fs::directory_entry& e, std::error_code& error) { return e.is_directory(error); });
    for (const fs::path& one : folders) {
      const auto files = sorted(
          one, [](const fs::directory_entry& e, std::error_code& error) { return is_image(e.path()) && !e.is_directory(error); });
      if (files.empty()) fail(one.string(), "there are no images of this class: expected .png or .jpg files");
      labels_.insert(labels_.end(), files.size(), std::ssize(classes_));
      classes_.push_back(one.filename().string());
      paths_.insert(paths_.end(), files.begin(), files.end());
    }
    if (classes_.empty()) fail(folder.string(), "there are no folders in it: expected one for each class, with its images");
  }
  Image image(std::int64_t i) const override { return read_image(path(i)); }
  std::string name(std::int64_t i) const override { return path(i).string(); }
  void check(std::int64_t i) const override { check_image_header(path(i)); }
  Extent extent() const override { return {}; }

 private:
  const fs::path& path(std::int64_t i) const { return paths_[static_cast<std::size_t>(i)]; }
  std::vector<fs::path> paths_;
};

}  // namespace

std::shared_ptr<const ImageDataset> open_image_folder(const std::string& given, ImageSplit split) {
  const fs::path folder = given;
  if (!fs::is_directory(folder)) fail(given, "there is no such folder");
  const bool parts = fs::is_directory(folder / "train");
  if (split == ImageSplit::train) return std::make_shared<ImageFolder>(parts ? folder / "train" : folder);
  const std::vector<const char*> names = split == ImageSplit::valid ? std::vector{"valid", "val", "validation"} : std::vector{"test"};
  for (const char* name : names)
    if (parts && fs::is_directory(folder / name)) return std::make_shared<ImageFolder>(folder / name);
  return nullptr;
}

}  // namespace transformer
