#include "tokenizers/habits.h"

#include <algorithm>
#include <cctype>

#include "io/shared/json.h"
#include "io/shared/read_file.h"
#include "tokenizers/json_parts.h"
#include "tokenizers/shared/tokenizer_config.h"

namespace transformer {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {
constexpr const char* config_names[] = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"};
}

Habits::Habits(const fs::path& folder) {
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

const json& Habits::get(const std::string& key) const {
  static const json null;
  for (const auto& [name, file] : parsed_)
    if (const auto found = file.find(key); name != "added_tokens.json" && found != file.end() && !found->is_null()) return *found;
  return null;
}

std::string Habits::token(const std::string& key, const std::string& otherwise) const {
  const json& value = get(key);
  if (value.is_string()) return value;
  if (value.is_object() && value.contains("content") && value["content"].is_string()) return value["content"];
  return otherwise;
}

bool Habits::is(std::string_view family) const {
  std::string name = model_type_ + " " + token("tokenizer_class");
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name.find(family) != std::string::npos;
}

std::vector<AddedToken> Habits::added() const {
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

void Habits::add(std::vector<AddedToken>& tokens, AddedToken token) {
  for (const AddedToken& there : tokens)
    if (there.content == token.content) return;
  tokens.push_back(std::move(token));
}

std::int32_t id_in(const Pipeline& parts, const std::string& token) {
  if (token.empty()) return -1;
  const std::int32_t added = parts.added.vocabulary().find(token);
  return added >= 0 ? added : parts.model->vocabulary().find(token);
}

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

void add_files(Pipeline& parts, const Habits& habits, const char* tokenizer_class, std::map<std::string, std::string> files) {
  parts.files = std::move(files);
  parts.files.insert(habits.files().begin(), habits.files().end());
  if (tokenizer_class == nullptr || parts.files.contains(config_names[0]) || parts.files.contains(config_names[1])) return;
  const auto token = [&](std::int32_t id) {
    const std::string_view added = parts.added.token(id);
    return std::string(added.empty() ? parts.model->vocabulary().token(id) : added);
  };
  const json about = tokenizer_config(special_names(parts.special, token),
                                      {{"tokenizer_class", tokenizer_class}, {"clean_up_tokenization_spaces", false}});
  parts.files[config_names[0]] = about.dump(2, ' ', false, json::error_handler_t::replace) + "\n";  // pieces may be any bytes
}

json text_step(const char* id, int type) { return {{"Sequence", {{"id", id}, {"type_id", type}}}}; }
json token_step(const std::string& token, int type) { return {{"SpecialToken", {{"id", token}, {"type_id", type}}}}; }

json frame(const std::string& bos, const std::string& eos, const Pipeline& parts, bool bos_twice) {
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

Decoder piece_decoder(bool both) {
  const json space = {{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}};
  const int most = 1'000'000'000;
  const json ends = {{"type", "Strip"}, {"content", " "}, {"start", both ? most : 1}, {"stop", both ? most : 0}};
  return read_decoder({{"type", "Sequence"}, {"decoders", {space, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}, ends}}});
}

}  // namespace transformer
