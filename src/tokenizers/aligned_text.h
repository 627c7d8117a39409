#pragma once
// Text that has been rewritten, and for each of its bytes the place in the original text that it stands for.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace transformer {

struct TextSpan {
  std::uint32_t begin = 0, end = 0;  // bytes of the original text, whole characters
};

inline constexpr std::size_t growth_limit = 64;  // how many times longer than the original a text may become

struct AlignedText {
  std::string text;            // valid UTF-8
  std::vector<TextSpan> from;  // one for each byte; empty: the text is the original's from `base` on
  std::uint32_t base = 0;
  std::size_t longest = std::string::npos;  // a rewritten text may not be longer: files can ask for absurd things

  TextSpan span(std::size_t at) const;  // of the byte at `at`, or for an empty text where it stood
  // Behind the last byte: text that is again the original's, if this is and both meet there, stays so.
  void append(const AlignedText& other);
};

// Writes a new version of a part of an AlignedText, character by character. A change says what a character is:
//   1   new: it stands for what the character before it stood for
//   0   takes the place of the next character of the source
//  -n   takes the place of the next one; the n after that are dropped
class Rewriter {
 public:
  Rewriter(const AlignedText& source, AlignedText& out, std::size_t begin = 0, std::size_t end = std::string::npos);

  void emit(char32_t c, int change = 0);
  void emit_new(std::string_view text);  // each character with change 1
  void prepend(std::string_view text);   // stands for what the next character of the source stands for
  void copy(std::size_t end);            // the bytes of the source up to `end` as they are
  void skip(std::size_t characters);     // drops the next characters of the source
  void skip_to(std::size_t end) { at_ = end; }
  std::size_t at() const { return at_; }  // the next byte of the source

 private:
  void align(TextSpan span);  // what has been appended to the text stands for this

  const AlignedText& source_;
  AlignedText& out_;
  std::size_t begin_, end_, at_;
};

// A rewritten text cut in pieces. A piece with an id is an added token and is not touched any more.
struct TextPiece {
  std::uint32_t begin = 0, end = 0;  // bytes of the text
  std::int32_t id = -1;
};
struct PieceList {
  AlignedText text;
  std::vector<TextPiece> pieces;

  std::string_view view(const TextPiece& piece) const { return std::string_view(text.text).substr(piece.begin, piece.end - piece.begin); }
  // Replaces every piece without an id: write(piece, out) appends its new text to out. Cuts nothing.
  template <class Write>
  void rewrite(Write&& write) {
    AlignedText out;
    out.text.reserve(text.text.size() + pieces.size());
    out.from.reserve(text.text.size() + pieces.size());
    for (TextPiece& piece : pieces) {
      const auto begin = static_cast<std::uint32_t>(out.text.size());
      if (piece.id >= 0) Rewriter(text, out, piece.begin, piece.end).copy(piece.end);
      else write(piece, out);
      piece.begin = begin;
      piece.end = static_cast<std::uint32_t>(out.text.size());
    }
    text = std::move(out);
  }
};

}  // namespace transformer
