// What is said of an answer, in OpenAI's words.
#include "serve/answers.h"

#include <algorithm>
#include <utility>

#include "serve/api.h"

namespace transformer::serve {
namespace {

using nlohmann::json;

std::string reason(FinishReason finish) { return finish == FinishReason::length ? "length" : "stop"; }

json usage_json(std::int64_t prompt, std::int64_t generated) {
  return {{"prompt_tokens", prompt}, {"completion_tokens", generated}, {"total_tokens", prompt + generated}};
}

// Parts of characters as OpenAI writes them.
std::string shown(const std::string& bytes) {
  if (is_valid_utf8(bytes)) return bytes;
  std::string text = "bytes:";
  for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

json AnswerShape::envelope(bool chunk) const {
  const std::string object = chat ? chunk ? "chat.completion.chunk" : "chat.completion" : "text_completion";
  return {{"id", id}, {"object", object}, {"created", created}, {"model", model}, {"choices", json::array()}};
}

bool AnswerShape::special(std::int32_t token) const { return token < 0 || token >= tokenizer->size() || tokenizer->is_special(token); }

// Of tokens that have none, such as special ones, their names.
std::string AnswerShape::token_bytes(std::int32_t token) const {
  if (token < 0 || token >= tokenizer->size()) return "";
  const std::string& known = (*bytes)[static_cast<std::size_t>(token)];
  return known.empty() ? tokenizer->decode(std::span(&token, 1), false) : known;
}

json AnswerShape::chat_logprob(std::int32_t token, float score) const {
  const std::string text = token_bytes(token);
  json each = json::array();
  for (const char c : text) each.push_back(static_cast<unsigned char>(c));
  return {{"token", shown(text)}, {"logprob", score}, {"bytes", each}};
}

void AnswerShape::add(AnswerChoice& choice, const GenerationEvent& e) const {
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

void AnswerShape::add_prompt(AnswerChoice& choice, const EchoedPrompt& prompt) const {
  choice.place.begins |= !prompt.tokens.empty();
  for (std::size_t i = 0; i < prompt.tokens.size(); ++i) {
    const ReadToken& token = prompt.tokens[i];
    add(choice, {.id = prompt.ids[i], .score = token.score.value_or(0.0F), .best = token.best});
    if (!token.score) choice.token_logprobs.back() = choice.top_logprobs.back() = nullptr;
  }
  choice.text = prompt.text;
  choice.place = {.offset = characters(prompt.text), .begins = own_text};
}

json AnswerShape::logprobs_json(const AnswerChoice& c) const {
  if (!logprobs) return nullptr;
  if (chat) return {{"content", c.content}};
  return {{"tokens", c.tokens}, {"token_logprobs", c.token_logprobs}, {"top_logprobs", c.top_logprobs}, {"text_offset", c.text_offset}};
}

json AnswerShape::choice_json(std::size_t index, const AnswerChoice& c) const {
  json out{{"index", index}, {"logprobs", logprobs_json(c)}, {"finish_reason", c.finish ? json(reason(*c.finish)) : json(nullptr)}};
  if (chat) out["message"] = {{"role", "assistant"}, {"content", c.text}};
  else out["text"] = c.text;
  return out;
}

json AnswerShape::chunk_json(std::size_t index, const AnswerChoice& c, bool first) const {
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

AnswerChoice RunningAnswer::beginning(std::size_t i) const {
  AnswerChoice choice{.place = {.begins = shape.own_text}};
  if (shape.echo) shape.add_prompt(choice, echoes[i / n]);
  return choice;
}

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

}  // namespace transformer::serve
