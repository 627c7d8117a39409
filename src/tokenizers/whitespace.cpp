// Text that is already tokenised: every word is a token.
#include <algorithm>

#include "io/shared/atomic_file.h"
#include "io/shared/utf8.h"
#include "tokenizers/shared/kinds.h"
#include "tokenizers/word_map.h"
#include "transformer/core/setting_error.h"

namespace transformer {
namespace {

constexpr std::string_view spaces = " \t\n\v\f\r";

void for_each_word(std::string_view text, auto&& f) {
  for (std::size_t begin = text.find_first_not_of(spaces); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(spaces, begin), text.size());
    f(text.substr(begin, end - begin));
    begin = text.find_first_not_of(spaces, end);
  }
}

bool spells_special(std::string_view word) {
  return std::find(whitespace_specials.begin(), whitespace_specials.end(), word) != whitespace_specials.end();
}

class WhitespaceTokenizer final : public Tokenizer {
 public:
  explicit WhitespaceTokenizer(std::vector<std::string> words) : Tokenizer(SpecialTokens{}), words_(std::move(words)) {
    for (std::size_t i = 0; i < words_.size(); ++i) ids_.emplace(words_[i], static_cast<std::int32_t>(i));
  }

  std::string_view kind() const override { return "whitespace"; }
  std::int64_t size() const override { return static_cast<std::int64_t>(words_.size()); }
  std::int32_t id(std::string_view piece) const override {
    const auto found = ids_.find(piece);
    return found == ids_.end() ? unk() : found->second;
  }

  void save(const std::filesystem::path& path) const override {
    std::string text;
    for (const std::string& word : words_) text.append(word).push_back('\n');
    AtomicFile file(path);
    file.write(text);
    file.commit();
  }

 private:
  std::vector<std::int32_t> encode_valid(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    // A word of the text that is spelled like a special token is not one.
    for_each_word(text, [&](std::string_view word) { ids.push_back(spells_special(word) ? unk() : id(word)); });
    return ids;
  }

  Encoding tokenize_valid(std::string_view text) const override {
    Encoding out;
    for_each_word(text, [&](std::string_view word) {
      out.ids.push_back(spells_special(word) ? unk() : id(word));
      out.tokens.push_back(piece_of(out.ids.back()));
      const std::int64_t begin = word.data() - text.data();
      out.places.push_back({begin, begin + std::ssize(word)});
    });
    out.type_ids.assign(out.size(), 0);
    out.added.assign(out.size(), 0);
    return out;
  }

  class Stream final : public Detokenizer {
   public:
    explicit Stream(const WhitespaceTokenizer& tokenizer) : tokenizer_(tokenizer) {}
    void push(std::int32_t id, std::string& out) override {
      out.append(std::exchange(first_, false) ? "" : " ").append(tokenizer_.words_[static_cast<std::size_t>(id)]);
    }
    void finish(std::string&) override {}

   private:
    const WhitespaceTokenizer& tokenizer_;
    bool first_ = true;
  };
  std::unique_ptr<Detokenizer> detokenizer() const override { return std::make_unique<Stream>(*this); }

  std::string piece_of(std::int32_t id) const override { return words_[static_cast<std::size_t>(id)]; }

  std::vector<std::string> words_;
  WordMap<std::int32_t> ids_;
};

}  // namespace

TokenizerPtr build_whitespace(const LineSource& lines, const WhitespaceOptions& options) {
  constexpr std::string_view where = "whitespace tokenizer";
  const auto specials = static_cast<std::int64_t>(whitespace_specials.size());
  if (options.min_count < 1) wrong_setting(where, "min_count", "is {}, must be at least 1", options.min_count);
  if (options.max_size != 0 && options.max_size <= specials)
    wrong_setting(where, "max_size", "is {}, must be more than the {} special tokens (or 0: no limit)", options.max_size, specials);

  WordMap<std::size_t> places;  // in `seen`, which is in the order of first appearance
  std::vector<std::pair<std::string, std::int64_t>> seen;
  std::int64_t ignored = 0;
  for (std::string line; lines(line);) {
    if (!is_valid_utf8(line)) line = sanitize_utf8(line, ignored);
    for_each_word(line, [&](std::string_view word) {
      if (spells_special(word)) return;
      auto found = places.find(word);
      if (found == places.end()) {
        found = places.emplace(word, seen.size()).first;
        seen.emplace_back(word, 0);
      }
      ++seen[found->second].second;
    });
  }
  if (seen.empty()) fail(where, "the text has no words to learn from");

  std::stable_sort(seen.begin(), seen.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> words(whitespace_specials.begin(), whitespace_specials.end());
  for (auto& [word, count] : seen) {
    if (count < options.min_count || (options.max_size != 0 && static_cast<std::int64_t>(words.size()) == options.max_size)) break;
    words.push_back(std::move(word));
  }
  return std::make_shared<WhitespaceTokenizer>(std::move(words));
}

TokenizerPtr load_whitespace(const std::filesystem::path& path) {
  std::vector<std::string> words;
  WordMap<std::int64_t> lines;
  LineReader reader(path.string());
  for (std::string word; reader.next(word); words.push_back(word)) {
    if (words.size() < whitespace_specials.size() && word != whitespace_specials[words.size()])
      fail(path.string(), "line {} must be {}, got '{}'", reader.number(), whitespace_specials[words.size()], word);
    if (word.empty() || word.find_first_of(spaces) != std::string::npos || !is_valid_utf8(word))
      fail(path.string(), "line {} must be one word of UTF-8 text, got '{}'", reader.number(), word);
    if (const auto [other, is_new] = lines.emplace(word, reader.number()); !is_new)
      fail(path.string(), "line {} repeats '{}' of line {}", reader.number(), word, other->second);
  }
  if (words.size() < whitespace_specials.size()) fail(path.string(), "the first lines must be {}", listed(whitespace_specials));
  return std::make_shared<WhitespaceTokenizer>(std::move(words));
}

}  // namespace transformer
