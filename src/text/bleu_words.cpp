// The tokenizers of BLEU. They are defined by substitutions of regular expressions, from left to right and without
// overlap; what follows are these substitutions, one pass each.
#include "io/shared/characters.h"
#include "io/shared/unicode.h"
#include "transformer/text/bleu.h"

namespace transformer {
namespace {

bool is_point(char32_t c) { return c == '.' || c == ','; }
bool is_ascii_mark(char32_t c) {  // all ASCII punctuation but ' , - .
  return (c > ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
      (c >= '{' && c <= '~');
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
  return text;
}

// c → " c ".
std::u32string apart(std::u32string_view text, auto&& chosen) {
  std::u32string out;
  for (const char32_t c : text) {
    if (chosen(c)) out += {U' ', c, U' '};
    else out += c;
  }
  return out;
}

// Neighbours ab become "a b ".
std::u32string second_apart(std::u32string_view text, auto&& first, auto&& second) {
  std::u32string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (i + 1 < text.size() && first(text[i]) && second(text[i + 1])) out += {U' ', text[++i], U' '};
  }
  return out;
}

// Neighbours ab become " a b".
std::u32string first_apart(std::u32string_view text, auto&& first, auto&& second) {
  std::u32string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && first(text[i]) && second(text[i + 1])) {
      out += {U' ', text[i], U' ', text[i + 1]};
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::u32string spaced_13a(std::u32string_view line) {
  std::string text = to_utf8(line);
  text = replaced(replaced(replaced(text, "<skipped>", ""), "-\n", ""), "\n", " ");
  text = replaced(replaced(replaced(replaced(text, "&quot;", "\""), "&amp;", "&"), "&lt;", "<"), "&gt;", ">");
  const auto not_digit = [](char32_t c) { return !is_digit(c); };
  std::u32string out = apart(to_code_points(" " + text + " "), is_ascii_mark);
  out = second_apart(out, not_digit, is_point);
  out = first_apart(out, is_point, not_digit);
  return second_apart(out, is_digit, [](char32_t c) { return c == '-'; });
}

std::u32string spaced_intl(std::u32string_view line) {
  const auto not_number = [](char32_t c) { return !is_number(c); };
  std::u32string out = second_apart(line, not_number, is_punctuation);
  out = first_apart(out, is_punctuation, not_number);
  return apart(out, is_symbol);
}

}  // namespace

std::vector<std::string> bleu_words(std::string_view line, const BleuOptions& options) {
  std::u32string text = to_code_points(line);
  if (options.lowercase) text = to_lower(text);
  text.resize(without_trailing_space(text).size());
  switch (options.tokenizer) {
    case BleuTokenizer::v13a: text = spaced_13a(text); break;
    case BleuTokenizer::none: break;
    case BleuTokenizer::character: text = apart(text, [](char32_t) { return true; }); break;
    case BleuTokenizer::intl: text = spaced_intl(text); break;
  }
  std::vector<std::string> words;
  for (const std::u32string_view word : split_words(text)) words.push_back(to_utf8(word));
  return words;
}

}  // namespace transformer
