#include "serve/generation.h"

#include <algorithm>

#include "transformer/core/error.h"

namespace transformer::serve {

void wait_for(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, const Wanted& wanted,
              const std::function<bool()>& ready) {
  while (!changed.wait_until(lock, wanted.next_check(), ready)) wanted.check();
}

Generation::Generation(HostedModel& model, std::vector<std::vector<std::int32_t>> prompts, const GenerationConfig& config,
                       GenerateOptions options, Wanted wanted)
    : model_(model), exchange_(std::make_shared<Exchange>()), wanted_(std::move(wanted)) {
  const auto exchange = exchange_;
  exchange->running = prompts.size();
  options.on_token = [exchange](const GeneratedToken& t) {
    const std::lock_guard lock(exchange->mutex);
    exchange->events.push_back({t.prompt, t.sequence, t.id, std::string(t.text), t.finish, t.score, t.best});
    exchange->changed.notify_one();
    return exchange->ended;
  };
  const auto call = std::make_shared<const GenerationCall>(config, options);
  const SequenceModel& view = model.generator() != nullptr ? model.generator()->model() : model.translation()->view;
  std::vector<std::unique_ptr<Engine::Job>> jobs;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    auto job = std::make_unique<Engine::Job>();
    job->ids = std::move(prompts[i]);
    job->rows = std::max(config.num_return_sequences, config.num_beams);
    const auto one_less = [exchange](std::exception_ptr failed) {
      const std::lock_guard lock(exchange->mutex);
      --exchange->running;
      if (failed != nullptr) exchange->failed = failed;
      exchange->changed.notify_one();
    };
    job->source = call->source(view, job->ids, i, [one_less](const std::vector<Generated>&) { one_less(nullptr); });
    job->source.failed = one_less;
    jobs.push_back(std::move(job));
  }
  try {
    for (auto& job : jobs) jobs_.push_back(model.engine().submit(std::move(job)));
  } catch (...) {
    for (const std::uint64_t job : jobs_) model.engine().cancel(job);
    throw;
  }
}

Generation::~Generation() {
  const std::lock_guard lock(exchange_->mutex);
  exchange_->ended = true;
  if (exchange_->running > 0)
    for (const std::uint64_t job : jobs_) model_.engine().cancel(job);
}

std::optional<GenerationEvent> Generation::next() {
  // Where tokens come all the time nothing is waited for.
  if (std::chrono::steady_clock::now() >= check_) wanted_.check(), check_ = wanted_.next_check();
  std::unique_lock lock(exchange_->mutex);
  wait_for(lock, exchange_->changed, wanted_,
           [this] { return !exchange_->events.empty() || exchange_->running == 0 || exchange_->failed != nullptr; });
  if (exchange_->failed != nullptr) {
    try {
      std::rethrow_exception(exchange_->failed);
    } catch (const Error& e) {
      throw ApiError(400, e.what(), {}, "cannot_go_on");  // a setting that leaves no token, say
    }
  }
  if (exchange_->events.empty()) return std::nullopt;
  GenerationEvent event = std::move(exchange_->events.front());
  exchange_->events.pop_front();
  return event;
}

}  // namespace transformer::serve
