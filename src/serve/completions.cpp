// /v1/completions and /v1/chat/completions.
#include <algorithm>
#include <ctime>
#include <random>
#include <utility>

#include "serve/answers.h"
#include "serve/api.h"
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

bool wants_usage(const AnyOf& options) {
  if (!options.given()) return false;
  if (!options.value.is_object()) detail::wrong("stream_options", "an object");
  for (const auto& [key, value] : options.value.items())
    if (key != "include_usage" || !value.is_boolean()) detail::wrong("stream_options", "an object with include_usage: true or false");
  return options.value.value("include_usage", false);
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
                                                : model.translation()->translator.encode(prompt.text, nullptr, LongTexts::refuse);
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
void Api::read_prompts(HostedModel& model, RunningAnswer& running, std::size_t alternatives) {
  if (model.generator() == nullptr || model.generator()->has_encoder())
    detail::wrong("echo", "left out with logprobs: a model with an encoder gives its prompt none");
  const Wanted still = wanted();
  for (EchoedPrompt& prompt : running.echoes)  // one at a time: others' steps come between
    compute(model, still, [&](Context& ctx) { prompt.tokens = model.generator()->read(ctx, prompt.ids, alternatives); });
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
    if (max_tokens > 0) running->generation = std::make_unique<Generation>(model, std::move(prompts), config, std::move(options), wanted());
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
