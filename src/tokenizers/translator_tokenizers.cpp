// Vocabularies of translators that are trained here, in the layouts that other tools open.
#include "io/shared/base64.h"
#include "io/shared/json.h"
#include "tokenizers/habits.h"
#include "tokenizers/shared/kinds.h"
#include "tokenizers/shared/tokenizer_config.h"
#include "tokenizers/tokenizer_parts.h"
#include "transformer/tokenizers/tokenizer_pair.h"

namespace transformer {
namespace {

using nlohmann::json;

constexpr const char *pad = "<pad>", *eos = "</s>", *unk = "<unk>", *mark = "\u2581";

SpecialNames translator_specials() { return {.pad = pad, .unk = unk, .eos = eos}; }

// Tokens that are not special: pieces, and bytes where it spells unknown characters so. In the order of its ids.
std::vector<std::string> pieces_of(const Tokenizer& sentencepiece) {
  std::vector<std::string> out;
  const SpecialTokens& special = sentencepiece.special_tokens();
  for (std::int32_t id = 0; id < sentencepiece.size(); ++id) {
    const std::string piece = sentencepiece.piece(id);
    const bool left_out = id == special.pad || id == special.bos || id == special.eos || id == special.unk;
    if (!left_out && piece != pad && piece != eos && piece != unk) out.push_back(piece);
  }
  return out;
}

std::string text_of(const json& file) { return file.dump(1) + "\n"; }

// One side of a Marian folder, or both. The files of both sides together are those of MarianTokenizer.
TokenizerPtr marian_side(const Tokenizer& sentencepiece, const std::string& side, bool joint) {
  std::vector<std::string> tokens = pieces_of(sentencepiece);
  tokens.insert(tokens.begin(), {eos, unk});
  tokens.insert(joint ? tokens.end() : tokens.begin() + 2, pad);
  json ids = json::object();
  Vocabulary vocabulary;
  for (std::size_t id = 0; id < tokens.size(); ++id) ids[tokens[id]] = id, vocabulary.add(tokens[id], static_cast<std::int64_t>(id));
  const std::string bytes = sentencepiece_bytes(sentencepiece);
  const json about = tokenizer_config(translator_specials(), {{"tokenizer_class", "MarianTokenizer"}, {"separate_vocabs", !joint}});
  std::map<std::string, std::string> files{{side + ".spm", bytes},
                                           {side == "target" ? "target_vocab.json" : "vocab.json", text_of(ids)},
                                           {"tokenizer_config.json", text_of(about)}};
  if (joint) files.emplace("target.spm", bytes);
  return marian_tokenizer(bytes, side, std::move(vocabulary), std::move(files));
}

}  // namespace

TokenizerPair marian_tokenizers(const TokenizerPair& sentencepiece) {
  const bool joint = sentencepiece.joint();
  const TokenizerPtr source = marian_side(*sentencepiece.source, "source", joint);
  return {source, joint ? source : marian_side(*sentencepiece.target, "target", false)};
}

TokenizerPtr pegasus_tokenizer(const Tokenizer& sentencepiece) {
  const SentencePieceHabits habits = sentencepiece_habits(sentencepiece);
  std::vector<std::string> tokens = pieces_of(sentencepiece);
  tokens.insert(tokens.begin(), {pad, eos, unk});
  json ids = json::object(), added = json::array(), normalizers = json::array(), model;
  for (std::size_t id = 0; id < tokens.size(); ++id) ids[tokens[id]] = id;
  for (int id = 0; id < 3; ++id) added.push_back(special_part(tokens[static_cast<std::size_t>(id)], id));
  if (!habits.charsmap.empty()) normalizers.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(habits.charsmap)}});
  if (habits.single_spaces) {
    normalizers.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
    normalizers.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
  }
  const bool bytes = has_bytes(sentencepiece);
  const std::vector<ScoredPiece> pieces = sentencepiece_pieces(sentencepiece);
  if (habits.unigram) {
    constexpr double never = -1e6;  // bytes are for what has no piece
    json scored = json::array();
    std::map<std::string, float> scores;
    for (const auto& [piece, score] : pieces) scores[piece] = score;
    for (std::size_t id = 0; id < tokens.size(); ++id)
      scored.push_back(json::array({tokens[id], id < 3 ? 0.0 : scores.contains(tokens[id]) ? scores[tokens[id]] : never}));
    model = {{"type", "Unigram"}, {"unk_id", 2}, {"vocab", std::move(scored)}, {"byte_fallback", bytes}};
  } else {
    json merges = merges_of(pieces, ids);
    model = bpe_part(std::move(ids), std::move(merges), unk);
    model["fuse_unk"] = true, model["byte_fallback"] = bytes;
  }
  const json spaces = {
      {"type", "Metaspace"}, {"replacement", mark}, {"prepend_scheme", habits.space_first ? "always" : "never"}, {"split", true}};
  const json end{{"SpecialToken", {{"id", eos}, {"type_id", 0}}}}, known{{eos, {{"id", eos}, {"ids", {1}}, {"tokens", {eos}}}}};
  json decoders = json::array({spaces});
  if (bytes) decoders = json::array({{{"type", "ByteFallback"}}, spaces});
  const json file{{"version", "1.0"},
                  {"truncation", nullptr},
                  {"padding", nullptr},
                  {"added_tokens", added},
                  {"normalizer", normalizers.empty() ? json() : json{{"type", "Sequence"}, {"normalizers", normalizers}}},
                  {"pre_tokenizer", spaces},
                  {"post_processor",
                   {{"type", "TemplateProcessing"},
                    {"single", {text_step("A", 0), end}},
                    {"pair", {text_step("A", 0), text_step("B", 0), end}},
                    {"special_tokens", known}}},
                  {"decoder", bytes ? json{{"type", "Sequence"}, {"decoders", decoders}} : spaces},
                  {"model", std::move(model)}};
  Pipeline parts = read_pipeline(file);
  parts.special = {.pad = 0, .unk = 2, .bos = -1, .eos = 1};
  parts.main_file = "tokenizer.json";
  const json about = tokenizer_config(translator_specials(),
                                      {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                       {"clean_up_tokenization_spaces", false},
                                       {"model_input_names", {"input_ids", "attention_mask"}}});
  parts.files = {{parts.main_file, text_of(file)}, {"tokenizer_config.json", text_of(about)}};
  return make_tokenizer(std::move(parts));
}

}  // namespace transformer
