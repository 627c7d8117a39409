// Tokenizers of Hugging Face folders: tokenizer.json, and the older files, each made into the parts that tokenizer.json has.
#include "io/read_file.h"
#include "text/json_parts.h"
#include "text/kinds.h"
#include "text/pipeline.h"
#include "transformer/io/json.h"
#include "transformer/text/utf8.h"

namespace transformer {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* config_names[] = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"};
constexpr const char* any_class = "PreTrainedTokenizerFast";  // Hugging Face's class for any tokenizer.json

// What the small files beside a tokenizer say.
class Habits {
 public:
  Habits() = default;
  explicit Habits(const fs::path& folder) {
    for (const char* name : config_names) {
      if (!fs::is_regular_file(folder / name)) continue;
      json file = read_json(folder / name);
      if (!file.is_object()) fail((folder / name).string(), "expected an object, got {}", file.type_name());
      files_[name] = read_file(folder / name);
      parsed_.emplace_back(name, std::move(file));
    }
    if (fs::is_regular_file(folder / "config.json")) {
      const json model = read_json(folder / "config.json");
      if (model.is_object() && model.contains("model_type") && model["model_type"].is_string()) model_type_ = model["model_type"];
    }
  }

  bool any() const { return !parsed_.empty() || !model_type_.empty(); }
  const std::map<std::string, std::string>& files() const { return files_; }

  // The first of the files that has the key and says something; null otherwise.
  const json& get(const std::string& key) const {
    static const json null;
    for (const auto& [name, file] : parsed_)
      if (const auto found = file.find(key); name != "added_tokens.json" && found != file.end() && !found->is_null()) return *found;
    return null;
  }
  bool flag(const std::string& key, bool otherwise) const { return get(key).is_boolean() ? get(key).get<bool>() : otherwise; }
  // "bos_token": "<s>" or {"content": "<s>", …}.
  std::string token(const std::string& key, const std::string& otherwise = "") const {
    const json& value = get(key);
    if (value.is_string()) return value;
    if (value.is_object() && value.contains("content") && value["content"].is_string()) return value["content"];
    return otherwise;
  }

  // Does the tokenizer's class, or the model's type, contain this (in lower case)?
  bool is(std::string_view family) const {
    std::string name = model_type_ + " " + token("tokenizer_class");
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return name.find(family) != std::string::npos;
  }

  // Tokens of added_tokens.json and of the "added_tokens_decoder" of tokenizer_config.json.
  std::vector<AddedToken> added() const {
    std::vector<AddedToken> tokens;
    const json& decoder = get("added_tokens_decoder");
    if (decoder.is_object()) {
      for (const auto& [id, value] : decoder.items()) {
        AddedToken token;
        from_json(value, token);
        if (id.empty() || id.size() > 9 || id.find_first_not_of("0123456789") != std::string::npos)
          fail("added_tokens_decoder", "'{}' is not the id of a token", id);
        token.id = std::stoll(id);
        tokens.push_back(token);
      }
    }
    for (const auto& [name, file] : parsed_) {
      if (name != "added_tokens.json") continue;
      for (const auto& [content, id] : file.items()) {
        if (!id.is_number_integer()) fail(name, "the id of '{}' must be an integer", content);
        add(tokens, {.id = id.get<std::int64_t>(), .content = content});
      }
    }
    return tokens;
  }

  static void add(std::vector<AddedToken>& tokens, AddedToken token) {
    for (const AddedToken& there : tokens)
      if (there.content == token.content) return;
    tokens.push_back(std::move(token));
  }

