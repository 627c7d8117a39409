#include "transformer/generate/generate.h"

#include <algorithm>
#include <limits>
#include <map>

#include "generate/shared/call.h"
#include "generate/stop_text.h"
#include "transformer/core/setting_error.h"

namespace transformer {

std::string StopText::push(std::string_view piece) {
  if (stopped_) return {};
  held_ += piece;
  // The first stop string that is there ends the text where it begins.
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, held_.find(stop));
  if (end != std::string::npos) {
    stopped_ = true;
    return held_.substr(0, end);
  }
  // The longest ending that a stop string begins with may become one.
  std::size_t keep = 0;
  for (const std::string& stop : stops_)
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n)
      if (held_.ends_with(std::string_view(stop).substr(0, n))) keep = n;
  std::string certain = held_.substr(0, held_.size() - keep);
  held_.erase(0, certain.size());
  return certain;
}

// The text of one sequence as it comes.
class SequenceText {
 public:
  SequenceText(const GenerateOptions& options, std::size_t prompt, const GenerationConfig& config)
      : stream_(options.text ? options.text(prompt) : TextStream{}), stop_(config.stop_strings), least_(config.min_new_tokens.value_or(0)) {
  }

  // The part that can be shown after this token.
  std::string push(std::int32_t id, bool is_end, bool is_last) {
    if (!stream_) return {};
    std::string shown;
    if (!is_end) shown = ++tokens_ < least_ ? stream_(id) : stop_.push(stream_(id));  // before, no text stops it
    if (is_last && !stop_.stopped()) shown += stop_.push(stream_(-1)) + stop_.rest();
    text_ += shown;
    return shown;
  }
  // Where the caller ends it.
  void close() {
    if (stream_ && !stop_.stopped()) text_ += stop_.push(stream_(-1)) + stop_.rest();
  }
  bool stopped() const { return stop_.stopped(); }
  std::string& text() { return text_; }

 private:
  TextStream stream_;
  StopText stop_;
  std::int64_t least_, tokens_ = 0;
  std::string text_;
};

namespace {

// How long a sequence may become, the prompt counted.
std::int64_t max_length_of(const GenerationConfig& config, const SequenceModel& model, std::int64_t prompt) {
  constexpr std::int64_t default_new_tokens = 20;
  // The last token is predicted and never read.
  const std::int64_t possible = model.max_tokens() == std::numeric_limits<std::int64_t>::max() ? model.max_tokens()
                                                                                               : model.max_tokens() + 1;
  if (prompt >= possible)
    fail("generate", "a prompt of {} tokens was given: the model takes at most {}; shorten it", prompt, model.max_tokens());
  auto with_prompt = [&](std::int64_t count) { return count > possible - prompt ? possible : prompt + count; };
  if (config.max_new_tokens) return with_prompt(*config.max_new_tokens);
  if (!config.max_length) return with_prompt(default_new_tokens);
  if (prompt >= *config.max_length)
    fail("generate", "the prompt has {} tokens and max_length is {}: raise it, or set max_new_tokens", prompt, *config.max_length);
  return std::min(*config.max_length, possible);
}

}  // namespace

// The sequences of one prompt, as they come.
class GenerationCall::Prompt {
 public:
  Prompt(std::shared_ptr<const GenerationCall> call, std::size_t number, Done done)
      : call_(std::move(call)), number_(number), done_(std::move(done)) {}

  // True when the sequence stops here.
  bool add_token(const LoopToken& chosen) {
    const GenerateOptions& options = call_->options_;
    GeneratedToken token{number_, chosen.number, chosen.id, {}, chosen.finish, chosen.score};
    for (const Scored& s : chosen.best) token.best.push_back({s.id, s.value});
    SequenceText& text = text_of(token.sequence);
    const std::string shown = text.push(token.id, is_end(token.id), token.finish.has_value());
    token.text = shown;
    if (text.stopped() && token.finish != FinishReason::eos) token.finish = FinishReason::stop;
    const bool stop = options.on_token && options.on_token(token);
    if (stop && !token.finish) text.close();
    return stop || token.finish == FinishReason::stop;
  }

