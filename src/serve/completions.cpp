// /v1/completions and /v1/chat/completions.
#include <algorithm>
#include <ctime>
#include <random>
#include <utility>

#include "serve/api.h"
#include "serve/generation.h"
#include "transformer/core/error.h"
#include "transformer/generate/json_constraint.h"

namespace transformer::serve {
namespace {

using nlohmann::json;

std::string new_id(std::string_view kind) {
  static std::atomic<std::uint64_t> count{std::random_device()()};
  return fmt::format("{}-{:016x}", kind, (count++) * 0x9E3779B97F4A7C15ULL);
}

// presence_penalty, and frequency_penalty for each time, off the logits of what was generated.
LogitsProcessor openai_penalties(double presence, double frequency) {
  return [presence, frequency](const LogitsRow& row, std::span<float> logits) {
    std::map<std::int32_t, int> counts;
    for (const std::int32_t id : row.ids.subspan(static_cast<std::size_t>(row.prompt))) ++counts[id];
    for (const auto& [id, count] : counts)
      if (id >= 0 && id < std::ssize(logits)) logits[static_cast<std::size_t>(id)] -= static_cast<float>(presence + frequency * count);
  };
}

std::string reason(FinishReason finish) { return finish == FinishReason::length ? "length" : "stop"; }

json usage_json(std::int64_t prompt, std::int64_t generated) {
  return {{"prompt_tokens", prompt}, {"completion_tokens", generated}, {"total_tokens", prompt + generated}};
}

bool wants_usage(const AnyOf& options) {
  if (!options.given()) return false;
  if (!options.value.is_object()) detail::wrong("stream_options", "an object");
  for (const auto& [key, value] : options.value.items())
    if (key != "include_usage" || !value.is_boolean()) detail::wrong("stream_options", "an object with include_usage: true or false");
  return options.value.value("include_usage", false);
}

}  // namespace

// Where the next token of an answer stands.
struct AnswerPlace {
  std::size_t offset = 0;  // characters of the text before it
  bool begins = false;     // it begins a text: tokenizers leave out the space that a first word's token has
};

// One answer as it grows.
struct AnswerChoice {
  std::string text = {};
  std::optional<FinishReason> finish = {};
  AnswerPlace place = {};
  json tokens = json::array(), token_logprobs = json::array(), top_logprobs = json::array(), text_offset = json::array();  // completions
  json content = json::array();                                                                                            // chat
};

// A prompt that the answer begins with.
struct EchoedPrompt {
  std::string text = {};
  std::vector<std::int32_t> ids = {};
  std::vector<ReadToken> tokens = {};  // with logprobs
};

// What differs between the two endpoints.
struct AnswerShape {
  bool chat = false, logprobs = false, echo = false, own_text = false;  // own_text: the answer does not go on from the prompt's
  std::string id = {}, model = {};
  std::int64_t created = 0;
  const Tokenizer* tokenizer = nullptr;
  std::shared_ptr<const std::vector<std::string>> bytes = {};  // of the tokens; with logprobs

  std::string object(bool chunk) const { return chat ? chunk ? "chat.completion.chunk" : "chat.completion" : "text_completion"; }
  json envelope(bool chunk) const {
    return {{"id", id}, {"object", object(chunk)}, {"created", created}, {"model", model}, {"choices", json::array()}};
  }
  bool special(std::int32_t token) const { return token < 0 || token >= tokenizer->size() || tokenizer->is_special(token); }
  // Of tokens that have none, such as special ones, their names.
  std::string token_bytes(std::int32_t token) const {
    if (token < 0 || token >= tokenizer->size()) return "";
    const std::string& known = (*bytes)[static_cast<std::size_t>(token)];
    return known.empty() ? tokenizer->decode(std::span(&token, 1), false) : known;
  }
  // Parts of characters as OpenAI writes them.
  static std::string shown(const std::string& bytes) {
    if (is_valid_utf8(bytes)) return bytes;
    std::string text = "bytes:";
    for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    return text;
  }
  static std::size_t characters(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
  }

