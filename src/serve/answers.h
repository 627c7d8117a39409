#pragma once
// Answers of /v1/completions and /v1/chat/completions as they grow, at once and as a stream.

#include <httplib.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "serve/generation.h"
#include "transformer/predict/generator.h"

namespace transformer::serve {

// Where the next token of an answer stands.
struct AnswerPlace {
  std::size_t offset = 0;  // characters of the text before it
  bool begins = false;     // it begins a text: tokenizers leave out the space that a first word's token has
};

// One answer as it grows.
struct AnswerChoice {
  using json = nlohmann::json;
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

  nlohmann::json envelope(bool chunk) const;
  void add(AnswerChoice& choice, const GenerationEvent& e) const;
  void add_prompt(AnswerChoice& choice, const EchoedPrompt& prompt) const;  // before the answer, with what is known of its tokens
  nlohmann::json choice_json(std::size_t index, const AnswerChoice& c) const;
  nlohmann::json chunk_json(std::size_t index, const AnswerChoice& c, bool first) const;  // one event of a stream

 private:
  bool special(std::int32_t token) const;
  std::string token_bytes(std::int32_t token) const;
  nlohmann::json chat_logprob(std::int32_t token, float score) const;
  nlohmann::json logprobs_json(const AnswerChoice& c) const;
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
  AnswerChoice beginning(std::size_t i) const;
};

void answer_at_once(RunningAnswer& running, std::size_t choices, httplib::Response& response);
// Events of text/event-stream. `done` is told the tokens when it ends, however it does.
void answer_as_stream(const std::shared_ptr<RunningAnswer>& running, std::size_t choices, bool usage, httplib::Response& response,
                      const std::function<void(const RunningAnswer&, bool success)>& done);

}  // namespace transformer::serve
