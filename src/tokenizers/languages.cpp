#include "tokenizers/languages.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "io/shared/characters.h"
#include "io/shared/json.h"
#include "io/shared/read_file.h"
#include "tokenizers/shared/kinds.h"
#include "transformer/tokenizers/tokenizer_pair.h"

namespace transformer {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct Family {
  LanguageList list;
  bool first = true;         // "language A </s>"; otherwise "A </s> language"
  bool underscores = false;  // "__en__"
  const char* usual;         // Hugging Face's language of a source that says none
  const char* tokenizer_class;
};

// NLLB's models are of type m2m_100, mBART-50's of type mbart: the class of the tokenizer tells.
std::optional<Family> family_of(const Habits& habits) {
  if (habits.is("nllb")) return Family{LanguageList::nllb, !habits.flag("legacy_behaviour", false), false, "eng_Latn", "NllbTokenizer"};
  if (habits.is("mbart50")) return Family{LanguageList::mbart_50, true, false, "en_XX", "MBart50Tokenizer"};
  if (habits.is("mbart")) return Family{LanguageList::mbart, false, false, "en_XX", "MBartTokenizer"};
  if (!habits.is("m2m")) return std::nullopt;
  const bool wmt = habits.token("language_codes") == "wmt21";
  return Family{wmt ? LanguageList::wmt21 : LanguageList::m2m_100, true, true, "en", "M2M100Tokenizer"};
}

std::string token_of(const Family& family, const std::string& code) { return family.underscores ? "__" + code + "__" : code; }

// The code that a token of the vocabulary is, such as eng_Latn, en_XX or __en__; "" for other tokens.
std::string code_of(const Family& family, std::string_view token) {
  if (family.underscores) {
    const bool marked = token.size() > 4 && token.starts_with("__") && token.ends_with("__");
    return marked ? std::string(token.substr(2, token.size() - 4)) : "";
  }
  const std::size_t cut = token.find('_');
  const auto all = [](std::string_view text, auto&& is) { return !text.empty() && std::all_of(text.begin(), text.end(), is); };
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (cut < 2 || cut > 3 || !all(token.substr(0, cut), lower)) return "";
  const std::string_view script = token.substr(cut + 1);
  const bool named = script.size() == 4 && upper(script[0]) && all(script.substr(1), lower);
  return named || (script.size() == 2 && all(script, upper)) ? std::string(token) : "";
}

// What stands around a text in that language.
json frame_in(const Pipeline& parts, const std::string& language) {
  const LanguageTokens& l = *parts.languages;
  const std::string eos(parts.model->vocabulary().token(parts.special.eos));
  json special = json::object(), single = json::array(), pair;
  for (const std::string& token : {language, eos}) special[token] = {{"id", token}, {"ids", {id_in(parts, token)}}, {"tokens", {token}}};
  if (l.first) single.push_back(token_step(language, 0));
  single.push_back(text_step("A", 0));
  pair = single;
  pair.push_back(text_step("B", 0));
  for (json* list : {&single, &pair}) {
    list->push_back(token_step(eos, 0));
    if (!l.first) list->push_back(token_step(language, 0));
  }
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

// The ids of fairseq: <s> <pad> </s> <unk>, the pieces behind SentencePiece's own special ones, the languages, <mask>.
Vocabulary fairseq_vocabulary(const TokenModel& pieces, const Family& family) {
  Vocabulary vocabulary;
  for (const char* token : {"<s>", "<pad>", "</s>", "<unk>"}) vocabulary.add(token, vocabulary.size());
  for (std::int32_t id = 3; id < pieces.vocabulary().size(); ++id)
    vocabulary.add(std::string(pieces.vocabulary().token(id)), vocabulary.size());
  for (const std::string& code : language_codes(family.list)) vocabulary.add(code, vocabulary.size());
  vocabulary.add("<mask>", vocabulary.size());
  return vocabulary;
}

// M2M100: a file has the ids of the pieces, and the languages come behind them.
Vocabulary m2m_vocabulary(const fs::path& file, const Family& family) {
  Vocabulary vocabulary = read_vocabulary({{"vocab", read_json(file)}});
  const std::int64_t first = vocabulary.count();
  std::int64_t number = 0;
  for (const std::string& code : language_codes(family.list)) vocabulary.add(token_of(family, code), first + number++);
  return vocabulary;
}

}  // namespace

TokenizerPtr load_many_languages(const fs::path& folder, const Habits& habits) {
  const auto family = family_of(habits);
  const fs::path model = folder / "sentencepiece.bpe.model", ids = folder / "vocab.json";
  if (!family || !fs::is_regular_file(model)) return nullptr;
  if (family->underscores && !fs::is_regular_file(ids)) fail(ids.string(), "is missing: M2M100 has the ids of its pieces there");
  return in_file(family->underscores ? ids : model, [&] {
    const std::string bytes = read_file(model);
    Vocabulary vocabulary = family->underscores ? m2m_vocabulary(ids, *family)
                                                : fairseq_vocabulary(*sentencepiece_model(model.string(), bytes), *family);
    const std::string unk = habits.token("unk_token", "<unk>"), eos = habits.token("eos_token", "</s>");
    Pipeline parts;
    parts.model = sentencepiece_model(model.string(), bytes, std::move(vocabulary), unk, false);
    const Vocabulary& known = parts.model->vocabulary();
    std::vector<AddedToken> added = habits.added();
    std::vector<std::string> special{habits.token("bos_token", "<s>"), eos, unk, habits.token("pad_token", "<pad>"),
                                     habits.token("mask_token", "<mask>")};
    for (const std::string& code : language_codes(family->list)) special.push_back(token_of(*family, code));
    for (const std::string& token : special)
      if (const std::int32_t id = known.find(token); id >= 0)
        Habits::add(added, {.id = id, .content = token, .lstrip = token == "<mask>", .normalized = false, .special = true});
    parts.added = AddedTokens(std::move(added), known, nullptr);
    parts.decoder = piece_decoder(true);
    parts.special = {known.find(special[3]), known.find(unk), known.find(special[0]), known.find(eos)};
    if (parts.special.eos < 0) fail("tokenizer", "the vocabulary has no '{}'", eos);
    find_languages(parts, habits);
    std::map<std::string, std::string> files{{model.filename().string(), bytes}};
    if (family->underscores) files.emplace(ids.filename().string(), read_file(ids));
    add_files(parts, habits, family->tokenizer_class, std::move(files));
    return make_tokenizer(std::move(parts));
  });
}

void find_languages(Pipeline& parts, const Habits& habits) {
  const auto family = family_of(habits);
  if (!family || parts.special.eos < 0) return;
  LanguageTokens languages{.first = family->first};
  for (const auto& [token, id] : parts.added.vocabulary().ids())
    if (const std::string code = code_of(*family, token); !code.empty()) languages.tokens.emplace(code, token);
  for (const std::string& code : language_codes(family->list))
    if (const std::string token = token_of(*family, code); id_in(parts, token) >= 0) languages.tokens.emplace(code, token);
  if (languages.tokens.empty()) return;
  languages.source = habits.token("src_lang"), languages.target = habits.token("tgt_lang");
  const std::string usual = languages.tokens.contains(languages.source) ? languages.source : family->usual;
  parts.languages = std::move(languages);
  // A tokenizer.json says what stands around its texts.
  if (parts.post_processor == nullptr && parts.languages->tokens.contains(usual))
    parts.post_processor = read_post_processor(frame_in(parts, parts.languages->tokens.at(usual)));
}

TokenizerPtr in_language(const TokenizerPtr& tokenizer, const std::string& language, const char* flag) {
  const Pipeline& parts = *pipeline_of(*tokenizer);
  const auto& tokens = parts.languages->tokens;
  const auto found = tokens.find(language);
  if (found != tokens.end()) return with_frame(*tokenizer, read_post_processor(frame_in(parts, found->second)));
  std::vector<std::string> all, near;
  const std::string_view start = std::string_view(language).substr(0, 2);
  for (const auto& [code, token] : tokens) {
    all.push_back(code);
    if (start.size() == 2 && code.starts_with(start)) near.push_back(code);
  }
  const std::size_t shown = std::min<std::size_t>(all.size(), 60), more = all.size() - shown;
  const std::string hint = near.empty() ? did_you_mean(language, all) : fmt::format("; near are {}", fmt::join(near, ", "));
  all.resize(shown);
  fail(flag, "the model does not know the language '{}'{}; it knows {}{}", language, hint, fmt::join(all, ", "),
       more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace transformer