  json chat_logprob(std::int32_t token, float score) const {
    const std::string text = token_bytes(token);
    json each = json::array();
    for (const char c : text) each.push_back(static_cast<unsigned char>(c));
    return {{"token", shown(text)}, {"logprob", score}, {"bytes", each}};
  }
  void add(AnswerChoice& choice, const GenerationEvent& e) const {
    if (logprobs && chat) {
      json one = chat_logprob(e.id, e.score);
      one["top_logprobs"] = json::array();
      for (const TokenScore& t : e.best) one["top_logprobs"].push_back(chat_logprob(t.id, t.score));
      choice.content.push_back(std::move(one));
    } else if (logprobs) {
      std::string text = token_bytes(e.id);
      const bool seen = !special(e.id);  // in the text
      if (seen && std::exchange(choice.place.begins, false) && text.starts_with(' ') && !tokenizer->decode({&e.id, 1}).starts_with(' '))
        text.erase(0, 1);
      choice.tokens.push_back(shown(text));
      choice.token_logprobs.push_back(e.score);
      json best = json::object();
      for (const TokenScore& t : e.best)
        if (t.id != e.id) best[shown(token_bytes(t.id))] = t.score;
      best[shown(text)] = e.score;  // whether it is one of the best or not
      choice.top_logprobs.push_back(best);
      choice.text_offset.push_back(choice.place.offset);
      choice.place.offset += seen ? characters(text) : 0;
    }
    choice.text += e.text;
    if (e.finish) choice.finish = e.finish;
  }
  // The prompt before the answer, with what is known of its tokens.
  void add_prompt(AnswerChoice& choice, const EchoedPrompt& prompt) const {
    choice.place.begins |= !prompt.tokens.empty();
    for (std::size_t i = 0; i < prompt.tokens.size(); ++i) {
      const ReadToken& token = prompt.tokens[i];
      add(choice, {.id = prompt.ids[i], .score = token.score.value_or(0.0F), .best = token.best});
      if (!token.score) choice.token_logprobs.back() = choice.top_logprobs.back() = nullptr;
    }
    choice.text = prompt.text;
    choice.place = {.offset = characters(prompt.text), .begins = own_text};
  }
  json logprobs_json(const AnswerChoice& c) const {
    if (!logprobs) return nullptr;
    if (chat) return {{"content", c.content}};
    return {{"tokens", c.tokens}, {"token_logprobs", c.token_logprobs}, {"top_logprobs", c.top_logprobs}, {"text_offset", c.text_offset}};
  }
  json choice_json(std::size_t index, const AnswerChoice& c) const {
    json out{{"index", index}, {"logprobs", logprobs_json(c)}, {"finish_reason", c.finish ? json(reason(*c.finish)) : json(nullptr)}};
    if (chat) out["message"] = {{"role", "assistant"}, {"content", c.text}};
    else out["text"] = c.text;
    return out;
  }
  // One event of a stream.
  json chunk_json(std::size_t index, const AnswerChoice& c, bool first) const {
    json out{{"index", index}, {"logprobs", logprobs_json(c)}, {"finish_reason", c.finish ? json(reason(*c.finish)) : json(nullptr)}};
    if (chat) {
      out["delta"] = json::object();
      if (first) out["delta"]["role"] = "assistant";
      if (!c.text.empty() || first) out["delta"]["content"] = c.text;
    } else {
      out["text"] = c.text;
    }
    json chunk = envelope(true);
    chunk["choices"].push_back(std::move(out));
    return chunk;
  }
};

// A request under way.
struct RunningAnswer {
  AnswerShape shape;
  std::size_t n = 1;
  std::int64_t prompt_tokens = 0, generated = 0;
  bool too_late = false;  // a stream ended so
  std::vector<EchoedPrompt> echoes = {};
  std::unique_ptr<Generation> generation;  // null: nothing is to be generated