  void take(std::vector<Found> found) {
    std::vector<Generated> results;
    const GenerateOptions& options = call_->options_;
    for (std::size_t i = 0; i < found.size(); ++i) {
      Found& f = found[i];
      if (call_->config_.num_beams > 1 && (options.text || options.on_token))
        for (std::size_t t = 0; t < f.ids.size(); ++t)
          add_token({i, f.ids[t], t + 1 == f.ids.size() ? std::optional(f.finish) : std::nullopt});
      Generated& g = results.emplace_back();
      g.ids = std::move(f.ids);
      g.finish = f.finish;
      g.token_scores = std::move(f.token_scores);
      if (!g.token_scores.empty()) g.score = static_cast<float>(f.score);
      if (options.text) g.text = std::move(text_of(i).text());
    }
    done_(std::move(results));
  }

 private:
  bool is_end(std::int32_t id) const {
    const std::vector<std::int32_t>& ends = call_->config_.eos_token_id;
    return std::find(ends.begin(), ends.end(), id) != ends.end();
  }
  SequenceText& text_of(std::size_t sequence) {
    return texts_.try_emplace(sequence, call_->options_, number_, call_->config_).first->second;
  }

  std::shared_ptr<const GenerationCall> call_;
  std::size_t number_;
  Done done_;
  std::map<std::size_t, SequenceText> texts_;
};

GenerationCall::GenerationCall(const GenerationConfig& config, const GenerateOptions& options) : config_(config), options_(options) {
  check(config);
  if (!config.stop_strings.empty() && !options.text)
    fail("generate", "stop_strings are set, but nothing turns tokens into text: give GenerateOptions::text");
  if (options.batch_tokens < 1) wrong_setting("generate", "batch_tokens", "is {}: expected 1 or more", options.batch_tokens);
  LoopOptions loop{.beam = config.num_beams,
                   .count = config.num_return_sequences,
                   .length_penalty = config.length_penalty,
                   .early_stopping = config.early_stopping,
                   .only_falls = options.processors.empty() && scores_only_fall(config),
                   .eos = config.eos_token_id,
                   .processors = logits_processors(config, options.processors),
                   .scores = options.scores,
                   .alternatives = options.alternatives};
  if (config.do_sample && config.temperature != 0.0) loop.seed = options.seed;
  loop_ = std::make_shared<const LoopOptions>(std::move(loop));
}

LoopSource GenerationCall::source(const SequenceModel& model, std::span<const std::int32_t> prompt, std::size_t number, Done done) const {
  LoopSource source{.ids = prompt, .prompt = model.prompt(prompt), .options = loop_};
  const std::int64_t size = std::ssize(source.prompt);
  if (size == 0) fail("generate", "prompt {} is empty: give at least one token, the start token for example", number);
  if (std::ssize(prompt) > model.max_source())
    fail("generate", "prompt {} has {} tokens: the model takes at most {}; shorten it", number, prompt.size(), model.max_source());
  source.max_length = max_length_of(config_, model, size);
  const auto state = std::make_shared<Prompt>(shared_from_this(), number, std::move(done));
  if (config_.num_beams == 1 && (options_.text || options_.on_token))
    source.on_token = [state](const LoopToken& token) { return state->add_token(token); };
  source.found = [state](std::vector<Found> found) { state->take(std::move(found)); };
  return source;
}

std::vector<std::vector<Generated>> generate(Context& ctx, const SequenceModel& model, std::span<const std::vector<std::int32_t>> prompts,
                                             const GenerationConfig& config, const GenerateOptions& options) {
  const auto call = std::make_shared<const GenerationCall>(config, options);
  std::vector<std::vector<Generated>> results(prompts.size());
  std::vector<LoopSource> sources;
  for (std::size_t i = 0; i < prompts.size(); ++i)
    sources.push_back(call->source(model, prompts[i], i, [&results, i](std::vector<Generated> found) { results[i] = std::move(found); }));
  const Inference inference(ctx);
  for (const std::vector<std::size_t>& batch : batches_by_length(prompts, options.batch_tokens)) {
    GenerationLoop loop(ctx, model);
    for (std::size_t i : batch) loop.add(std::move(sources[i]));
    while (loop.step()) {
    }
  }
  return results;
}

}  // namespace transformer
