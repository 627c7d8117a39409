#include "transformer/tokenizers/tokenizer_pair.h"

#include <algorithm>

#include "tokenizers/languages.h"
#include "tokenizers/shared/kinds.h"

namespace transformer {
namespace {

constexpr const char *joint_file = "tokenizer.model", *source_file = "source.model", *target_file = "target.model";

// The language of one side: what the user said, or else the folder.
std::string chosen(const std::filesystem::path& folder, const LanguageTokens& known, const char* flag, const std::string& given,
                   const std::string& usual) {
  if (!given.empty()) return given;
  if (known.tokens.contains(usual)) return usual;
  fail(flag, "{} is a model for {} languages: say which, such as {} {}", folder.string(), known.tokens.size(), flag,
       known.tokens.begin()->first);
}

}  // namespace

TokenFrame frame_of(const Tokenizer& tokenizer) {
  // Around a text that has tokens, whichever the vocabulary knows.
  for (const char* text : {"a", "1", ".", "\uAC00", " "}) {
    const Encoding all = tokenizer.tokenize(text);
    const auto first = std::find(all.added.begin(), all.added.end(), 0) - all.added.begin();
    if (first == std::ssize(all.added)) continue;
    const auto last = std::find(all.added.rbegin(), all.added.rend(), 0) - all.added.rbegin();
    return {.before = {all.ids.begin(), all.ids.begin() + first}, .behind = {all.ids.end() - last, all.ids.end()}};
  }
  return {.before = {}, .behind = tokenizer.tokenize("").ids};
}

bool has_tokenizers(const std::filesystem::path& folder) {
  const auto has = [&](const char* name) { return exists(folder / name); };
  return has(joint_file) || (has(source_file) && has(target_file)) || has("tokenizer.json") || is_marian(folder) ||
      (has("vocab.json") && has("merges.txt")) || has("spiece.model") || has("sentencepiece.bpe.model") || has("vocab.txt");
}

TokenizerPair load_tokenizers(const std::filesystem::path& folder) {
  if (!has_tokenizers(folder))
    fail(folder.string(), "there is no tokenizer in this folder: expected {}, or {} and {}, or the files of a Hugging Face tokenizer",
         joint_file, source_file, target_file);
  if (is_marian(folder)) {
    const TokenizerPtr source = load_marian(folder, "source");
    return {source, is_joint_marian(folder) ? source : load_marian(folder, "target")};
  }
  if (exists(folder / source_file) && exists(folder / target_file) && !exists(folder / joint_file))
    return {load_tokenizer(folder / source_file), load_tokenizer(folder / target_file)};
  const TokenizerPtr both = load_tokenizer(folder);
  return {both, both};
}

TokenizerPair load_tokenizers(const std::filesystem::path& folder, const Languages& languages) {
  TokenizerPair pair = load_tokenizers(folder);
  const Pipeline* parts = pipeline_of(*pair.source);
  if (parts == nullptr || !parts->languages) {
    for (const auto& [flag, given] : {std::pair{"--source-lang", languages.source_lang}, {"--target-lang", languages.target_lang}})
      if (!given.empty()) fail(flag, "{} is not a model for many languages: leave {} out", folder.string(), flag);
    return pair;
  }
  const LanguageTokens& known = *parts->languages;
  std::string usual = known.target;
  for (const auto& [language, token] : known.tokens)
    if (usual.empty() && languages.usual_target >= 0 && id_in(*parts, token) == languages.usual_target) usual = language;
  const std::string source = chosen(folder, known, "--source-lang", languages.source_lang, known.source),
                    target = chosen(folder, known, "--target-lang", languages.target_lang, usual);
  pair = {in_language(pair.source, source, "--source-lang"), in_language(pair.target, target, "--target-lang")};
  pair.language = id_in(*parts, known.tokens.at(target));
  pair.language_alone = !known.first;
  return pair;
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
