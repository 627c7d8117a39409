#include "transformer/chat/chat_template.h"

#include <array>

#include "chat/jinja/machine.h"
#include "io/shared/json.h"
#include "io/shared/read_file.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_template = std::size_t{1} << 20;  // bytes

// A token is written as text or as an object with its content.
std::optional<std::string> token_text(const nlohmann::json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object() && token.contains("content") && token["content"].is_string()) return token["content"].get<std::string>();
  return {};
}

// The special tokens that a file names are added to those that are known.
void add_special_tokens(const nlohmann::json& file, Json& tokens) {
  constexpr std::array<const char*, 7> names = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
  if (!file.is_object()) return;
  for (const char* name : names)
    if (file.contains(name) && !tokens.contains(name))
      if (const auto text = token_text(file[name])) tokens[name] = *text;
  constexpr const char* more = "additional_special_tokens";
  if (file.contains(more) && file[more].is_array() && !tokens.contains(more)) {
    Json list = Json::array();
    for (const nlohmann::json& token : file[more])
      if (const auto text = token_text(token)) list.push_back(*text);
    tokens[more] = std::move(list);
  }
}

// The template of tokenizer_config.json: a text, or a list of objects with name and template.
std::optional<std::string> template_of(const nlohmann::json& config, const std::string& which, const std::string& where) {
  if (!config.is_object() || !config.contains("chat_template") || config["chat_template"].is_null()) return {};
  const nlohmann::json& value = config["chat_template"];
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) fail(where, "chat_template is neither a text nor a list of templates");
  std::string known;
  for (const nlohmann::json& item : value) {
    if (!item.is_object() || !item.contains("name") || !item["name"].is_string() || !item.contains("template") ||
        !item["template"].is_string())
      fail(where, "chat_template is a list with an entry that is not an object with a name and a template");
    if (item["name"] == which) return item["template"].get<std::string>();
    known += (known.empty() ? "" : ", ") + item["name"].get<std::string>();
  }
  fail(where, "chat_template has no template '{}': there are {}", which, known.empty() ? "none" : known);
}

std::tm local_time() {
  const std::time_t seconds = std::time(nullptr);
  std::tm now{};
  localtime_r(&seconds, &now);
  return now;
}

}  // namespace

struct ChatTemplate::Parsed {
  std::string source, name;
  jinja::Body body;
};

ChatTemplate::ChatTemplate(std::string source, std::string name) {
  if (source.size() > longest_template) fail(name, "the template has {} bytes: expected {} at most", source.size(), longest_template);
  auto parsed = std::make_shared<Parsed>();
  parsed->body = jinja::parse(source, name);
  parsed->source = std::move(source);
  parsed->name = std::move(name);
  parsed_ = std::move(parsed);
}

std::optional<ChatTemplate> ChatTemplate::load(const std::filesystem::path& folder, const std::string& which) {
  const auto file = folder / "chat_template.jinja", config_path = folder / "tokenizer_config.json",
             map = folder / "special_tokens_map.json";
  const nlohmann::json config = std::filesystem::exists(config_path) ? read_json(config_path) : nlohmann::json::object();
  std::optional<ChatTemplate> made;
  if (std::filesystem::exists(file)) made.emplace(read_file(file), file.string());
  else if (auto source = template_of(config, which, config_path.string()))
    made.emplace(std::move(*source), config_path.string() + ": chat_template");
  if (!made) return {};
  add_special_tokens(config, made->special_tokens_);
  if (std::filesystem::exists(map)) add_special_tokens(read_json(map), made->special_tokens_);
  return made;
}

std::string ChatTemplate::render(const std::vector<ChatMessage>& messages, const ChatOptions& options) const {
  Json list = Json::array();
  for (const ChatMessage& m : messages) list.push_back({{"role", m.role}, {"content", m.content}});
  return render_json(list, options);
}

std::string ChatTemplate::render_json(const Json& messages, const ChatOptions& options) const {
  jinja::Items variables;
  auto set = [&](const std::string& name, const Json& value) {
    for (auto& [key, held] : variables)
      if (*key.string() == name) return void(held = jinja::Value::of(value));
    variables.emplace_back(jinja::Value(name), jinja::Value::of(value));
  };
  for (const auto& [name, value] : special_tokens_.items()) set(name, value);
  if (!options.variables.is_object()) fail(parsed_->name, "variables must be an object of names and values");
  for (const auto& [name, value] : options.variables.items()) set(name, value);
  set("messages", messages);
  set("tools", options.tools);
  set("documents", options.documents);
  set("add_generation_prompt", options.add_generation_prompt);
  jinja::Machine machine(parsed_->name, std::move(variables), options.now ? *options.now : local_time());
  return machine.render(parsed_->body);
}

const std::string& ChatTemplate::source() const { return parsed_->source; }

void ChatTemplate::set_special_tokens(Json tokens) { special_tokens_ = std::move(tokens); }

}  // namespace transformer
