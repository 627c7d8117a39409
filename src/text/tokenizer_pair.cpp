#include "transformer/text/tokenizer_pair.h"

namespace transformer {
namespace {
constexpr const char *joint_file = "tokenizer.model", *source_file = "source.model", *target_file = "target.model";
}

bool has_tokenizers(const std::filesystem::path& folder) {
  return exists(folder / joint_file) || (exists(folder / source_file) && exists(folder / target_file));
}

TokenizerPair load_tokenizers(const std::filesystem::path& folder) {
  if (exists(folder / joint_file)) {
    const TokenizerPtr both = load_tokenizer(folder / joint_file);
    return {both, both};
  }
  if (!has_tokenizers(folder))
    fail(folder.string(), "there is no tokenizer in this folder: expected {}, or {} and {}", joint_file, source_file, target_file);
  return {load_tokenizer(folder / source_file), load_tokenizer(folder / target_file)};
}

void save_tokenizers(const TokenizerPair& pair, const std::filesystem::path& folder) {
  if (pair.joint()) return pair.source->save(folder / joint_file);
  pair.source->save(folder / source_file);
  pair.target->save(folder / target_file);
}

std::uint64_t fingerprint(const Tokenizer& tokenizer) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  auto mix = [&](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3ULL; };
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) {
    for (const char c : tokenizer.piece(id)) mix(static_cast<unsigned char>(c));
    mix(0xff);  // never a byte of UTF-8: the border between two pieces
  }
  return hash;
}

}  // namespace transformer
