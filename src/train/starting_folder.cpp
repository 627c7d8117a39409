#include "train/starting_folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/hash.h"
#include "io/atomic_file.h"
#include "io/read_file.h"
#include "transformer/io/checkpoint.h"

namespace transformer {
namespace {

constexpr const char* copied[] = {"tokenizer.json",
                                  "tokenizer_config.json",
                                  "special_tokens_map.json",
                                  "added_tokens.json",
                                  "vocab.json",
                                  "target_vocab.json",
                                  "vocab.txt",
                                  "merges.txt",
                                  "source.spm",
                                  "target.spm",
                                  "spiece.model",
                                  "sentencepiece.bpe.model",
                                  "tokenizer.model",
                                  "source.model",
                                  "target.model",
                                  "generation_config.json",
                                  "preprocessor_config.json"};

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
  for (const char* name : copied)
    if (std::filesystem::is_regular_file(folder / name)) files[name] = read_file(folder / name);
}

void StartingFolder::write_files(const std::filesystem::path& folder) const {
  for (const auto& [name, bytes] : files) {
    AtomicFile file(folder / name);
    file.write(bytes);
    file.commit();
  }
}

}  // namespace transformer
