#include "transformer/text/tokenizer_pair.h"

#include "text/kinds.h"

namespace transformer {
namespace {
constexpr const char *joint_file = "tokenizer.model", *source_file = "source.model", *target_file = "target.model";
}

bool has_tokenizers(const std::filesystem::path& folder) {
  const auto has = [&](const char* name) { return exists(folder / name); };
  return has(joint_file) || (has(source_file) && has(target_file)) || has("tokenizer.json") || is_marian(folder) ||
      (has("vocab.json") && has("merges.txt")) || has("spiece.model") || has("vocab.txt");
}

TokenizerPair load_tokenizers(const std::filesystem::path& folder) {
  if (!has_tokenizers(folder))
    fail(folder.string(), "there is no tokenizer in this folder: expected {}, or {} and {}, or the files of a Hugging Face tokenizer",
         joint_file, source_file, target_file);
  if (is_marian(folder)) return {load_marian(folder, "source"), load_marian(folder, "target")};
  if (exists(folder / source_file) && exists(folder / target_file) && !exists(folder / joint_file))
    return {load_tokenizer(folder / source_file), load_tokenizer(folder / target_file)};
  const TokenizerPtr both = load_tokenizer(folder);
  return {both, both};
}

void save_tokenizers(const TokenizerPair& pair, const std::filesystem::path& folder) {
  if (pair.joint()) return pair.source->save_into(folder);
  pair.source->save_into(folder, "source");
  pair.target->save_into(folder, "target");
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
