#include "text/shared/words.h"

#include "io/shared/characters.h"

namespace transformer {

std::vector<TokenPlace> split_words(std::string_view text) {
  std::vector<TokenPlace> words;
  const auto add = [&](std::size_t begin, std::size_t end) {
    if (begin < end) words.push_back({static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)});
  };
  // What stands between white space and Chinese characters: punctuation, a word, punctuation.
  const auto add_chunk = [&](std::size_t begin, std::size_t end) {
    std::size_t first = begin, last = end;
    for (std::size_t at = begin; at < end && is_any_punctuation(next_character(text, at)); first = at) add(first, at);
    for (std::size_t at = end; at > first && is_any_punctuation(previous_character(text, at)); last = at) {
    }
    add(first, last);
    for (std::size_t at = last; at < end; last = at) next_character(text, at), add(last, at);
  };
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t here = at;
    const char32_t c = next_character(text, at);
    if (!is_white_space(c) && !is_ideograph(c)) continue;
    add_chunk(begin, here);
    if (is_ideograph(c)) add(here, at);
    begin = at;
  }
  add_chunk(begin, text.size());
  return words;
}

JoinedWords join_words(std::span<const std::string> words) {
  JoinedWords out;
  for (const std::string& word : words) {
    if (!out.text.empty()) out.text += ' ';
    const std::int64_t begin = std::ssize(out.text);
    out.text += word;
    out.places.push_back({begin, std::ssize(out.text)});
  }
  return out;
}

std::vector<std::int64_t> first_tokens(std::span<const TokenPlace> tokens, std::span<const TokenPlace> words) {
  std::vector<std::int64_t> first(words.size(), -1);
  for (std::size_t i = 0, word = 0; i < tokens.size(); ++i) {
    while (word < words.size() && words[word].end <= tokens[i].begin) ++word;  // those before the token
    // Special tokens have the empty place {0, 0}, which is a part of no word.
    if (word < words.size() && words[word].begin < tokens[i].end && first[word] < 0) first[word] = static_cast<std::int64_t>(i);
  }
  return first;
}

}  // namespace transformer