 private:
  std::vector<std::pair<std::string, json>> parsed_;
  std::map<std::string, std::string> files_;
  std::string model_type_;
};

std::int32_t id_in(const Pipeline& parts, const std::string& token) {
  if (token.empty()) return -1;
  const std::int32_t added = parts.added.vocabulary().find(token);
  return added >= 0 ? added : parts.model->vocabulary().find(token);
}

// The special tokens that the files name; without such files, those that have the usual names.
void find_special_tokens(Pipeline& parts, const Habits& habits) {
  const auto find = [&](const char* key, std::initializer_list<const char*> usual) -> std::int32_t {
    if (const std::string named = habits.token(key); !named.empty()) return id_in(parts, named);
    if (habits.any()) return -1;
    for (const char* name : usual)
      if (const std::int32_t id = parts.added.vocabulary().find(name); id >= 0 && parts.added.is_special(id)) return id;
    return -1;
  };
  SpecialTokens& special = parts.special;
  special.pad = find("pad_token", {"<pad>", "[PAD]", "<|pad|>"});
  special.bos = find("bos_token", {"<s>", "<bos>", "<|begin_of_text|>", "<|endoftext|>"});
  special.eos = find("eos_token", {"</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>"});
  special.cls = find("cls_token", {"[CLS]", "<s>"});
  special.sep = find("sep_token", {"[SEP]", "</s>"});
  special.mask = find("mask_token", {"[MASK]", "<mask>"});
  if (special.unk < 0) special.unk = find("unk_token", {"<unk>", "[UNK]"});
}

// What belongs into a model's folder for the same tokenizer to come out of it: the files under the names that are looked for there,
// whatever they were called, and what the small files say. Where none names the special tokens, one is made that does, with the class:
// beside the config.json of a model the usual names are not guessed, and that model may be of another family.
void add_files(Pipeline& parts, const Habits& habits, const char* tokenizer_class, std::map<std::string, std::string> files) {
  parts.files = std::move(files);
  parts.files.insert(habits.files().begin(), habits.files().end());
  if (tokenizer_class == nullptr || parts.files.contains(config_names[0]) || parts.files.contains(config_names[1])) return;
  json about{{"tokenizer_class", tokenizer_class}, {"clean_up_tokenization_spaces", false}};
  const SpecialTokens& s = parts.special;
  for (const auto& [key, id] : {std::pair{"pad_token", s.pad},
                                {"unk_token", s.unk},
                                {"bos_token", s.bos},
                                {"eos_token", s.eos},
                                {"cls_token", s.cls},
                                {"sep_token", s.sep},
                                {"mask_token", s.mask}}) {
    if (id < 0) continue;
    const std::string_view added = parts.added.token(id);
    about[key] = added.empty() ? parts.model->vocabulary().token(id) : added;
  }
  parts.files[config_names[0]] = about.dump(2, ' ', false, json::error_handler_t::replace) + "\n";  // pieces may be any bytes
}

// Runs read with the file's name in its errors.
auto in_file(const fs::path& path, auto&& read) {
  try {
    return read();
  } catch (const Error& e) {
    if (std::string_view(e.what()).starts_with(path.string())) throw;
    fail(path.string(), "{}", e.what());
  }
}

TokenizerPtr load_tokenizer_json(const fs::path& path, const Habits& habits) {
  return in_file(path, [&] {
    Pipeline parts = read_pipeline(read_json(path));
    find_special_tokens(parts, habits);
    parts.main_file = "tokenizer.json";
    add_files(parts, habits, habits.any() ? nullptr : any_class, {{parts.main_file, read_file(path)}});
    return make_tokenizer(std::move(parts));
  });
}

json special_token(const std::string& token, std::int64_t id, bool lstrip = false) {
  return {{"id", id},        {"content", token},    {"single_word", false}, {"lstrip", lstrip},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

json text_step(const char* id, int type) { return {{"Sequence", {{"id", id}, {"type_id", type}}}}; }
json token_step(const std::string& token, int type) { return {{"SpecialToken", {{"id", token}, {"type_id", type}}}}; }

// "bos A eos" and "bos A eos bos B eos"; an empty name is left out.
json frame(const std::string& bos, const std::string& eos, const Pipeline& parts, bool bos_twice = true) {
  json single = json::array(), pair, special = json::object();
  const auto add = [&](json& list, const std::string& token, int type) {
    if (token.empty()) return;
    const std::int32_t id = id_in(parts, token);
    if (id < 0) fail("tokenizer", "the vocabulary has no '{}'", token);
    special[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
    list.push_back(token_step(token, type));
  };
  add(single, bos, 0);
  single.push_back(text_step("A", 0));
  add(single, eos, 0);
  pair = single;
  if (bos_twice) add(pair, bos, 1);
  pair.push_back(text_step("B", 1));
  add(pair, eos, 1);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
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

// SentencePiece with the habits of T5 (</s> behind a text, <extra_id_0> … for its gaps) or of LLaMA (<s> before it).
TokenizerPtr load_family(const fs::path& path, const Habits& habits) {
  const bool t5 = habits.is("t5");
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
    const json space = {{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}};
    const json first = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
    parts.decoder = read_decoder({{"type", "Sequence"}, {"decoders", {space, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}, first}}});
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

TokenizerPtr load_marian(const fs::path& folder, const std::string& side) {
  const Habits habits(folder);
  const fs::path model = folder / (side + ".spm");
  const bool separate = habits.flag("separate_vocabs", false) && side == "target";
  const fs::path vocabulary = folder / (separate ? "target_vocab.json" : "vocab.json");
  return in_file(vocabulary, [&] {
    const std::string unk = habits.token("unk_token", "<unk>"), eos = habits.token("eos_token", "</s>"),
                      pad = habits.token("pad_token", "<pad>");
    Pipeline parts;
    parts.model = sentencepiece_model(model.string(), read_file(model), read_vocabulary({{"vocab", read_json(vocabulary)}}), unk);
    std::vector<AddedToken> added = habits.added();
    for (const std::string& token : {eos, unk, pad})
      if (const std::int32_t id = parts.model->vocabulary().find(token); id >= 0)
        Habits::add(added, {.id = id, .content = token, .normalized = false, .special = true});
    parts.added = AddedTokens(std::move(added), parts.model->vocabulary(), nullptr);
    const json space = {{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}};
    const json ends = {{"type", "Strip"}, {"content", " "}, {"start", 1'000'000'000}, {"stop", 1'000'000'000}};
    parts.decoder = read_decoder({{"type", "Sequence"}, {"decoders", {space, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}, ends}}});
    json both = frame("", eos, parts);  // two texts are one behind the other
    both["pair"] = json::array({text_step("A", 0), text_step("B", 0), token_step(eos, 0)});
    parts.post_processor = read_post_processor(both);
    parts.special = {id_in(parts, pad), id_in(parts, unk), -1, id_in(parts, eos)};
    add_files(parts, habits, "MarianTokenizer",
              {{vocabulary.filename().string(), read_file(vocabulary)}, {model.filename().string(), read_file(model)}});
    return make_tokenizer(std::move(parts));
  });
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
  if (has("vocab.json") && has("merges.txt")) return load_byte_level(folder / "vocab.json", folder / "merges.txt", Habits(folder));
  for (const char* name : {"spiece.model", "tokenizer.model", "sentencepiece.bpe.model"})
    if (has(name)) {
      const Habits habits(folder);
      return habits.any() ? load_family(folder / name, habits) : load_tokenizer(folder / name);
    }
  return nullptr;
}

}  // namespace transformer
