// Images by class: a folder for each, whose name is the class.
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>

#include "vision/formats.h"
#include "vision/sources.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;

// What is named like an image shall be one: it is broken otherwise. With other names the content tells.
bool is_image(const fs::directory_entry& entry) {
  std::error_code error;  // of a link that leads nowhere
  if (entry.is_directory(error)) return false;
  std::string end = entry.path().extension().string();
  std::transform(end.begin(), end.end(), end.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  constexpr std::array names{".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".dib", ".gif"};
  if (std::ranges::find(names, end) != names.end()) return true;
  if (!entry.is_regular_file(error)) return false;
  char start[32] = {};
  std::ifstream file(entry.path(), std::ios::binary);
  file.read(start, sizeof(start));
  return image_format({start, static_cast<std::size_t>(file.gcount())}) != nullptr;
}

// What is in a folder, but for hidden files, in the order of the names.
std::vector<fs::directory_entry> entries(const fs::path& folder) {
  std::vector<fs::directory_entry> out;
  for (const auto& entry : fs::directory_iterator(folder))
    if (!entry.path().filename().string().starts_with('.')) out.push_back(entry);
  std::sort(out.begin(), out.end());
  return out;
}

class ImageFolder final : public ImageDataset {
 public:
  explicit ImageFolder(const fs::path& folder) {
    std::vector<std::string> others;
    std::error_code error;
    bool folders = false;
    for (const fs::directory_entry& one : entries(folder)) {
      if (!one.is_directory(error)) continue;
      folders = true;
      const std::string name = one.path().filename().string();
      const std::size_t before = paths_.size();
      for (const fs::directory_entry& file : entries(one.path())) {
        if (is_image(file)) paths_.push_back(file.path());
        else others.push_back(name + "/" + file.path().filename().string());
      }
      if (paths_.size() == before) {
        notes_.push_back(fmt::format("{}: there are no images in it, so this is not a class", one.path().string()));
        continue;
      }
      labels_.insert(labels_.end(), paths_.size() - before, std::ssize(classes_));
      classes_.push_back(name);
    }
    if (!folders) fail(folder.string(), "there are no folders in it: expected one for each class, with its images");
    const std::size_t count = others.size();
    if (count > 5) others.resize(5), others.emplace_back("…");
    const std::string named = fmt::format("{}", fmt::join(others, ", "));
    if (classes_.empty())
      fail(folder.string(), "there are no images in its folders: expected PNG, JPEG, WebP, BMP or GIF files{}{}",
           count > 0 ? ", found " : "", named);
    if (count > 0)
      notes_.push_back(fmt::format("{}: {} left out, not PNG, JPEG, WebP, BMP or GIF: {}", folder.string(),
                                   count == 1 ? "1 file is" : fmt::format("{} files are", count), named));
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
