// Tokenizers of Hugging Face folders: tokenizer.json, and the older files, each made into the parts that tokenizer.json has.
#include "io/shared/json.h"
#include "io/shared/read_file.h"
#include "io/shared/utf8.h"
#include "tokenizers/habits.h"
#include "tokenizers/languages.h"
#include "tokenizers/shared/kinds.h"

namespace transformer {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* any_class = "PreTrainedTokenizerFast";  // Hugging Face's class for any tokenizer.json

TokenizerPtr load_tokenizer_json(const fs::path& path, const Habits& habits) {
  return in_file(path, [&] {
    Pipeline parts = read_pipeline(read_json(path));
    find_special_tokens(parts, habits);
    find_languages(parts, habits);
    parts.main_file = "tokenizer.json";
    add_files(parts, habits, habits.any() ? nullptr : any_class, {{parts.main_file, read_file(path)}});
    return make_tokenizer(std::move(parts));
  });
}

json special_token(const std::string& token, std::int64_t id, bool lstrip = false) {
  return {{"id", id},        {"content", token},    {"single_word", false}, {"lstrip", lstrip},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// GPT-2's two files: {"token": id, …}, and lines of two tokens that merge, the first learned first.
TokenizerPtr load_byte_level(const fs::path& vocabulary, const fs::path& merges, const Habits& habits) {
  json pairs = json::array();
  LineReader lines(merges.string());
  for (std::string line; lines.next(line);) {
    if (line.starts_with("#version") || line.empty()) continue;
    if (!is_valid_utf8(line)) fail(merges.string(), "line {} is not UTF-8", lines.number());
    const std::size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
      fail(merges.string(), "line {} must be two tokens, got '{}'", lines.number(), line);
    pairs.push_back(std::move(line));
  }
  return in_file(vocabulary, [&] {
    json vocab = read_json(vocabulary);
    const auto has = [&](const std::string& token) { return !token.empty() && vocab.is_object() && vocab.contains(token); };
    const bool roberta = habits.is("roberta") || habits.is("bart") || (!habits.any() && has("<s>") && has("</s>") && has("<mask>"));
    const bool qwen = habits.is("qwen2"), prefix = habits.flag("add_prefix_space", false);
    json added = json::array();
    const auto add = [&](const std::string& token, bool lstrip = false) {
      if (has(token) && vocab[token].is_number_integer()) added.push_back(special_token(token, vocab[token].get<std::int64_t>(), lstrip));
    };
    for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token", "cls_token", "sep_token"})
      if (const std::string token = habits.token(key, roberta ? "" : "<|endoftext|>"); !token.empty()) add(token);
    if (roberta)
      for (const char* token : {"<s>", "</s>", "<pad>", "<unk>"}) add(token);
    const json& mask = habits.get("mask_token");
    const bool bare = !mask.is_object() || !mask.contains("lstrip") || !mask["lstrip"].is_boolean();
    add(habits.token("mask_token", roberta ? "<mask>" : ""), bare || mask["lstrip"].get<bool>());
    for (const AddedToken& token : habits.added()) added.push_back(to_json(token));

    const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"trim_offsets", true}, {"use_regex", !qwen}};
    json file = {{"added_tokens", added},
                 {"pre_tokenizer", bytes},
                 {"decoder", {{"type", "ByteLevel"}}},
                 {"post_processor", {{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"trim_offsets", false}}},
                 {"model", {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", std::move(pairs)}}}};
    if (qwen) {
      const char* pattern =
          R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
      const json split = {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
      file["normalizer"] = {{"type", "NFC"}};
      file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
    }
    Pipeline parts = read_pipeline(file);
    if (roberta) {
      const std::string cls = habits.token("cls_token", "<s>"), sep = habits.token("sep_token", "</s>");
      if (id_in(parts, cls) < 0 || id_in(parts, sep) < 0) fail("tokenizer", "the vocabulary has no '{}' or no '{}'", cls, sep);
      parts.post_processor = read_post_processor({{"type", "RobertaProcessing"},
                                                  {"cls", {cls, id_in(parts, cls)}},
                                                  {"sep", {sep, id_in(parts, sep)}},
                                                  {"trim_offsets", true},
                                                  {"add_prefix_space", prefix}});
    } else if (habits.flag("add_bos_token", false)) {
      parts.post_processor = read_post_processor(frame(habits.token("bos_token", "<|endoftext|>"), "", parts));
    }
    find_special_tokens(parts, habits);
    add_files(parts, habits,
              roberta    ? "RobertaTokenizer"
                  : qwen ? "Qwen2Tokenizer"
                         : "GPT2Tokenizer",
              {{"vocab.json", read_file(vocabulary)}, {"merges.txt", read_file(merges)}});
    return make_tokenizer(std::move(parts));
  });
}

TokenizerPtr load_bert(const fs::path& path, const Habits& habits) {
  return in_file(path, [&] {
    json vocab = json::object();
    LineReader lines(path.string());
    for (std::string token; lines.next(token);) {
      if (!is_valid_utf8(token)) fail(path.string(), "line {} is not UTF-8", lines.number());
      vocab[token] = lines.number() - 1;
    }
    const std::string unk = habits.token("unk_token", "[UNK]"), cls = habits.token("cls_token", "[CLS]"),
                      sep = habits.token("sep_token", "[SEP]");
    json added = json::array();
    for (const std::string& token : {habits.token("pad_token", "[PAD]"), unk, cls, sep, habits.token("mask_token", "[MASK]")})
      if (vocab.contains(token)) added.push_back(special_token(token, vocab[token].get<std::int64_t>()));
    for (const AddedToken& token : habits.added()) added.push_back(to_json(token));
    const json& strip = habits.get("strip_accents");
    Pipeline parts = read_pipeline({{"added_tokens", added},
                                    {"normalizer",
                                     {{"type", "BertNormalizer"},
                                      {"clean_text", true},
                                      {"handle_chinese_chars", habits.flag("tokenize_chinese_chars", true)},
                                      {"strip_accents", strip.is_boolean() ? strip : json()},
                                      {"lowercase", habits.flag("do_lower_case", true)}}},
                                    {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                                    {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                                    {"model", {{"type", "WordPiece"}, {"unk_token", unk}, {"vocab", std::move(vocab)}}}});
    parts.post_processor = read_post_processor(frame(cls, sep, parts, false));
    find_special_tokens(parts, habits);
    parts.main_file = "vocab.txt";
    add_files(parts, habits, "BertTokenizer", {{parts.main_file, read_file(path)}});
    return make_tokenizer(std::move(parts));
  });
}

// Pegasus: <pad>, </s>, tokens of its first training, and from `offset` + 2 on the pieces of SentencePiece, <unk> first.
TokenizerPtr load_pegasus(const fs::path& path, const Habits& habits) {
  return in_file(path, [&] {
    const std::string bytes = read_file(path), unk = habits.token("unk_token", "<unk>"), eos = habits.token("eos_token", "</s>"),
                      pad = habits.token("pad_token", "<pad>");
    const json& given = habits.get("offset");
    const std::int64_t offset = given.is_number_integer() ? given.get<std::int64_t>() : 103;
    if (offset < 0 || offset > 100'000) fail("tokenizer_config.json", "offset is {}", offset);
    std::vector<std::string> first{pad, eos};
    if (offset > 0) first.insert(first.end(), {habits.token("mask_token_sent", "<mask_1>"), habits.token("mask_token", "<mask_2>")});
    for (std::int64_t i = 2; std::ssize(first) < offset + 2; ++i) first.push_back(fmt::format("<unk_{}>", i));
    Vocabulary vocabulary;
    for (const std::string& token : first) vocabulary.add(token, vocabulary.size());
    const TokenModelPtr pieces = sentencepiece_model(path.string(), bytes);
    for (std::int32_t id = 2; id < pieces->vocabulary().size(); ++id)
      vocabulary.add(std::string(pieces->vocabulary().token(id)), id + offset);
    Pipeline parts;
    parts.model = sentencepiece_model(path.string(), bytes, std::move(vocabulary), unk, false);
    std::vector<AddedToken> added = habits.added();
    first.push_back(unk);
    for (const std::string& token : first)
      Habits::add(added, {.id = parts.model->vocabulary().find(token), .content = token, .normalized = false, .special = true});
    parts.added = AddedTokens(std::move(added), parts.model->vocabulary(), nullptr);
    parts.decoder = piece_decoder(true);
    json both = frame("", eos, parts);  // two texts are one behind the other
    both["pair"] = json::array({text_step("A", 0), text_step("B", 0), token_step(eos, 0)});
    parts.post_processor = read_post_processor(both);
    parts.special = {id_in(parts, pad), id_in(parts, unk), -1, id_in(parts, eos)};
    add_files(parts, habits, "PegasusTokenizer", {{path.filename().string(), bytes}});
    return make_tokenizer(std::move(parts));
  });
}

// SentencePiece with the habits of T5 (</s> behind a text, <extra_id_0> … for its gaps) or of LLaMA (<s> before it).
TokenizerPtr load_family(const fs::path& path, const Habits& habits) {
  const bool t5 = habits.is("t5");
  if (habits.is("pegasus") && !is_whitespace(path)) return load_pegasus(path, habits);
  if (!t5 && !habits.is("llama") && !habits.is("mistral")) return load_tokenizer(path);  // no family with habits
  if (is_whitespace(path)) return load_whitespace(path);                                 // a model of the family that was trained on words
  return in_file(path, [&] {
    Pipeline parts;
    std::string bytes = read_file(path);
    // "legacy": false puts the space before the very beginning of a text only, not behind each special token too. So the model
    // must not do it: its normalizer_spec.add_dummy_prefix, given once more, is overruled.
    if (!t5 && !habits.flag("legacy", true)) {
      bytes += std::string_view("\x1A\x02\x18\x00", 4);
      parts.pre_tokenizer = read_pre_tokenizer({{"type", "Metaspace"}, {"prepend_scheme", "first"}, {"split", false}});
    }
    parts.model = sentencepiece_model(path.string(), bytes);
    const Vocabulary& vocabulary = parts.model->vocabulary();
    std::vector<AddedToken> added = habits.added();
    const std::string bos = habits.token("bos_token", "<s>"), eos = habits.token("eos_token", "</s>"),
                      unk = habits.token("unk_token", "<unk>"), pad = habits.token("pad_token", t5 ? "<pad>" : "");
    for (const std::string& token : {t5 ? std::string() : bos, eos, unk, pad})
      if (const std::int32_t id = vocabulary.find(token); id >= 0)
        Habits::add(added, {.id = id, .content = token, .normalized = false, .special = true});
    if (t5) {
      const json& count = habits.get("extra_ids");
      const std::int64_t extra = count.is_number_integer() ? count.get<std::int64_t>() : 100;
      if (extra < 0 || extra > 100'000) fail("tokenizer_config.json", "extra_ids is {}", extra);
      for (std::int64_t i = 0; i < extra; ++i) {
        const std::string token = fmt::format("<extra_id_{}>", i);
        const std::int32_t known = vocabulary.find(token);
        const std::int64_t id = known >= 0 ? known : vocabulary.size() + extra - 1 - i;
        Habits::add(added, {.id = id, .content = token, .normalized = false, .special = true});
      }
    }
    parts.added = AddedTokens(std::move(added), vocabulary, nullptr);
    parts.decoder = piece_decoder(false);
    const bool with_bos = habits.flag("add_bos_token", !t5), with_eos = habits.flag("add_eos_token", t5);
    parts.post_processor = read_post_processor(frame(with_bos ? bos : "", with_eos ? eos : "", parts));
    parts.special.unk = parts.model->unknown();
    find_special_tokens(parts, habits);
    if (parts.special.eos < 0) parts.special.eos = id_in(parts, eos);
    if (parts.special.bos < 0 && !t5) parts.special.bos = id_in(parts, bos);
    if (parts.special.pad < 0) parts.special.pad = id_in(parts, pad);
    add_files(parts, habits, t5 ? "T5Tokenizer" : "LlamaTokenizer", {{path.filename().string(), read_file(path)}});
    if (fs::is_regular_file(path.parent_path() / "config.json")) parts.main_file = path.filename().string();
    return make_tokenizer(std::move(parts));
  });
}

}  // namespace

bool is_marian(const fs::path& folder) {
  return fs::is_regular_file(folder / "source.spm") && fs::is_regular_file(folder / "target.spm") &&
      fs::is_regular_file(folder / "vocab.json");
}

bool is_joint_marian(const fs::path& folder) {
  return is_marian(folder) && !Habits(folder).flag("separate_vocabs", false) &&
      read_file(folder / "source.spm") == read_file(folder / "target.spm");
}

namespace {

TokenizerPtr marian_of(const fs::path& model, std::string_view bytes, Vocabulary vocabulary, const Habits& habits,
                       std::map<std::string, std::string> files) {
  const std::string unk = habits.token("unk_token", "<unk>"), eos = habits.token("eos_token", "</s>"),
                    pad = habits.token("pad_token", "<pad>");
  Pipeline parts;
  parts.model = sentencepiece_model(model.string(), bytes, std::move(vocabulary), unk, true);
  std::vector<AddedToken> added = habits.added();
  for (const std::string& token : {eos, unk, pad})
    if (const std::int32_t id = parts.model->vocabulary().find(token); id >= 0)
      Habits::add(added, {.id = id, .content = token, .normalized = false, .special = true});
  parts.added = AddedTokens(std::move(added), parts.model->vocabulary(), nullptr);
  parts.decoder = piece_decoder(true);
  json both = frame("", eos, parts);  // two texts are one behind the other
  both["pair"] = json::array({text_step("A", 0), text_step("B", 0), token_step(eos, 0)});
  parts.post_processor = read_post_processor(both);
  parts.special = {id_in(parts, pad), id_in(parts, unk), -1, id_in(parts, eos)};
  add_files(parts, habits, "MarianTokenizer", std::move(files));
  return make_tokenizer(std::move(parts));
}

}  // namespace

TokenizerPtr load_marian(const fs::path& folder, const std::string& side) {
  const Habits habits(folder);
  const fs::path model = folder / (side + ".spm");
  const bool separate = habits.flag("separate_vocabs", false) && side == "target";
  const fs::path vocabulary = folder / (separate ? "target_vocab.json" : "vocab.json");
  return in_file(vocabulary, [&] {
    const std::string bytes = read_file(model);
    std::map<std::string, std::string> files{{vocabulary.filename().string(), read_file(vocabulary)}, {model.filename().string(), bytes}};
    if (is_joint_marian(folder)) files = {{"vocab.json", read_file(vocabulary)}, {"source.spm", bytes}, {"target.spm", bytes}};
    return marian_of(model, bytes, read_vocabulary({{"vocab", read_json(vocabulary)}}), habits, std::move(files));
  });
}

TokenizerPtr marian_tokenizer(std::string_view bytes, const std::string& side, Vocabulary vocabulary,
                              std::map<std::string, std::string> files) {
  return marian_of(side + ".spm", bytes, std::move(vocabulary), Habits(), std::move(files));
}

TokenizerPtr parse_tokenizer(std::string_view text) {
  Pipeline parts = read_pipeline(parse_json(text, "tokenizer.json"));
  find_special_tokens(parts, Habits());
  parts.main_file = "tokenizer.json";
  add_files(parts, Habits(), any_class, {{parts.main_file, std::string(text)}});
  return make_tokenizer(std::move(parts));
}

TokenizerPtr load_word_piece(const fs::path& vocabulary) {
  return load_bert(vocabulary, vocabulary.filename() == "vocab.txt" ? Habits(vocabulary.parent_path()) : Habits());
}

TokenizerPtr load_huggingface_json(const fs::path& file) {
  const std::string name = file.filename().string();
  const Habits habits = name == "tokenizer.json" || name == "vocab.json" ? Habits(file.parent_path()) : Habits();
  if (!name.ends_with("vocab.json")) return load_tokenizer_json(file, habits);
  if (name == "vocab.json" && is_marian(file.parent_path())) return load_marian(file.parent_path(), "source");
  return load_byte_level(file, file.parent_path() / (name.substr(0, name.size() - 10) + "merges.txt"), habits);
}

TokenizerPtr load_huggingface_folder(const fs::path& folder) {
  const auto has = [&](const char* name) { return fs::is_regular_file(folder / name); };
  if (has("tokenizer.json")) return load_tokenizer_json(folder / "tokenizer.json", Habits(folder));
  if (is_marian(folder)) return load_marian(folder, "source");
  if (TokenizerPtr found = has("sentencepiece.bpe.model") ? load_many_languages(folder, Habits(folder)) : nullptr) return found;
  if (has("vocab.json") && has("merges.txt")) return load_byte_level(folder / "vocab.json", folder / "merges.txt", Habits(folder));
  for (const char* name : {"spiece.model", "tokenizer.model", "sentencepiece.bpe.model"})
    if (has(name)) {
      const Habits habits(folder);
      return habits.any() ? load_family(folder / name, habits) : load_tokenizer(folder / name);
    }
  return nullptr;
}

}  // namespace transformer