  std::size_t index(const GenerationEvent& e) const { return e.prompt * n + e.sequence; }
  AnswerChoice beginning(std::size_t i) const {
    AnswerChoice choice{.place = {.begins = shape.own_text}};
    if (shape.echo) shape.add_prompt(choice, echoes[i / n]);
    return choice;
  }
};

namespace {

void answer_at_once(RunningAnswer& running, std::size_t choices, httplib::Response& response) {
  std::vector<AnswerChoice> all(choices);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = running.beginning(i);
  while (running.generation != nullptr) {
    const std::optional<GenerationEvent> event = running.generation->next();
    if (!event) break;
    running.shape.add(all[running.index(*event)], *event);
    ++running.generated;
  }
  json answer = running.shape.envelope(false);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (running.generation == nullptr) all[i].finish = FinishReason::length;
    answer["choices"].push_back(running.shape.choice_json(i, all[i]));
  }
  answer["usage"] = usage_json(running.prompt_tokens, running.generated);
  response.set_content(dump(answer), "application/json");
}

// Events of text/event-stream. `done` is told the tokens when it ends, however it does.
void answer_as_stream(const std::shared_ptr<RunningAnswer>& running, std::size_t choices, bool usage, httplib::Response& response,
                      const std::function<void(const RunningAnswer&, bool success)>& done) {
  const auto begun = std::make_shared<std::vector<std::uint8_t>>(choices, 0);
  const auto places = std::make_shared<std::vector<AnswerPlace>>(choices);
  const auto provider = [running, begun, places, usage](std::size_t, httplib::DataSink& sink) {
    const auto send = [&](const std::string& data) {
      const std::string event = "data: " + data + "\n\n";
      return sink.write(event.data(), event.size());
    };
    try {
      std::optional<GenerationEvent> event;
      if (running->generation != nullptr) event = running->generation->next();
      if (event) {
        ++running->generated;
        const std::size_t index = running->index(*event);
        const bool first = (*begun)[index] == 0;
        AnswerChoice piece = first ? running->beginning(index) : AnswerChoice{.place = (*places)[index]};
        running->shape.add(piece, *event);
        (*places)[index] = piece.place;
        (*begun)[index] = 1;
        // Nothing to show yet: a part of a character.
        if (piece.text.empty() && !piece.finish && !first && !running->shape.logprobs) return true;
        return send(dump(running->shape.chunk_json(index, piece, first)));
      }
      if (running->generation == nullptr)
        for (std::size_t i = 0; i < begun->size(); ++i) {
          AnswerChoice empty = running->beginning(i);
          empty.finish = FinishReason::length;
          if (!send(dump(running->shape.chunk_json(i, empty, true)))) return false;
        }
      if (usage) {
        json last = running->shape.envelope(true);
        last["usage"] = usage_json(running->prompt_tokens, running->generated);
        if (!send(dump(last))) return false;
      }
      if (!send("[DONE]")) return false;
      sink.done();
      return true;
    } catch (const ApiError& e) {
      running->too_late = e.status == 504;
      if (e.status != 499) static_cast<void>(send(dump(error_json(e)))), sink.done();
      return e.status != 499;
    }
  };
  response.set_header("Cache-Control", "no-cache");
  response.set_chunked_content_provider("text/event-stream", provider, [running, done](bool success) {
    done(*running, success);
    running->generation.reset();
  });
}

std::vector<ChatMessage> messages_of(const AnyOf& given) {
  if (!given.value.is_array() || given.value.empty()) detail::wrong("messages", "a list of one or more messages");
  std::vector<ChatMessage> messages;
  for (const auto& m : given.value) {
    if (!m.is_object() || !m.contains("role") || !m["role"].is_string())
      detail::wrong("messages", "a list of objects with role and content");
    ChatMessage& message = messages.emplace_back();
    message.role = m["role"].get<std::string>();
    const nlohmann::ordered_json content = m.contains("content") ? m["content"] : nlohmann::ordered_json();
    if (content.is_string()) {
      message.content = content.get<std::string>();
    } else if (content.is_array()) {
      for (const auto& part : content) {
        if (!part.is_object() || !part.contains("type") || part["type"] != "text" || !part.contains("text") || !part["text"].is_string())
          detail::wrong("messages", "texts: other parts of a content are not understood");
        message.content += part["text"].get<std::string>();
      }
    } else if (!content.is_null()) {
      detail::wrong("messages", "a list of objects whose content is text");
    }
    for (const char* key : {"tool_calls", "function_call", "audio", "refusal"})
      if (m.contains(key) && !m[key].is_null())
        throw ApiError(400, fmt::format("messages: '{}' is not supported", key), "messages", "unsupported_value");
  }
  return messages;
}

// The schema that an answer is to have; none: it is plain text.
std::optional<nlohmann::ordered_json> schema_of_format(const nlohmann::ordered_json& format) {
  if (format.is_null()) return std::nullopt;
  const auto type = format.is_object() ? format.find("type") : format.end();
  if (!format.is_object() || type == format.end() || !type->is_string()) detail::wrong("response_format", "an object with a type");
  if (*type == "text") return std::nullopt;
  if (*type == "json_object") return nlohmann::ordered_json{{"type", "object"}};
  if (*type != "json_schema") detail::wrong("response_format", "of type text, json_object or json_schema");
  const auto named = format.find("json_schema");
  if (named == format.end() || !named->is_object() || !named->contains("schema"))
    detail::wrong("response_format", "an object with json_schema, which has a schema");
  return (*named)["schema"];
}

}  // namespace

