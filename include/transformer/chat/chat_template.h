#pragma once
// The text that a conversation becomes for a chat model, by the template that comes with the model.
//
//   auto chat = ChatTemplate::load("folder");                      // none where the model has no template
//   std::string prompt = chat->render({{"user", "Hello"}}, {.add_generation_prompt = true});
//
// Templates are written in Jinja. Of it there is what published chat templates use: for (with else, break, continue), if, set
// (also namespaces and blocks), macros, with, filter, raw, comments and white space control; expressions with all operators,
// slices, the common filters, tests and methods of Python's str, dict and list; raise_exception, strftime_now, range, dict,
// namespace. Anything else is an Error that names it and its line. Hugging Face Transformers' settings hold: trim_blocks,
// lstrip_blocks, a tojson that does not escape HTML, values that templates cannot change.
//
// Templates come with models from anywhere: they can do nothing but give text, in bounded time and memory.

#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace transformer {

struct ChatMessage {
  std::string role = {};  // "system", "user", "assistant"; the template says which there are
  std::string content = {};
};

struct ChatOptions {
  bool add_generation_prompt = false;                                   // end with what the assistant's answer begins with
  nlohmann::ordered_json tools = nullptr;                               // a list of JSON schemas, for templates that know tools
  nlohmann::ordered_json documents = nullptr;                           // a list of objects, for templates that know documents
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  // others that the template asks for
  std::optional<std::tm> now = {};                                      // what strftime_now says; by default the local time
};

class ChatTemplate {
 public:
  // The template's text. `name` stands in messages.
  explicit ChatTemplate(std::string source, std::string name = "chat template");
  // chat_template.jinja of a model's folder, or chat_template of its tokenizer_config.json; where that is a list, the one called
  // `which`. The special tokens (bos_token, eos_token, …) of tokenizer_config.json and special_tokens_map.json are variables.
  static std::optional<ChatTemplate> load(const std::filesystem::path& folder, const std::string& which = "default");

  // Error when the template refuses the conversation (raise_exception), with its words.
  std::string render(const std::vector<ChatMessage>& messages, const ChatOptions& options = {}) const;
  // Messages with whatever the template reads: content in parts, tool calls.
  std::string render_json(const nlohmann::ordered_json& messages, const ChatOptions& options = {}) const;

  const std::string& source() const;
  void set_special_tokens(nlohmann::ordered_json tokens);  // {"bos_token": "<s>", …}

 private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed_;
  nlohmann::ordered_json special_tokens_ = nlohmann::ordered_json::object();
};

}  // namespace transformer
