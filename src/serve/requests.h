#pragma once
// What clients may ask for, endpoint by endpoint. Names and meanings are OpenAI's and LibreTranslate's where they have them; top_k, min_p,
// repetition_penalty and min_tokens are those of vLLM and llama.cpp.

#include "serve/fields.h"

namespace transformer::serve {

inline nlohmann::json string_schema() { return {{"type", "string"}}; }
inline nlohmann::json list_schema(const nlohmann::json& items, int least = 0) {
  return {{"type", "array"}, {"items", items}, {"minItems", least}};
}
inline nlohmann::json null_schema() { return {{"type", "null"}}; }
inline nlohmann::json token_schema() { return {{"type", "integer"}, {"minimum", 0}, {"maximum", 2147483647}}; }

// What all that is generated has in common.
struct SamplingFields {
  std::optional<double> temperature = {}, top_p = {}, min_p = {}, presence_penalty = {}, frequency_penalty = {}, repetition_penalty = {};
  std::optional<std::int64_t> top_k = {}, seed = {}, n = {}, min_tokens = {};
  AnyOf stop = {nullptr, {string_schema(), list_schema(string_schema()), null_schema()}};
  AnyOf logit_bias = {
      nullptr, {{{"type", "object"}, {"additionalProperties", {{"type", "number"}, {"minimum", -100}, {"maximum", 100}}}}, null_schema()}};
  AnyOf response_format = {
      nullptr,
      {{{"type", "object"},
        {"properties",
         {{"type", {{"type", "string"}, {"enum", {"text", "json_object", "json_schema"}}}}, {"json_schema", {{"type", "object"}}}}},
        {"required", {"type"}}},
       null_schema()}};
  std::optional<bool> stream = {};
  AnyOf stream_options = {nullptr, {{{"type", "object"}, {"properties", {{"include_usage", {{"type", "boolean"}}}}}}, null_schema()}};
  std::optional<std::string> user = {};

  static void visit(auto& self, auto&& field) {
    field("temperature", self.temperature, "draws are less certain above 1, more below; 0 takes the most probable token",
          Bounds{.least = 0, .most = 100});
    field("top_p", self.top_p, "draw from the most probable tokens that together have this probability", Bounds{.least = 0, .most = 1});
    field("top_k", self.top_k, "draw from this many tokens; 0 or -1: all", Bounds{.least = -1, .most = 1000000000});
    field("min_p", self.min_p, "draw from tokens with at least this share of the best one's probability", Bounds{.least = 0, .most = 1});
    field("presence_penalty", self.presence_penalty, "taken from the logits of tokens that were generated", Bounds{.least = -2, .most = 2});
    field("frequency_penalty", self.frequency_penalty, "taken from them as often as they were generated", Bounds{.least = -2, .most = 2});
    field("repetition_penalty", self.repetition_penalty, "above 1: tokens of prompt and answer are less probable",
          Bounds{.least = 0.01, .most = 100});
    field("seed", self.seed, "of the draws: the same one gives the same answer, whoever else is served");
    field("n", self.n, "answers to each prompt", Bounds{.least = 1, .most = 128});
    field("min_tokens", self.min_tokens, "tokens that are generated at least", Bounds{.least = 0, .most = 1000000});
    field("stop", self.stop, "texts that end an answer and are not part of it");
    field("logit_bias", self.logit_bias, "added to the logits of tokens, by their numbers");
    field("response_format", self.response_format, "json_object, or json_schema with a schema: the answer is JSON of that form");
    field("stream", self.stream, "send the answer as it is made, as server-sent events");
    field("stream_options", self.stream_options, "include_usage: a last event says how many tokens there were");
    field("user", self.user, "not used");
  }
};

struct CompletionRequest : SamplingFields {
  std::optional<std::string> model = {};
  AnyOf prompt = {
      nullptr,
      {string_schema(), list_schema(string_schema(), 1), list_schema(token_schema(), 1), list_schema(list_schema(token_schema(), 1), 1)}};
  std::optional<std::int64_t> max_tokens = {}, logprobs = {}, best_of = {};
  std::optional<bool> echo = {};

  static void visit(auto& self, auto&& field) {
    field("model", self.model, "which model; none: the first that generates");
    field("prompt", self.prompt, "what to go on from: texts or tokens", Bounds{.required = true});
    field("max_tokens", self.max_tokens, "tokens that are generated at most (16)", Bounds{.least = 0, .most = 1000000});
    field("logprobs", self.logprobs, "say how probable each token was, and so many others", Bounds{.least = 0, .most = 20});
    field("best_of", self.best_of, "equal to n", Bounds{.least = 1, .most = 128});
    field("echo", self.echo, "begin the answer with the prompt");
    SamplingFields::visit(self, field);
  }
};

struct ChatRequest : SamplingFields {
  std::optional<std::string> model = {};
  AnyOf messages = {
      nullptr,
      {list_schema({{"type", "object"},
                    {"properties",
                     {{"role", {{"type", "string"}}},
                      {"content",
                       {{"anyOf",
                         {string_schema(), null_schema(),
                          list_schema({{"type", "object"},
                                       {"properties", {{"type", {{"type", "string"}, {"enum", {"text"}}}}, {"text", string_schema()}}},
                                       {"required", {"type", "text"}}})}}}}}},
                    {"required", {"role", "content"}}},
                   1)}};
  std::optional<std::int64_t> max_tokens = {}, max_completion_tokens = {}, top_logprobs = {};
  std::optional<bool> logprobs = {};