GenerationConfig Api::settings(const HostedModel& model, const SamplingFields& r, std::int64_t max_tokens, GenerateOptions& options) const {
  GenerationConfig folder = model.generator() != nullptr ? model.generator()->config() : load_generation_config(model.folder());
  if (folder.eos_token_id.empty() && model.translates()) {
    const SpecialTokens special = const_cast<HostedModel&>(model).translation()->view.special();
    if (special.eos >= 0) folder.eos_token_id = {special.eos};
  }
  const std::int64_t top_k = r.top_k.value_or(folder.do_sample ? folder.top_k : 0);
  GenerationWishes wishes{.max_new_tokens = max_tokens,
                          .min_new_tokens = r.min_tokens,
                          .temperature = r.temperature.value_or(folder.do_sample ? folder.temperature : 1.0),
                          .top_k = std::max<std::int64_t>(top_k, 0),
                          .top_p = r.top_p,
                          .min_p = r.min_p,
                          .repetition_penalty = r.repetition_penalty,
                          .num_return_sequences = r.n.value_or(1),
                          .stop = strings_of(r.stop, "stop")};
  if (wishes.stop.size() > 16) detail::wrong("stop", "16 texts or fewer");
  for (const std::string& stop : wishes.stop)
    if (stop.empty()) detail::wrong("stop", "texts that are not empty");
  if (wishes.min_new_tokens && *wishes.min_new_tokens > max_tokens) detail::wrong("min_tokens", "max_tokens or less");
  GenerationConfig config = with_wishes(folder, wishes);
  config.max_length.reset();
  // The best token n times: draws from the best alone.
  if (!config.do_sample && config.num_return_sequences > 1) config.do_sample = true, config.temperature = 1.0, config.top_k = 1;
  if (config.top_p == 0.0) config.top_p = 1e-9;  // the best token alone
  if (r.logit_bias.given()) {
    if (!r.logit_bias.value.is_object()) detail::wrong("logit_bias", "an object of numbers by the numbers of tokens");
    for (const auto& [key, value] : r.logit_bias.value.items()) {
      const auto digits = std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
      const std::int64_t id = digits && !key.empty() && key.size() < 10 ? std::stoll(key) : -1;
      if (id < 0 || id >= model.tokenizers().target->size() || !value.is_number() || std::abs(value.get<double>()) > 100)
        detail::wrong("logit_bias", "numbers from -100 to 100 by the numbers of tokens");
      config.sequence_bias.push_back({{static_cast<std::int32_t>(id)}, value.get<double>()});
    }
  }
  if (r.presence_penalty.value_or(0.0) != 0.0 || r.frequency_penalty.value_or(0.0) != 0.0)
    options.processors.push_back(openai_penalties(r.presence_penalty.value_or(0.0), r.frequency_penalty.value_or(0.0)));
  if (const auto schema = schema_of_format(r.response_format.value)) {
    try {
      options.processors.push_back(json_constraint(*schema, model.tokenizers().target, config.eos_token_id));
    } catch (const Error& e) {
      throw ApiError(400, e.what(), "response_format", "unsupported_schema");
    }
  }
  options.seed = r.seed ? static_cast<std::uint64_t>(*r.seed) : (std::uint64_t{std::random_device()()} << 32U) | std::random_device()();
  return config;
}

