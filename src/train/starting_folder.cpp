#include "train/starting_folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/hash.h"
#include "io/atomic_file.h"
#include "io/read_file.h"
#include "models/files_beside.h"
#include "transformer/io/checkpoint.h"

namespace transformer {
namespace {

std::string hash_of(const Checkpoint& files) {
  std::vector<std::string> names = files.names();
  std::sort(names.begin(), names.end());  // the same for one file and for several
  Hash hash;
  for (const std::string& name : names) {
    const Tensor t = files.tensor(name);
    hash.text(name);
    for (const std::int64_t n : t.shape()) hash.word(static_cast<std::uint64_t>(n));
    hash.bytes(t.raw(), static_cast<std::size_t>(t.numel()) * size_of(t.dtype()));
    files.file(name).drop(name);
  }
  return fmt::format("{:016x}", hash.finish());
}

}  // namespace

StartingFolder::StartingFolder(const std::filesystem::path& folder) : weights(hash_of(Checkpoint(folder))) {
  for (const std::string& name : files_beside(folder)) files[name] = read_file(folder / name);
}

void StartingFolder::write_files(const std::filesystem::path& folder) const {
  for (const auto& [name, bytes] : files) {
    std::filesystem::create_directories((folder / name).parent_path());
    AtomicFile file(folder / name);
    file.write(bytes);
    file.commit();
  }
}

}  // namespace transformer