  static void visit(auto& self, auto&& field) {
    field("model", self.model, "which model; none: the first that generates");
    field("messages", self.messages, "the conversation so far", Bounds{.required = true});
    field("max_tokens", self.max_tokens, "tokens that are generated at most", Bounds{.least = 0, .most = 1000000});
    field("max_completion_tokens", self.max_completion_tokens, "the same, as newer clients say it", Bounds{.least = 0, .most = 1000000});
    field("logprobs", self.logprobs, "say how probable each token was");
    field("top_logprobs", self.top_logprobs, "and so many others; with logprobs", Bounds{.least = 0, .most = 20});
    SamplingFields::visit(self, field);
  }
};

struct EmbeddingRequest {
  std::optional<std::string> model = {};
  AnyOf input = {nullptr, {string_schema(), list_schema(string_schema(), 1)}};
  std::optional<std::string> encoding_format = {}, user = {};

  static void visit(auto& self, auto&& field) {
    field("model", self.model, "which model; none: the first that gives vectors");
    field("input", self.input, "a text, or several", Bounds{.required = true});
    field("encoding_format", self.encoding_format, "float, or base64 of little-endian float32");
    field("user", self.user, "not used");
  }
};

struct TranslateRequest {
  AnyOf q = {nullptr, {string_schema(), list_schema(string_schema(), 1)}};
  std::optional<std::string> source = {}, target = {}, format = {}, model = {}, api_key = {};
  std::optional<std::int64_t> alternatives = {}, beam = {};

  static void visit(auto& self, auto&& field) {
    field("q", self.q, "a text, or several", Bounds{.required = true});
    field("source", self.source, "its language; auto: the model's");
    field("target", self.target, "the language that is wanted");
    field("format", self.format, "text");
    field("alternatives", self.alternatives, "other translations that are given beside the best", Bounds{.least = 0, .most = 32});
    field("beam", self.beam, "hypotheses that the search keeps (5)", Bounds{.least = 1, .most = 64});
    field("model", self.model, "which model; none: the first that translates");
    field("api_key", self.api_key, "where the server wants one and the header Authorization has none");
  }
};

struct ClassifyRequest {
  std::optional<std::string> model = {};
  AnyOf text = {nullptr, {string_schema(), list_schema(string_schema(), 1)}};
  std::optional<std::string> image = {};
  std::optional<std::int64_t> top_k = {};

  static void visit(auto& self, auto&& field) {
    field("model", self.model, "which model; none: the first that classifies");
    field("text", self.text, "a text, or several");
    field("image", self.image, "instead: a picture (PNG, JPEG, WebP, BMP, GIF) in base64");
    field("top_k", self.top_k, "labels given, best first; 0: all", Bounds{.least = 0, .most = 1000000});
  }
};

struct ForecastRequest {
  std::optional<std::string> model = {};
  AnyOf series = {nullptr,
                  {{{"type", "object"}, {"additionalProperties", list_schema({{"type", "number"}}, 1)}},
                   {{"type", "string"}, {"description", "a table as CSV, its first line the names of the columns"}}}};
  std::optional<std::int64_t> steps = {};

  static void visit(auto& self, auto&& field) {
    field("model", self.model, "which model; none: the first that forecasts");
    field("series", self.series, "the past: numbers by the names of the channels, or CSV", Bounds{.required = true});
    field("steps", self.steps, "rows that are wanted; none: the model's horizon", Bounds{.least = 1, .most = 10000});
  }
};

struct TokenizeRequest {
  std::optional<std::string> model = {};
  std::string text;
  std::optional<bool> special_tokens = {};

  static void visit(auto& self, auto&& field) {
    field("model", self.model, "which model; none: the first");
    field("text", self.text, "what is cut into tokens", Bounds{.required = true});
    field("special_tokens", self.special_tokens, "with those that the model wants around a text (true)");
  }
};

struct DetokenizeRequest {
  std::optional<std::string> model = {};
  std::vector<std::int64_t> tokens;

  static void visit(auto& self, auto&& field) {
    field("model", self.model, "which model; none: the first");
    field("tokens", self.tokens, "the numbers of tokens", Bounds{.required = true});
  }
};

struct SampleRequest {
  std::string text;
  std::optional<std::int64_t> max_tokens = {};

  static void visit(auto& self, auto&& field) {
    field("text", self.text, "what the model in training is asked", Bounds{.required = true});
    field("max_tokens", self.max_tokens, "tokens of its answer at most (48)", Bounds{.least = 1, .most = 512});
  }
};

// "stop", a text or several. ApiError when it is neither.
std::vector<std::string> strings_of(const AnyOf& field, const std::string& name);

// One prompt of a completion: text, or tokens.
struct PromptText {
  std::string text = {};
  std::vector<std::int32_t> ids = {};
  bool is_text = true;
};
std::vector<PromptText> prompts_of(const CompletionRequest& request);

}  // namespace transformer::serve