// Tokens that may be generated behind a prompt.
std::int64_t Api::room(const HostedModel& model, std::int64_t prompt, std::optional<std::int64_t> wanted, std::int64_t usual,
                       const std::string& field) const {
  const std::int64_t own = model.generator() != nullptr ? model.generator()->context() : 0;
  std::int64_t context = options_.max_context;
  if (own > 0) context = context > 0 ? std::min(context, own) : own;
  if (wanted && *wanted > options_.max_tokens)
    throw ApiError(400, fmt::format("'max_tokens' is {}: this server gives at most {}", *wanted, options_.max_tokens), "max_tokens",
                   "invalid_value");
  if (context > 0 && prompt + wanted.value_or(1) > context)
    throw ApiError(
        400, fmt::format("the prompt has {} tokens and {} are asked for: the model's context is {}", prompt, wanted.value_or(1), context),
        field, "context_length_exceeded");
  const std::int64_t left = context > 0 ? context - prompt : options_.max_tokens;
  return wanted.value_or(std::min({usual, left, options_.max_tokens}));
}

void Api::completions(const httplib::Request& request, httplib::Response& response) {
  const auto body = read_body<CompletionRequest>(request.body);
  HostedModel& model = model_for(body.model, "complete texts",
                                 [](const HostedModel& m) { return m.generator() != nullptr || m.translates(); });
  if (body.best_of && *body.best_of != body.n.value_or(1)) detail::wrong("best_of", "equal to n, or left out");
  std::vector<std::vector<std::int32_t>> prompts;
  const auto running = std::make_shared<RunningAnswer>();
  for (PromptText& prompt : prompts_of(body)) {
    for (const std::int32_t id : prompt.ids)
      if (id >= model.tokenizers().source->size()) detail::wrong("prompt", "tokens that the model has");
    if (prompt.is_text)
      prompt.ids = model.generator() != nullptr ? model.generator()->encode(prompt.text)
                                                : model.translation()->translator.encode(prompt.text);
    if (prompt.ids.empty()) detail::wrong("prompt", "a text with tokens: the model has no token that a text begins with");
    if (body.echo.value_or(false))
      running->echoes.push_back({prompt.is_text ? prompt.text : model.tokenizers().source->decode(prompt.ids), prompt.ids});
    prompts.push_back(std::move(prompt.ids));
  }
  if (prompts.size() > 256) detail::wrong("prompt", "256 prompts or fewer");
  // The model itself ends each answer where its context does; a smaller one of the server's holds for all of them.
  std::int64_t max_tokens = options_.max_context > 0 ? options_.max_tokens : 0;
  for (const auto& ids : prompts) {
    running->prompt_tokens += std::ssize(ids);
    const std::int64_t room_here = room(model, std::ssize(ids), body.max_tokens, 16, "prompt");
    max_tokens = options_.max_context > 0 ? std::min(max_tokens, room_here) : std::max(max_tokens, room_here);
  }
  GenerateOptions options;
  options.scores = body.logprobs.has_value();
  options.alternatives = body.logprobs.value_or(0);
  const GenerationConfig config = settings(model, body, std::max<std::int64_t>(max_tokens, 1), options);
  running->n = static_cast<std::size_t>(config.num_return_sequences);
  running->shape = {.logprobs = body.logprobs.has_value(),
                    .echo = body.echo.value_or(false),
                    .own_text = model.generator() == nullptr,
                    .id = new_id("cmpl"),
                    .model = model.name(),
                    .created = std::time(nullptr),
                    .tokenizer = model.tokenizers().target.get(),
                    .bytes = body.logprobs ? model.target_bytes() : nullptr};
  if (body.echo.value_or(false) && body.logprobs) read_prompts(model, *running, static_cast<std::size_t>(*body.logprobs));
  finish_answer(model, running, std::move(prompts), config, std::move(options), max_tokens, body.stream.value_or(false),
                wants_usage(body.stream_options), response);
}

