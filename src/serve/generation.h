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
             std::chrono::steady_clock::time_point until);
  ~Generation();  // what is not done is ended
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // The next token of any sequence; none when all is done. ApiError when it cannot go on, took too long, or the client has gone (499).
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
  std::chrono::steady_clock::time_point until_, looked_ = std::chrono::steady_clock::now();  // after the client
};

// Waits for `ready` under the lock, looks after the client now and then. ApiError 499 when it has gone, 504 when it is too late.
void wait_for(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, std::chrono::steady_clock::time_point until,
              const std::function<bool()>& ready);

}  // namespace transformer::serve
