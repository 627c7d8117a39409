#include "transformer/tokenizers/encoder_tokenizer.h"

#include <algorithm>
#include <array>
#include <map>

#include "io/shared/characters.h"
#include "io/shared/utf8.h"
#include "tokenizers/normalizers.h"
#include "tokenizers/shared/tokenizer_config.h"
#include "tokenizers/tokenizer_parts.h"
#include "transformer/core/setting_error.h"

namespace transformer {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 5> specials = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
constexpr const char* space_mark = "\u2581";

bool is_special(std::string_view token) { return std::find(specials.begin(), specials.end(), token) != specials.end(); }

// Tokens in the order of their ids.
json ids_of(const std::vector<std::string>& tokens) {
  json ids = json::object();
  for (std::size_t i = 0; i < tokens.size(); ++i) ids[tokens[i]] = i;
  return ids;
}

std::vector<std::string> with_specials(const std::vector<std::string>& tokens, std::int64_t most) {
  std::vector<std::string> out(specials.begin(), specials.end());
  for (const std::string& token : tokens)
    if (std::ssize(out) < most && !is_special(token)) out.push_back(token);
  return out;
}

json normalizer_of(const EncoderVocabulary& options, bool whole_words) {
  json steps = json::array();
  if (!whole_words) steps.push_back({{"type", "Nmt"}}), steps.push_back({{"type", "NFKC"}});
  if (options.lowercase) steps.push_back({{"type", "Lowercase"}});
  if (!whole_words) {
    steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
    steps.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
  }
  return steps.empty() ? json() : json{{"type", "Sequence"}, {"normalizers", steps}};
}

// The lines as the tokenizer will see them.
LineSource normalized(const LineSource& lines, const json& part) {
  std::shared_ptr<const Normalizer> normalizer = read_normalizer(part);
  return [lines, normalizer](std::string& line) {
    if (!lines(line)) return false;
    std::int64_t ignored = 0;
    AlignedText text{.text = is_valid_utf8(line) ? line : sanitize_utf8(line, ignored), .from = {}};
    if (normalizer) normalizer->normalize(text);
    line = std::move(text.text);
    return true;
  };
}

json word_model(const LineSource& lines, std::int64_t size) {
  const TokenizerPtr words = build_whitespace(lines);
  std::vector<std::string> tokens;
  for (auto id = static_cast<std::int32_t>(whitespace_specials.size()); id < words->size(); ++id) tokens.push_back(words->piece(id));
  return {{"type", "WordLevel"}, {"unk_token", specials[1]}, {"vocab", ids_of(with_specials(tokens, size))}};
}

// A BPE model that never merges: every character is a token, the most frequent ones first.
json character_model(const LineSource& lines, std::int64_t size) {
  std::map<char32_t, std::int64_t> counts;
  for (std::string line; lines(line);)
    for (std::size_t at = 0; at < line.size();) ++counts[next_character(line, at)];
  if (counts.empty()) fail("vocabulary", "the text has no characters to learn from");
  std::vector<std::pair<char32_t, std::int64_t>> seen(counts.begin(), counts.end());
  std::stable_sort(seen.begin(), seen.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> tokens;
  for (const auto& [c, count] : seen) append_character(tokens.emplace_back(), c);
  return bpe_part(ids_of(with_specials(tokens, size)), json::array(), specials[1]);
}

// What SentencePiece learns, written as the same model of tokenizer.json.
json subword_model(const LineSource& lines, const EncoderVocabulary& options) {
  const bool unigram = options.subwords == EncoderPieces::unigram;
  const TokenizerPtr trained = train_sentencepiece(lines,
                                                   {.kind = unigram ? SentencePieceKind::unigram : SentencePieceKind::bpe,
                                                    .vocab_size = options.vocab_size,
                                                    .character_coverage = options.character_coverage,
                                                    .normalization = "identity"},
                                                   1);  // it has no [MASK]
  const std::vector<ScoredPiece> pieces = sentencepiece_pieces(*trained);
  if (unigram) {
    json vocabulary = json::array();
    for (const std::string_view token : specials) vocabulary.push_back(json::array({token, 0.0}));
    for (const auto& [piece, score] : pieces)
      if (!is_special(piece)) vocabulary.push_back(json::array({piece, score}));
    return {{"type", "Unigram"}, {"unk_id", 1}, {"vocab", vocabulary}};
  }
  std::vector<std::string> tokens;
  for (const auto& [piece, score] : pieces) tokens.push_back(piece);
  json ids = ids_of(with_specials(tokens, options.vocab_size)), merges = merges_of(pieces, ids);
  return bpe_part(std::move(ids), std::move(merges), specials[1]);
}

json frame() {
  const auto token = [](std::string_view name, int type) { return json{{"SpecialToken", {{"id", name}, {"type_id", type}}}}; };
  const auto text = [](const char* name, int type) { return json{{"Sequence", {{"id", name}, {"type_id", type}}}}; };
  json known = json::object();
  for (const int id : {2, 3}) {
    const std::string name(specials[static_cast<std::size_t>(id)]);
    known[name] = {{"id", name}, {"ids", json::array({id})}, {"tokens", json::array({name})}};
  }
  const json single = json::array({token("[CLS]", 0), text("A", 0), token("[SEP]", 0)});
  json pair = single;
  pair.push_back(text("B", 1)), pair.push_back(token("[SEP]", 1));
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", known}};
}

}  // namespace

TokenizerPtr train_encoder_tokenizer(const LineSource& lines, const EncoderVocabulary& options) {
  if (options.vocab_size <= std::ssize(specials))
    wrong_setting("vocabulary", "vocab_size", "is {}: expected more than the {} special tokens", options.vocab_size, specials.size());
  const bool words = options.subwords == EncoderPieces::whitespace, characters = options.subwords == EncoderPieces::characters;
  json added = json::array();
  for (std::size_t id = 0; id < specials.size(); ++id) added.push_back(special_part(specials[id], static_cast<std::int64_t>(id)));
  const json normalizer = normalizer_of(options, words || characters);
  const LineSource text = normalized(lines, normalizer);
  json file = {{"version", "1.0"},      {"truncation", nullptr},    {"padding", nullptr},
               {"added_tokens", added}, {"normalizer", normalizer}, {"post_processor", frame()}};
  if (words) {
    file["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
    file["decoder"] = nullptr;
    file["model"] = word_model(text, options.vocab_size);
  } else if (characters) {
    file["pre_tokenizer"] = nullptr;
    file["decoder"] = {{"type", "Fuse"}};
    file["model"] = character_model(text, options.vocab_size);
  } else {
    const json spaces = {{"type", "Metaspace"}, {"replacement", space_mark}, {"prepend_scheme", "always"}, {"split", true}};
    file["pre_tokenizer"] = file["decoder"] = spaces;
    file["model"] = subword_model(text, options);
  }
  return parse_tokenizer(file.dump(2));
}

json encoder_tokenizer_config(std::int64_t max_length, bool types) {
  json inputs = json::array({"input_ids", "attention_mask"});
  if (types) inputs.insert(inputs.begin() + 1, "token_type_ids");
  const auto token = [](std::size_t i) { return std::string(specials[i]); };
  return tokenizer_config({.pad = token(0), .unk = token(1), .cls = token(2), .sep = token(3), .mask = token(4)},
                          {{"tokenizer_class", "PreTrainedTokenizerFast"},
                           {"clean_up_tokenization_spaces", false},
                           {"model_max_length", max_length},
                           {"model_input_names", inputs}});
}

}  // namespace transformer
