#include <algorithm>

#include "tokenizers/shared/kinds.h"

namespace transformer {
namespace {

bool is_word_piece(const std::filesystem::path& path) {
  LineReader reader(path.string());
  for (std::string line; reader.next(line);)
    if (line == "[UNK]") return true;
  return false;
}

}  // namespace

std::string listed(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text;
}

bool is_whitespace(const std::filesystem::path& path) {
  std::string first;
  LineReader reader(path.string());  // says what is wrong when there is no such file
  if (!reader.next(first)) fail(path.string(), "not a tokenizer: the file is empty");
  return first == whitespace_specials.front();
}

TokenizerPtr load_tokenizer(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    if (TokenizerPtr found = load_huggingface_folder(path)) return found;
    for (const char* name : {"source.model", "vocab.txt"})
      if (std::filesystem::is_regular_file(path / name)) return load_tokenizer(path / name);
    fail(path.string(),
         "there is no tokenizer in this folder: expected tokenizer.json, vocab.json and merges.txt, tokenizer.model or vocab.txt");
  }
  if (path.extension() == ".json") return load_huggingface_json(path);
  if (path.filename().string().ends_with("merges.txt")) {
    std::string name = path.filename().string();
    return load_huggingface_json(path.parent_path() / name.replace(name.size() - 10, 10, "vocab.json"));
  }
  if (is_whitespace(path)) return load_whitespace(path);
  if (path.extension() != ".txt") return load_sentencepiece(path);
  if (is_word_piece(path)) return load_word_piece(path);
  fail(path.string(), "a vocabulary neither of a whitespace tokenizer (its first lines must be {}) nor of BERT (it has no [UNK])",
       listed(whitespace_specials));
}

}  // namespace transformer
