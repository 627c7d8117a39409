#include "tokenizers/pre_tokenizers.h"

#include <algorithm>

#include "io/shared/characters.h"
#include "io/shared/unicode.h"
#include "tokenizers/byte_alphabet.h"
#include "tokenizers/json_parts.h"

namespace transformer {

const char* const gpt2_pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::vector<PatternMatch> split_at(const std::vector<PatternMatch>& parts, Delimiters delimiters) {
  std::vector<PatternMatch> out;
  out.reserve(parts.size());
  if (delimiters == Delimiters::merged_with_next) {  // as merged_with_previous, from the end
    bool previous = false;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      if (part->found && !previous && !out.empty()) out.back().begin = part->begin;
      else out.push_back(*part);
      previous = part->found;
    }
    std::reverse(out.begin(), out.end());
    return out;
  }
  bool previous = false;
  for (const PatternMatch& part : parts) {
    bool joined = false;
    if (delimiters == Delimiters::contiguous) joined = part.found == previous;
    if (delimiters == Delimiters::merged_with_previous) joined = part.found && !previous;
    if (joined && !out.empty()) out.back().end = part.end;
    else if (delimiters != Delimiters::removed || !part.found) out.push_back(part);
    previous = part.found;
  }
  return out;
}

namespace {

template <class F>
class FunctionPreTokenizer final : public PreTokenizer {
 public:
  explicit FunctionPreTokenizer(F function) : function_(std::move(function)) {}
  void cut(PieceList& list) const override { function_(list); }

 private:
  F function_;
};
template <class F>
PreTokenizerPtr pre_tokenizer(F function) {
  return std::make_unique<FunctionPreTokenizer<F>>(std::move(function));
}

// Cuts every piece that is no token at the matches that find(text) gives.
void cut_all(PieceList& list, Delimiters delimiters, auto&& find) {
  std::vector<TextPiece> pieces;
  pieces.reserve(list.pieces.size());
  for (const TextPiece& piece : list.pieces) {
    if (piece.id >= 0) {
      pieces.push_back(piece);
      continue;
    }
    for (const PatternMatch& part : split_at(find(list.view(piece)), delimiters)) {
      if (part.begin == part.end) continue;
      const auto begin = piece.begin + static_cast<std::uint32_t>(part.begin), end = piece.begin + static_cast<std::uint32_t>(part.end);
      pieces.push_back({begin, end, -1});
    }
  }
  list.pieces = std::move(pieces);
}

// Each character that `is` says yes to is a match.
std::vector<PatternMatch> find_characters(std::string_view text, auto&& is) {
  std::vector<PatternMatch> parts;
  std::size_t covered = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    if (!is(next_character(text, i))) continue;
    if (covered < begin) parts.push_back({covered, begin, false});
    parts.push_back({begin, i, true});
    covered = i;
  }
  if (covered < text.size()) parts.push_back({covered, text.size(), false});
  return parts;
}

PreTokenizerPtr at_characters(Delimiters delimiters, auto is) {
  return pre_tokenizer(
      [delimiters, is](PieceList& list) { cut_all(list, delimiters, [&](std::string_view text) { return find_characters(text, is); }); });
}

// Runs of word characters and runs of others; white space goes.
std::vector<PatternMatch> find_words(std::string_view text) {
  const auto kind = [](char32_t c) { return is_word_character(c) ? 1 : is_white_space(c) ? 0 : 2; };
  std::vector<PatternMatch> parts;
  int last = -1;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    const int now = kind(next_character(text, i));
    if (now == last) parts.back().end = i;
    else parts.push_back({begin, i, now == 0});
    last = now;
  }
  return parts;
}

PreTokenizerPtr byte_level(const ByteLevelConfig& config) {
  return pre_tokenizer([config, regex = std::make_shared<Regex>(gpt2_pattern)](PieceList& list) {
    if (config.add_prefix_space) {
      list.rewrite([&](const TextPiece& piece, AlignedText& out) {
        Rewriter rewriter(list.text, out, piece.begin, piece.end);
        if (!list.view(piece).starts_with(' ')) rewriter.prepend(" ");
        rewriter.copy(piece.end);
      });
    }
    if (config.use_regex) cut_all(list, Delimiters::isolated, [&](std::string_view text) { return regex->find_all(text); });
    list.rewrite([&](const TextPiece& piece, AlignedText& out) {
      for (std::size_t i = piece.begin; i < piece.end; ++i) {
        append_character(out.text, byte_alphabet[static_cast<unsigned char>(list.text.text[i])]);
        out.from.resize(out.text.size(), list.text.span(i));
      }
    });
  });
}

