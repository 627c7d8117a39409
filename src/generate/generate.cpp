#include "transformer/generate/generate.h"

#include <algorithm>
#include <limits>
#include <map>

#include "generate/shared/loop.h"
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

namespace {

// The text of one sequence as it comes.
class SequenceText {
 public:
  SequenceText(const GenerateOptions& options, std::size_t prompt, const std::vector<std::string>& stops)
      : stream_(options.text ? options.text(prompt) : TextStream{}), stop_(stops) {}

  // The part that can be shown after this token.
  std::string push(std::int32_t id, bool is_end, bool is_last) {
    if (!stream_) return {};
    std::string shown = is_end ? std::string() : stop_.push(stream_(id));
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
  std::string text_;
};

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

class Call {
 public:
  Call(Context& ctx, const SequenceModel& model, std::span<const std::vector<std::int32_t>> prompts, const GenerationConfig& config,
       const GenerateOptions& options)
      : ctx_(ctx), model_(model), prompts_(prompts), config_(config), options_(options), results_(prompts.size()) {
    check(config);
    if (!config.stop_strings.empty() && !options.text)
      fail("generate", "stop_strings are set, but nothing turns tokens into text: give GenerateOptions::text");
    if (options.batch_tokens < 1) wrong_setting("generate", "batch_tokens", "is {}: expected 1 or more", options.batch_tokens);
    loop_ = {.beam = config.num_beams,
             .count = config.num_return_sequences,
             .length_penalty = config.length_penalty,
             .early_stopping = config.early_stopping,
             .eos = config.eos_token_id,
             .processors = logits_processors(config),
             .scores = options.scores};
    loop_.processors.insert(loop_.processors.end(), options.processors.begin(), options.processors.end());
    if (config.do_sample && config.temperature != 0.0) loop_.seed = options.seed;
  }

  std::vector<std::vector<Generated>> run() {
    std::vector<LoopSource> all(prompts_.size());
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      all[i].ids = prompts_[i];
      all[i].prompt = model_.prompt(prompts_[i]);
      const auto size = static_cast<std::int64_t>(all[i].prompt.size());
      if (size == 0) fail("generate", "prompt {} is empty: give at least one token, the start token for example", i);
      if (static_cast<std::int64_t>(prompts_[i].size()) > model_.max_source())
        fail("generate", "prompt {} has {} tokens: the model takes at most {}; shorten it", i, prompts_[i].size(), model_.max_source());
      all[i].max_length = max_length_of(config_, model_, size);
    }
    const Inference inference(ctx_);
    for (const std::vector<std::size_t>& batch : batches_by_length(prompts_, options_.batch_tokens)) {
      std::vector<LoopSource> chosen;
      for (std::size_t i : batch) chosen.push_back(std::move(all[i]));
      if (config_.num_beams == 1 && (options_.text || options_.on_token))
        loop_.on_token = [&](std::size_t source, std::size_t number, std::int32_t id, std::optional<FinishReason> finish) {
          return add_token({batch[source], number, id, {}, finish});
        };
      generation_loop(ctx_, model_, std::move(chosen), loop_,
                      [&](std::size_t source, std::vector<Found> found) { take(batch[source], std::move(found)); });
    }
    return std::move(results_);
  }

 private:
  bool is_end(std::int32_t id) const {
    return std::find(config_.eos_token_id.begin(), config_.eos_token_id.end(), id) != config_.eos_token_id.end();
  }

  SequenceText& text_of(std::size_t prompt, std::size_t sequence) {
    return texts_.try_emplace({prompt, sequence}, options_, prompt, config_.stop_strings).first->second;
  }

  // True when the sequence stops here.
  bool add_token(GeneratedToken token) {
    SequenceText& text = text_of(token.prompt, token.sequence);
    const std::string shown = text.push(token.id, is_end(token.id), token.finish.has_value());
    token.text = shown;
    if (text.stopped() && token.finish != FinishReason::eos) token.finish = FinishReason::stop;
    const bool stop = options_.on_token && options_.on_token(token);
    if (stop && !token.finish) text.close();
    return stop || token.finish == FinishReason::stop;
  }

  void take(std::size_t prompt, std::vector<Found> found) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      Found& f = found[i];
      if (config_.num_beams > 1 && (options_.text || options_.on_token))
        for (std::size_t t = 0; t < f.ids.size(); ++t)
          add_token({prompt, i, f.ids[t], {}, t + 1 == f.ids.size() ? std::optional(f.finish) : std::nullopt});
      Generated& g = results_[prompt].emplace_back();
      g.ids = std::move(f.ids);
      g.finish = f.finish;
      g.token_scores = std::move(f.token_scores);
      if (!g.token_scores.empty()) g.score = static_cast<float>(f.score);
      if (options_.text) g.text = std::move(text_of(prompt, i).text());
    }
  }

  Context& ctx_;
  const SequenceModel& model_;
  std::span<const std::vector<std::int32_t>> prompts_;
  const GenerationConfig& config_;
  const GenerateOptions& options_;
  LoopOptions loop_;
  std::map<std::pair<std::size_t, std::size_t>, SequenceText> texts_;  // by prompt and sequence
  std::vector<std::vector<Generated>> results_;
};

}  // namespace

std::vector<std::vector<Generated>> generate(Context& ctx, const SequenceModel& model, std::span<const std::vector<std::int32_t>> prompts,
                                             const GenerationConfig& config, const GenerateOptions& options) {
  return Call(ctx, model, prompts, config, options).run();
}

}  // namespace transformer
