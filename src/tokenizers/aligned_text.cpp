#include "tokenizers/aligned_text.h"

#include <algorithm>

#include "io/shared/characters.h"
#include "transformer/core/error.h"

namespace transformer {

TextSpan AlignedText::span(std::size_t at) const {
  if (!from.empty()) return from[std::min(at, from.size() - 1)];
  if (at >= text.size()) return {base + static_cast<std::uint32_t>(text.size()), base + static_cast<std::uint32_t>(text.size())};
  while (at > 0 && continues_character(text[at])) --at;
  const auto begin = base + static_cast<std::uint32_t>(at);
  return {begin, begin + static_cast<std::uint32_t>(character_size(text[at]))};
}

void AlignedText::append(const AlignedText& other) {
  if (other.text.empty()) return;
  if (text.empty() || (from.empty() && other.from.empty() && base + text.size() == other.base)) {
    if (text.empty()) base = other.base;
    text += other.text;
    from = other.from;
    return;
  }
  const auto spans = [](const AlignedText& of) {
    std::vector<TextSpan> all;
    all.reserve(of.text.size());
    for (std::size_t i = 0; i < of.text.size(); ++i) all.push_back(of.span(i));
    return all;
  };
  if (from.empty()) from = spans(*this);
  const std::vector<TextSpan> behind = spans(other);
  text += other.text;
  from.insert(from.end(), behind.begin(), behind.end());
}

Rewriter::Rewriter(const AlignedText& source, AlignedText& out, std::size_t begin, std::size_t end)
    : source_(source), out_(out), begin_(begin), end_(std::min(end, source.text.size())), at_(begin) {
  out_.longest = source_.longest;
}

void Rewriter::align(TextSpan span) {
  if (out_.text.size() > out_.longest) fail("tokenizer", "the text becomes {} times as long when it is normalised", growth_limit);
  out_.from.resize(out_.text.size(), span);
}

void Rewriter::emit(char32_t c, int change) {
  TextSpan span;
  if (change > 0) {
    span = source_.span(at_ == begin_ ? begin_ : at_ - 1);
    if (at_ == begin_) span.end = span.begin;  // before everything: an empty place
  } else {
    span = source_.span(std::min(at_, end_ == begin_ ? begin_ : end_ - 1));
    skip(1 + static_cast<std::size_t>(-change));
  }
  append_character(out_.text, c);
  align(span);
}

void Rewriter::emit_new(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) emit(next_character(text, i), 1);
}

void Rewriter::prepend(std::string_view text) {
  out_.text += text;
  align(source_.span(at_));
}

void Rewriter::copy(std::size_t end) {
  end = std::min(end, end_);
  if (end <= at_) return;
  out_.text.append(source_.text, at_, end - at_);
  if (source_.from.empty()) {
    for (; at_ < end;) {
      const TextSpan span = source_.span(at_);
      at_ += span.end - span.begin;
      out_.from.resize(out_.from.size() + (span.end - span.begin), span);
    }
  } else {
    out_.from.insert(out_.from.end(), source_.from.begin() + static_cast<std::ptrdiff_t>(at_),
                     source_.from.begin() + static_cast<std::ptrdiff_t>(end));
  }
  at_ = end;
}

void Rewriter::skip(std::size_t characters) {
  for (; characters > 0 && at_ < end_; --characters) at_ += character_size(source_.text[at_]);
  at_ = std::min(at_, end_);
}

}  // namespace transformer
