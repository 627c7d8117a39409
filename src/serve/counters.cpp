#include "serve/counters.h"

namespace transformer::serve {
namespace {

// A label's value: \ and " and line ends are escaped.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') out += "\\n";
    else out += c;
  }
  return out + "\"";
}

}  // namespace

void Counters::request(const std::string& endpoint, int status, std::chrono::duration<double> took) {
  const std::lock_guard lock(mutex_);
  ++requests_[{endpoint, status}];
  Times& t = times_[endpoint];
  ++t.count;
  t.sum += took.count();
  for (std::size_t i = 0; i < bounds.size(); ++i) t.below[i] += took.count() <= bounds[i] ? 1 : 0;
}

void Counters::tokens(const std::string& model, std::int64_t prompt, std::int64_t generated) {
  const std::lock_guard lock(mutex_);
  tokens_[model].prompt += prompt;
  tokens_[model].generated += generated;
}

void Counters::cancelled(const std::string& model) {
  const std::lock_guard lock(mutex_);
  ++tokens_[model].cancelled;
}

std::string Counters::text(std::span<const std::unique_ptr<HostedModel>> models, std::int64_t open_connections) const {
  const std::lock_guard lock(mutex_);
  std::string out;
  const auto head = [&](std::string_view name, std::string_view type, std::string_view help) {
    out += fmt::format("# HELP transformer_{0} {2}\n# TYPE transformer_{0} {1}\n", name, type, help);
  };
  head("requests_total", "counter", "Requests that were answered.");
  for (const auto& [key, count] : requests_)
    out += fmt::format("transformer_requests_total{{endpoint={},status=\"{}\"}} {}\n", quoted(key.first), key.second, count);
  head("request_seconds", "histogram", "From the head of a request to the end of its answer.");
  for (const auto& [endpoint, t] : times_) {
    for (std::size_t i = 0; i < bounds.size(); ++i)
      out += fmt::format("transformer_request_seconds_bucket{{endpoint={},le=\"{}\"}} {}\n", quoted(endpoint), bounds[i], t.below[i]);
    out += fmt::format(
        "transformer_request_seconds_bucket{{endpoint={0},le=\"+Inf\"}} {1}\ntransformer_request_seconds_sum{{endpoint={0}}} {2}\n"
        "transformer_request_seconds_count{{endpoint={0}}} {1}\n",
        quoted(endpoint), t.count, t.sum);
  }
  const auto by_model = [&](std::string_view name, std::string_view type, std::string_view help, auto value) {
    head(name, type, help);
    for (const auto& model : models) {
      const auto found = tokens_.find(model->name());
      const Tokens tokens = found != tokens_.end() ? found->second : Tokens{};
      out += fmt::format("transformer_{}{{model={}}} {}\n", name, quoted(model->name()), value(tokens, model->engine().state()));
    }
  };
  using State = Engine::State;
  by_model("prompt_tokens_total", "counter", "Tokens of prompts.", [](const Tokens& t, const State&) { return t.prompt; });
  by_model("generated_tokens_total", "counter", "Tokens that were generated.", [](const Tokens& t, const State&) { return t.generated; });
  by_model("shared_prompt_tokens_total", "counter", "Tokens of prompts that were known from others and not read again.",
           [](const Tokens&, const State& s) { return s.shared_tokens; });
  by_model("cancelled_total", "counter", "Requests whose client went away, or that took too long.",
           [](const Tokens& t, const State&) { return t.cancelled; });
  by_model("steps_total", "counter", "Steps of the model.", [](const Tokens&, const State& s) { return s.steps; });
  by_model("running_sequences", "gauge", "Sequences under way.", [](const Tokens&, const State& s) { return s.rows; });
  by_model("waiting_requests", "gauge", "Requests that wait for a place.", [](const Tokens&, const State& s) { return s.waiting; });
  head("open_connections", "gauge", "Connections.");
  out += fmt::format("transformer_open_connections {}\n", open_connections);
  return out;
}

}  // namespace transformer::serve