// How probable the tokens of prompts are, which is asked for with echo and logprobs.
void Api::read_prompts(HostedModel& model, RunningAnswer& running, std::size_t alternatives) const {
  if (model.generator() == nullptr || model.generator()->has_encoder())
    detail::wrong("echo", "left out with logprobs: a model with an encoder gives its prompt none");
  model.engine().run([&](Context& ctx) {
    for (EchoedPrompt& prompt : running.echoes) prompt.tokens = model.generator()->read(ctx, prompt.ids, alternatives);
  });
}

void Api::chat(const httplib::Request& request, httplib::Response& response) {
  const auto body = read_body<ChatRequest>(request.body);
  HostedModel& model = model_for(body.model, "chat", [](const HostedModel& m) { return m.generator() != nullptr; });
  const std::vector<ChatMessage> messages = messages_of(body.messages);
  std::vector<std::int32_t> ids;
  try {
    ids = model.generator()->encode_chat(messages);
  } catch (const Error& e) {
    throw ApiError(400, e.what(), "messages", "invalid_value");
  }
  if (ids.empty()) detail::wrong("messages", "a conversation with tokens");
  if (body.top_logprobs && !body.logprobs.value_or(false)) detail::wrong("top_logprobs", "given with logprobs");
  const auto running = std::make_shared<RunningAnswer>();
  running->prompt_tokens = std::ssize(ids);
  const auto wanted = body.max_completion_tokens ? body.max_completion_tokens : body.max_tokens;
  const std::int64_t max_tokens = room(model, std::ssize(ids), wanted, options_.max_tokens, "messages");
  GenerateOptions options;
  options.scores = body.logprobs.value_or(false);
  options.alternatives = body.top_logprobs.value_or(0);
  const GenerationConfig config = settings(model, body, std::max<std::int64_t>(max_tokens, 1), options);
  running->n = static_cast<std::size_t>(config.num_return_sequences);
  running->shape = {.chat = true,
                    .logprobs = options.scores,
                    .id = new_id("chatcmpl"),
                    .model = model.name(),
                    .created = std::time(nullptr),
                    .tokenizer = model.tokenizers().target.get(),
                    .bytes = options.scores ? model.target_bytes() : nullptr};
  finish_answer(model, running, {std::move(ids)}, config, std::move(options), max_tokens, body.stream.value_or(false),
                wants_usage(body.stream_options), response);
}

void Api::finish_answer(HostedModel& model, const std::shared_ptr<RunningAnswer>& running, std::vector<std::vector<std::int32_t>> prompts,
                        const GenerationConfig& config, GenerateOptions options, std::int64_t max_tokens, bool stream, bool usage,
                        httplib::Response& response) {
  const auto ids = std::make_shared<const std::vector<std::vector<std::int32_t>>>(prompts);
  options.text = [&model, ids](std::size_t prompt) -> TextStream {
    if (model.generator() != nullptr) return model.generator()->text_stream((*ids)[prompt]);
    const auto text = std::make_shared<StreamDecoder>(model.tokenizers().target);
    return [text](std::int32_t id) { return id < 0 ? text->finish() : text->push(id); };
  };
  const std::size_t choices = prompts.size() * running->n;
  try {
    if (max_tokens > 0) running->generation = std::make_unique<Generation>(model, std::move(prompts), config, std::move(options), until());
  } catch (const Error& e) {
    throw ApiError(400, e.what(), {}, "invalid_value");
  }
  const auto done = [this, &model](const RunningAnswer& r, bool success) {
    counters_.tokens(model.name(), r.prompt_tokens, r.generated);
    if (!success || r.too_late) counters_.cancelled(model.name());
  };
  if (stream) return answer_as_stream(running, choices, usage, response, done);
  try {
    answer_at_once(*running, choices, response);
  } catch (const ApiError& e) {
    if (e.status == 499 || e.status == 504) counters_.cancelled(model.name());
    throw;
  }
  done(*running, true);
}

}  // namespace transformer::serve
