#include "transformer/tokenizers/tokenizer.h"

#include <algorithm>

#include "io/shared/utf8.h"
#include "tokenizers/post_processors.h"

namespace transformer {
namespace {

// Text that has been repaired, and where the repaired places were.
class Repaired {
 public:
  explicit Repaired(std::string_view text) {
    while (true) {
      const std::size_t valid = valid_utf8_prefix(text);
      text_.append(text.substr(0, valid));
      from_ += static_cast<std::int64_t>(valid);
      text.remove_prefix(valid);
      if (text.empty()) break;
      const std::size_t bytes = ill_formed_prefix(text);
      places_.push_back({static_cast<std::int64_t>(text_.size()), from_});
      text_.append("\uFFFD");
      from_ += static_cast<std::int64_t>(bytes);
      places_.push_back({static_cast<std::int64_t>(text_.size()), from_});
      text.remove_prefix(bytes);
    }
  }

  const std::string& text() const { return text_; }
  std::int64_t original(std::int64_t at) const {  // places are borders of characters
    const auto behind = std::upper_bound(places_.begin(), places_.end(), at, [](std::int64_t a, const Place& p) { return a < p.repaired; });
    return behind == places_.begin() ? at : at - std::prev(behind)->repaired + std::prev(behind)->original;
  }

 private:
  struct Place {
    std::int64_t repaired, original;
  };
  std::string text_;
  std::vector<Place> places_;
  std::int64_t from_ = 0;
};

}  // namespace

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, std::int64_t* replaced) const {
  if (is_valid_utf8(text)) return encode_valid(text);
  std::int64_t count = 0;
  const std::string repaired = sanitize_utf8(text, count);
  if (replaced != nullptr) *replaced += count;
  return encode_valid(repaired);
}

Encoding Tokenizer::tokenize(std::string_view text, bool special_tokens) const { return tokenize_texts({&text, 1}, special_tokens); }

Encoding Tokenizer::tokenize_pair(std::string_view first, std::string_view second, bool special_tokens) const {
  const std::string_view texts[] = {first, second};
  return tokenize_texts(texts, special_tokens);
}

Encoding Tokenizer::tokenize_texts(std::span<const std::string_view> texts, bool special_tokens) const {
  std::vector<Encoding> encodings;
  for (const std::string_view text : texts) {
    if (is_valid_utf8(text)) {
      encodings.push_back(tokenize_valid(text));
      continue;
    }
    const Repaired repaired(text);
    encodings.push_back(tokenize_valid(repaired.text()));
    for (TokenPlace& place : encodings.back().places) place = {repaired.original(place.begin), repaired.original(place.end)};
  }
  return surround(std::move(encodings), texts, special_tokens);
}

Encoding Tokenizer::surround(std::vector<Encoding> texts, std::span<const std::string_view>, bool) const {
  Encoding out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    texts[i].type_ids.assign(texts[i].size(), static_cast<std::int32_t>(i));
    append(out, std::move(texts[i]));
  }
  return out;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::int32_t> kept;
  kept.reserve(ids.size());
  for (const std::int32_t id : ids) {
    if (has_no_text(id)) continue;
    check(id);
    if (!skip_special_tokens || !is_special(id)) kept.push_back(id);
  }
  return decode_all(kept);
}

std::string Tokenizer::decode_all(std::span<const std::int32_t> ids) const {
  const std::unique_ptr<Detokenizer> stream = detokenizer();
  std::string text;
  for (const std::int32_t id : ids) stream->push(id, text);
  stream->finish(text);
  return text;
}

void Tokenizer::save_into(const std::filesystem::path& folder, const std::string& name) const { save(folder / (name + ".model")); }

void Tokenizer::check(std::int32_t id) const {
  if (id < 0 || id >= size()) fail("tokenizer", "there is no token {}: the vocabulary has {}", id, size());
}

StreamDecoder::StreamDecoder(TokenizerPtr tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens), detokenizer_(tokenizer_->detokenizer()) {}

std::string StreamDecoder::push(std::int32_t id) {
  std::string text;
  if (tokenizer_->has_no_text(id)) return text;
  tokenizer_->check(id);
  if (!skip_special_tokens_ || !tokenizer_->is_special(id)) detokenizer_->push(id, text);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  detokenizer_->finish(text);
  detokenizer_ = tokenizer_->detokenizer();
  return text;
}

}  // namespace transformer
