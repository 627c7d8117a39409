#pragma once
// What is generated for one request, on its way from the engine's thread to the one that answers.

#include <condition_variable>
#include <deque>
#include <mutex>

#include "serve/api_error.h"
#include "serve/hosted.h"

namespace transformer::serve {

struct GenerationEvent {
  std::size_t prompt = 0, sequence = 0;
  std::int32_t id = 0;
  std::string text = {};
  std::optional<FinishReason> finish = {};
  float score = 0.0F;
  std::vector<TokenScore> best = {};
};

class Generation {
 public:
  // Each prompt is a job of the model's engine. ApiError when there is no place for one, or it cannot be.
  Generation(HostedModel& model, std::vector<std::vector<std::int32_t>> prompts, const GenerationConfig& config, GenerateOptions options,
             Wanted wanted);
  ~Generation();  // what is not done is ended
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // The next token of any sequence; none when all is done. ApiError when it cannot go on or is not wanted any more.
  std::optional<GenerationEvent> next();

 private:
  struct Exchange {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<GenerationEvent> events;
    std::size_t running = 0;  // prompts
    std::exception_ptr failed;
    bool ended = false;
  };
  HostedModel& model_;
  std::shared_ptr<Exchange> exchange_;
  std::vector<std::uint64_t> jobs_;
  Wanted wanted_;
  std::chrono::steady_clock::time_point check_ = wanted_.next_check();
};

// Waits for `ready` under the lock, and asks now and then whether it is still wanted.
void wait_for(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, const Wanted& wanted,
              const std::function<bool()>& ready);

}  // namespace transformer::serve
