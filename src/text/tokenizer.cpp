#include "transformer/text/tokenizer.h"

#include "text/kinds.h"
#include "transformer/text/utf8.h"

namespace transformer {

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, std::int64_t* replaced) const {
  if (is_valid_utf8(text)) return encode_valid(text);
  std::int64_t count = 0;
  const std::string repaired = sanitize_utf8(text, count);
  if (replaced != nullptr) *replaced += count;
  return encode_valid(repaired);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::vector<std::int32_t> plain;
  plain.reserve(ids.size());
  for (const std::int32_t id : ids) {
    check(id);
    if (id != pad() && id != bos() && id != eos()) plain.push_back(id);
  }
  return decode_plain(plain);
}

void Tokenizer::check(std::int32_t id) const {
  if (id < 0 || id >= size()) fail("tokenizer", "there is no token {}: the vocabulary has {}", id, size());
}

std::string listed(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text;
}

TokenizerPtr load_tokenizer(const std::filesystem::path& path) {
  LineReader reader(path.string());  // says what is wrong when there is no such file
  std::string first;
  if (!reader.next(first)) fail(path.string(), "not a tokenizer: the file is empty");
  if (first == whitespace_specials.front()) return load_whitespace(path);
  if (path.extension() == ".txt")
    fail(path.string(), "not the vocabulary of a whitespace tokenizer: its first lines must be {}", listed(whitespace_specials));
  return load_sentencepiece(path);
}

}  // namespace transformer
