#include "transformer/tokenizers/vocabulary.h"

#include <algorithm>
#include <memory>
#include <set>

#include "io/shared/characters.h"
#include "io/shared/utf8.h"
#include "tokenizers/byte_alphabet.h"
#include "tokenizers/tokenizer_parts.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

using nlohmann::json;

constexpr std::string_view unknown = "<unk>";

// The file around a model; special tokens are those of its vocabulary.
TokenizerPtr from_parts(json model, const json& pre_tokenizer, const json& decoder,
                        const std::vector<std::pair<std::string_view, int>>& special) {
  json added = json::array();
  for (const auto& [token, id] : special) added.push_back(special_part(token, id));
  const json file{{"version", "1.0"},          {"truncation", nullptr}, {"padding", nullptr},
                  {"added_tokens", added},     {"normalizer", nullptr}, {"pre_tokenizer", pre_tokenizer},
                  {"post_processor", nullptr}, {"decoder", decoder},    {"model", std::move(model)}};
  return parse_tokenizer(file.dump(1));
}

// BPE that has nothing to merge gives each character its token.
TokenizerPtr characters_of(const LineSource& text) {
  std::set<char32_t> seen;
  std::int64_t replaced = 0;
  for (std::string part; text(part);) {
    if (!is_valid_utf8(part)) part = sanitize_utf8(part, replaced);
    for (std::size_t i = 0; i < part.size();) seen.insert(next_character(part, i));
  }
  if (seen.empty()) fail("vocabulary", "there is no text to take characters from");
  json vocabulary = json::object();
  for (const char32_t c : seen) {
    std::string token;
    append_character(token, c);
    vocabulary[token] = vocabulary.size();
  }
  const auto first = static_cast<int>(seen.size());
  vocabulary[std::string(unknown)] = first;
  vocabulary[std::string(end_of_text)] = first + 1;
  return from_parts(bpe_part(std::move(vocabulary), json::array(), unknown), nullptr, {{"type", "Fuse"}},
                    {{unknown, first}, {end_of_text, first + 1}});
}

TokenizerPtr bytes() {
  json vocabulary = json::object();
  for (std::size_t byte = 0; byte < 256; ++byte) {
    std::string token;
    append_character(token, byte_alphabet[byte]);
    vocabulary[token] = byte;
  }
  vocabulary[std::string(end_of_text)] = 256;
  const json level{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  json model = bpe_part(std::move(vocabulary), json::array(), unknown);
  model["unk_token"] = nullptr;
  return from_parts(std::move(model), level, level, {{end_of_text, 256}});
}

// SentencePiece learns the pieces. It would drop line ends and rows of spaces when it encodes; the tokenizer.json that is made of its
// pieces does not: a space belongs to the word that follows, and what has no piece is bytes. Its mark of a space, "▁", is a space in the
// pieces again, so that a text may have that mark too.
TokenizerPtr subwords_of(const LineSource& text, const VocabularyOptions& options) {
  constexpr int special = 2, bytes = 256;
  constexpr std::string_view mark = "\u2581";
  const bool bpe = options.kind == VocabularyKind::bpe;
  // Lines, whatever the pieces of the text are.
  struct Rest {
    std::string text;
    std::size_t at = 0;
  };
  const LineSource lines = [&text, rest = std::make_shared<Rest>()](std::string& line) {
    while (rest->at >= rest->text.size()) {
      rest->at = 0;
      if (!text(rest->text)) return false;
    }
    const std::size_t end = std::min(rest->text.find('\n', rest->at), rest->text.size());
    line.assign(rest->text, rest->at, end - rest->at);
    rest->at = end + 1;
    return true;
  };
  // A text that spells the name of a byte, "<0x41>", must not become that byte. BPE has no merges that make one; the unigram model finds
  // all tokens there are, but with pieces for these characters there is always a likelier way to spell it.
  const TokenizerPtr trained = train_sentencepiece(lines,
                                                   {.kind = bpe ? SentencePieceKind::bpe : SentencePieceKind::unigram,
                                                    .vocab_size = options.vocab_size,
                                                    .character_coverage = options.character_coverage,
                                                    .normalization = "identity",
                                                    .byte_fallback = true},
                                                   special - 4,  // it has four special tokens
                                                   bpe ? "" : "<0123456789ABCDEFx>");
  std::vector<ScoredPiece> pieces = sentencepiece_pieces(*trained);
  for (ScoredPiece& p : pieces)
    for (std::size_t at = 0; (at = p.piece.find(mark, at)) != std::string::npos;) p.piece.replace(at, mark.size(), " ");

  json ids = json::object(), scored = json::array();
  const auto add = [&](const std::string& token, double score) {
    ids[token] = ids.size();
    scored.push_back({token, score});
  };
  // Never the best way to write a text that happens to spell them.
  constexpr double never = -1e6;
  add(std::string(unknown), never), add(std::string(end_of_text), never);
  for (int byte = 0; byte < bytes; ++byte) add(byte_token(static_cast<unsigned char>(byte)), never);
  for (const auto& [piece, score] : pieces)
    if (!ids.contains(piece)) add(piece, score);

  const json words{{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithNext"}, {"invert", false}};
  const json decoder{{"type", "Sequence"}, {"decoders", {{{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}};
  json model;
  if (bpe) {
    json merges = merges_of(pieces, ids);
    model = bpe_part(std::move(ids), std::move(merges), unknown);
    model["byte_fallback"] = model["fuse_unk"] = true;
  } else {
    model = {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", std::move(scored)}, {"byte_fallback", true}};
  }
  return from_parts(std::move(model), words, decoder, {{unknown, 0}, {end_of_text, 1}});
}

}  // namespace

TokenizerPtr make_vocabulary(const LineSource& text, const VocabularyOptions& options) {
  switch (options.kind) {
    case VocabularyKind::characters: return characters_of(text);
    case VocabularyKind::bytes: return bytes();
    case VocabularyKind::bpe:
    case VocabularyKind::unigram: return subwords_of(text, options);
  }
  return nullptr;
}

}  // namespace transformer
