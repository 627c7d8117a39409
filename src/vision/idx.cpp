// IDX files, the format of MNIST: two zeros, the type (8: bytes), the number of dimensions, their sizes (32 bits, big end first), values.
#include <algorithm>

#include "io/shared/gzip_file.h"
#include "vision/sources.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;

struct Idx {
  std::vector<std::int64_t> sizes;
  std::vector<std::uint8_t> values;
};

Idx read_idx(const fs::path& path, std::size_t rank) {
  const std::string name = path.string();
  GzipFile file(name);
  std::vector<std::uint8_t> bytes;
  auto more = [&](std::size_t count) {  // whether there are so many
    const std::size_t before = bytes.size();
    bytes.resize(before + count);
    std::size_t done = 0;
    while (done < count) {
      const std::size_t read = file.read(bytes.data() + before + done, count - done, fmt::format("after {} bytes", before + done));
      if (read == 0) break;
      done += read;
    }
    bytes.resize(before + done);
    return done == count;
  };
  if (!more(4) || bytes[0] != 0 || bytes[1] != 0 || bytes[2] != 8 || bytes[3] != rank)
    fail(name, "not an IDX file of bytes with {} dimensions: expected it to begin with 0 0 8 {}", rank, rank);
  if (!more(4 * rank)) fail(name, "the file ends within its header");
  Idx out;
  // A byte of gzip gives at most 1032: what is announced beyond that cannot be there.
  const auto most = static_cast<std::int64_t>(fs::file_size(path)) * 1032;
  std::int64_t count = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    std::int64_t size = 0;
    for (std::size_t j = 0; j < 4; ++j) size = size << 8 | bytes[4 + 4 * i + j];
    out.sizes.push_back(size);
    if (size == 0 || size > most / count)
      fail(name, "size {} of its header is {}: expected 1 or more, and not more than can be in the file", i + 1, size);
    count *= size;
  }
  bytes.clear();
  constexpr std::int64_t block = std::int64_t{1} << 24;  // memory is taken as the values come
  for (std::int64_t done = 0; done < count; done += block)
    if (!more(static_cast<std::size_t>(std::min(block, count - done))))
      fail(name, "the file is cut off: its header announces {} values, {} are there", count, bytes.size());
  std::uint8_t rest = 0;
  if (file.read(&rest, 1, "at its end") != 0) fail(name, "the file goes on behind the {} values that its header announces", count);
  out.values = std::move(bytes);
  return out;
}

// The one file of the folder whose name ends so; also with .gz. Empty: none.
fs::path find(const fs::path& folder, const std::vector<std::string>& ends) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (name.ends_with(".gz")) name.resize(name.size() - 3);
    if (std::any_of(ends.begin(), ends.end(), [&](const std::string& end) { return name.ends_with(end); })) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  if (found.size() > 1)
    fail(folder.string(), "it has {} and {}: expected one of them", found[0].filename().string(), found[1].filename().string());
  return found.empty() ? fs::path() : found.front();
}

}  // namespace

std::shared_ptr<const ImageDataset> open_idx(const std::string& folder, ImageSplit split, const std::vector<std::string>& class_names) {
  if (!fs::is_directory(folder)) fail(folder, "there is no such folder");
  if (split == ImageSplit::valid) return nullptr;
  const std::vector<std::string> starts = split == ImageSplit::train ? std::vector<std::string>{"train"}
                                                                     : std::vector<std::string>{"t10k", "test"};
  auto names = [&](const std::string& what) {
    std::vector<std::string> out;
    for (const std::string& start : starts)
      for (const char separator : {'-', '.'}) out.push_back(start + "-" + what.substr(0, 6) + separator + what.substr(7));
    return out;
  };
  const fs::path image_file = find(folder, names("images-idx3-ubyte")), label_file = find(folder, names("labels-idx1-ubyte"));
  if (image_file.empty() && label_file.empty() && split == ImageSplit::test) return nullptr;
  if (image_file.empty() || label_file.empty())
    fail(folder, "there is no {}-{}-idx{}-ubyte, plain or with .gz", starts.front(), image_file.empty() ? "images" : "labels",
         image_file.empty() ? 3 : 1);
  const Idx labels = read_idx(label_file, 1);
  Idx images = read_idx(image_file, 3);
  if (labels.sizes[0] != images.sizes[0])
    fail(label_file.string(), "it has {} labels, but {} has {} images", labels.sizes[0], image_file.filename().string(), images.sizes[0]);
  const std::int64_t count = *std::max_element(labels.values.begin(), labels.values.end()) + std::int64_t{1};
  std::vector<std::string> classes = class_names;
  if (!classes.empty() && std::ssize(classes) < count)
    fail(label_file.string(), "it has the class {}, but there are {} class_names: expected {} or more", count - 1, classes.size(), count);
  for (std::int64_t i = std::ssize(classes); i < count; ++i) classes.push_back(std::to_string(i));
  return std::make_shared<ImagesInMemory>(ImageDataset::Extent{images.sizes[1], images.sizes[2], 1}, std::move(images.values),
                                          std::vector<std::int64_t>(labels.values.begin(), labels.values.end()), std::move(classes), true,
                                          image_file.string());
}

}  // namespace transformer
