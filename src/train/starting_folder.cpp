#include "train/shared/starting_folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/shared/hash.h"
#include "io/shared/atomic_file.h"
#include "io/shared/read_file.h"
#include "models/shared/files_beside.h"
#include "transformer/io/checkpoint.h"

namespace transformer {
namespace {

void add(Hash& hash, const Checkpoint& files) {
  std::vector<std::string> names = files.names();
  std::sort(names.begin(), names.end());  // the same for one file and for several
  for (const std::string& name : names) {
    const Tensor t = files.tensor(name);
    hash.text(name);
    for (const std::int64_t n : t.shape()) hash.word(static_cast<std::uint64_t>(n));
    hash.bytes(t.raw(), static_cast<std::size_t>(t.numel()) * size_of(t.dtype()));
    files.file(name).drop(name);
  }
}

// Of the base, or of the adapter where that has its own.
std::map<std::string, std::string> companions(const ModelFolder& at) {
  std::map<std::string, std::string> files;
  for (const auto& folder : {at.base, at.adapter}) {
    if (folder.empty()) continue;
    for (const std::string& name : files_beside(folder)) files[name] = read_file(folder / name);
  }
  return files;
}

void write(const std::map<std::string, std::string>& files, const std::filesystem::path& folder) {
  for (const auto& [name, bytes] : files) {
    std::filesystem::create_directories((folder / name).parent_path());
    AtomicFile file(folder / name);
    file.write(bytes);
    file.commit();
  }
}

}  // namespace

StartingFolder::StartingFolder(const ModelFolder& at) : base(at.base), files(companions(at)) {
  Hash hash;
  add(hash, Checkpoint(at.base));
  if (!at.adapter.empty()) add(hash, Checkpoint(SafetensorsFile(at.adapter / adapter_weights_file)));
  weights = fmt::format("{:016x}", hash.finish());
}

void StartingFolder::write_files(const std::filesystem::path& folder) const { write(files, folder); }

void write_merged(Context& ctx, const ModelFolder& at, const std::filesystem::path& folder) {
  const std::unique_ptr<Model> model = load_model(ctx, at.base, {.adapter = at.adapter});
  merge_lora(ctx, *model);
  save_model(ctx, *model, folder);
  write(companions(at), folder);
}

}  // namespace transformer