PreTokenizerPtr metaspace(const MetaspaceConfig& config) {
  const char32_t mark = one_character(config.replacement, "replacement");
  return pre_tokenizer([config, mark, scheme = config.scheme()](PieceList& list) {
    list.rewrite([&](const TextPiece& piece, AlignedText& out) {
      const std::string_view text = list.view(piece);
      Rewriter rewriter(list.text, out, piece.begin, piece.end);
      const bool has_mark = text.starts_with(' ') || text.starts_with(config.replacement);
      const bool wanted = scheme == PrependScheme::always || (scheme == PrependScheme::first && list.text.span(piece.begin).begin == 0);
      if (wanted && !has_mark && !text.empty()) rewriter.prepend(config.replacement);
      for (std::size_t i = 0; i < text.size();) {
        const std::size_t space = std::min(text.find(' ', i), text.size());
        rewriter.copy(piece.begin + space);
        if (space < text.size()) rewriter.emit(mark);
        i = space + 1;
      }
    });
    if (config.split)
      cut_all(list, Delimiters::merged_with_next,
              [&](std::string_view text) { return find_characters(text, [&](char32_t c) { return c == mark; }); });
  });
}

struct SplitConfig {
  PatternConfig pattern = {};
  Delimiters behavior = Delimiters::removed;
  bool invert = false;
  static void visit(auto& self, auto&& field) {
    field("pattern", self.pattern, "where to cut");
    field("behavior", self.behavior, "what becomes of what the pattern finds");
    field("invert", self.invert, "the pattern finds the pieces, not what is between them");
  }
};

PreTokenizerPtr split(const SplitConfig& config) {
  return pre_tokenizer([config, regex = std::make_shared<Regex>(compile(config.pattern))](PieceList& list) {
    cut_all(list, config.behavior, [&](std::string_view text) {
      std::vector<PatternMatch> parts = regex->find_all(text);
      if (config.invert)
        for (PatternMatch& part : parts) part.found = !part.found;
      return parts;
    });
  });
}

struct PunctuationConfig {
  Delimiters behavior = Delimiters::isolated;
  static void visit(auto& self, auto&& field) { field("behavior", self.behavior, "what becomes of the punctuation"); }
};
struct DigitsConfig {
  bool individual_digits = false;
  static void visit(auto& self, auto&& field) { field("individual_digits", self.individual_digits, "each digit is a piece"); }
};
struct DelimiterConfig {
  std::string delimiter = {};
  static void visit(auto& self, auto&& field) { field("delimiter", self.delimiter, "the character to cut at"); }
};

const std::vector<std::string> known_pre_tokenizers = {"Sequence",  "ByteLevel", "Whitespace",  "WhitespaceSplit", "BertPreTokenizer",
                                                       "Metaspace", "Split",     "Punctuation", "Digits",          "CharDelimiterSplit"};

}  // namespace

PreTokenizerPtr read_pre_tokenizer(const nlohmann::json& part, int depth) {
  if (part.is_null()) return nullptr;
  const std::string type = part_type(part);
  if (type == "Sequence") {
    std::vector<std::shared_ptr<const PreTokenizer>> steps;
    for (const nlohmann::json& step : part_list(part, "pretokenizers", depth))
      if (PreTokenizerPtr read = read_pre_tokenizer(step, depth + 1)) steps.push_back(std::move(read));
    return pre_tokenizer([steps](PieceList& list) {
      for (const auto& step : steps) step->cut(list);
    });
  }
  if (type == "ByteLevel") return byte_level(read_part<ByteLevelConfig>(part));
  if (type == "Metaspace") return metaspace(read_part<MetaspaceConfig>(part));
  if (type == "Split") return split(read_part<SplitConfig>(part));
  if (type == "Punctuation") return at_characters(read_part<PunctuationConfig>(part).behavior, is_any_punctuation);
  if (type == "Digits")
    return at_characters(read_part<DigitsConfig>(part).individual_digits ? Delimiters::isolated : Delimiters::contiguous, is_number);
  if (type == "CharDelimiterSplit") {
    const char32_t delimiter = one_character(read_part<DelimiterConfig>(part).delimiter, "delimiter");
    return at_characters(Delimiters::removed, [delimiter](char32_t c) { return c == delimiter; });
  }
  if (type == "Whitespace") {
    read_part<NoSettings>(part);
    return pre_tokenizer([](PieceList& list) { cut_all(list, Delimiters::removed, find_words); });
  }
  if (type == "WhitespaceSplit" || type == "BertPreTokenizer") {
    read_part<NoSettings>(part);
    const bool bert = type == "BertPreTokenizer";
    return pre_tokenizer([bert](PieceList& list) {
      cut_all(list, Delimiters::removed, [](std::string_view text) { return find_characters(text, is_white_space); });
      if (bert) cut_all(list, Delimiters::isolated, [](std::string_view text) { return find_characters(text, is_any_punctuation); });
    });
  }
  unknown_part("pre-tokenizer", type, known_pre_tokenizers);
}

}  // namespace transformer
