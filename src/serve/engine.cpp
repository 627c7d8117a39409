#include "serve/engine.h"

#include <algorithm>

#include "serve/api_error.h"
#include "transformer/core/error.h"

namespace transformer::serve {

Engine::Engine(const ContextOptions& context, const EngineLimits& limits, Load load)
    : limits_(limits), options_(context), loaded_(loading_.get_future()), thread_([this, load = std::move(load)] { work(load); }) {}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Engine::loaded() { loaded_.get(); }

std::uint64_t Engine::submit(std::unique_ptr<Job> job) {
  job->source.ids = job->ids;
  const std::lock_guard lock(mutex_);
  if (finishing_ || ending_) throw ApiError(503, "the server is shutting down");
  if (std::ssize(waiting_) >= limits_.queue) {
    ApiError full(429, fmt::format("{} requests wait already: try again later", waiting_.size()), {}, "queue_full");
    full.retry_after = 1;
    throw full;
  }
  waiting_.emplace_back(next_, std::move(job));
  changed_.notify_all();
  return next_++;
}

void Engine::cancel(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(number);
  changed_.notify_all();
}

void Engine::run(const std::function<void(Context&)>& work) {
  std::packaged_task<void(Context&)> task(work);
  std::future<void> done = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    if (finishing_ || ending_) throw ApiError(503, "the server is shutting down");
    if (std::ssize(tasks_) >= limits_.queue) {
      ApiError full(429, fmt::format("{} requests wait already: try again later", tasks_.size()), {}, "queue_full");
      full.retry_after = 1;
      throw full;
    }
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
  done.get();
}

void Engine::finish() {
  std::unique_lock lock(mutex_);
  finishing_ = true;
  changed_.notify_all();
  idle_.wait(lock, [this] { return ending_ || (waiting_.empty() && tasks_.empty() && !busy_); });
}

Engine::State Engine::state() const {
  const std::lock_guard lock(mutex_);
  State state = state_;
  state.waiting = std::ssize(waiting_) + std::ssize(tasks_);
  return state;
}

void Engine::work(const Load& load) {
  std::optional<Context> ctx;
  std::optional<GenerationLoop> loop;
  const SequenceModel* model = nullptr;
  try {
    ctx.emplace(options_);
    ctx->set_row_invariant(true);
    const Loaded loaded = load(*ctx);
    model = loaded.model;
    if (loaded.token_bytes > 0) limits_.loop.kept_tokens = std::min(limits_.loop.kept_tokens, limits_.kept_bytes / loaded.token_bytes);
    if (model != nullptr) loop.emplace(*ctx, *model, limits_.loop);
    loading_.set_value();
  } catch (...) {
    loading_.set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    ending_ = true;
    return;
  }
  const Inference inference(*ctx);
  bool more = false;  // the loop has something to do
  for (;;) {
    std::optional<std::packaged_task<void(Context&)>> task;
    {
      std::unique_lock lock(mutex_);
      const auto wanted = [&] { return more || ending_ || !waiting_.empty() || !tasks_.empty() || !cancelled_.empty(); };
      if (!wanted()) {
        busy_ = false;
        idle_.notify_all();
        // Prompts are kept for a while, not for ever: memory is given back.
        if (!changed_.wait_for(lock, std::chrono::seconds(60), wanted) && loop) {
          loop->forget();
          changed_.wait(lock, wanted);
        }
      }
      if (ending_) break;
      busy_ = true;
      if (!tasks_.empty()) task = std::move(tasks_.front()), tasks_.pop_front();
      if (!admit(loop ? &*loop : nullptr)) more = false;
    }
    if (task) (*task)(*ctx);
    if (!loop) continue;
    try {
      more = loop->step();
    } catch (const std::exception& e) {  // of all that is under way: memory, the device
      fail_admitted(e.what());
      loop.emplace(*ctx, *model, limits_.loop);
      more = false;
    }
    std::erase_if(admitted_, [](const Admitted& a) { return a.done; });
    const std::lock_guard lock(mutex_);
    state_.rows = loop->rows();
    state_.steps += more ? 1 : 0;
    state_.shared_tokens = loop->shared_tokens();
    more |= !admitted_.empty();
  }
  const std::string why = "the server is shutting down";
  fail_admitted(why);
  std::deque<std::pair<std::uint64_t, std::unique_ptr<Job>>> waiting;
  std::deque<std::packaged_task<void(Context&)>> tasks;
  {
    const std::lock_guard lock(mutex_);
    waiting.swap(waiting_), tasks.swap(tasks_);
  }
  for (auto& [number, job] : waiting) job->source.failed(std::make_exception_ptr(ApiError(503, why)));
  tasks.clear();  // those who wait get a broken promise
  idle_.notify_all();
}

// Takes what waits as far as there are places, in its order.
bool Engine::admit(GenerationLoop* loop) {
  for (const std::uint64_t number : cancelled_) {
    std::erase_if(waiting_, [&](const auto& w) { return w.first == number; });
    for (Admitted& a : admitted_)
      if (a.number == number && !a.done) loop->end(a.in_loop), a.done = true;
  }
  cancelled_.clear();
  std::erase_if(admitted_, [](const Admitted& a) { return a.done; });
  if (loop == nullptr) return false;
  std::int64_t used = 0;
  for (const Admitted& a : admitted_) used += a.job->rows;
  while (!waiting_.empty() && (used == 0 || used + waiting_.front().second->rows <= limits_.rows)) {
    auto [number, job] = std::move(waiting_.front());
    waiting_.pop_front();
    used += job->rows;
    Admitted& a = admitted_.emplace_back(Admitted{number, 0, std::move(job)});
    LoopSource source = a.job->source;
    // The entry is found again by its number: others come and go.
    const auto done = [this, number] {
      for (Admitted& other : admitted_)
        if (other.number == number) other.done = true;
    };
    source.found = [found = a.job->source.found, done](std::vector<Found> all) { found(std::move(all)), done(); };
    source.failed = [failed = a.job->source.failed, done](std::exception_ptr why) { failed(why), done(); };
    a.in_loop = loop->add(std::move(source));
  }
  return true;
}

void Engine::fail_admitted(const std::string& why) {
  for (Admitted& a : admitted_)
    if (!a.done) a.job->source.failed(std::make_exception_ptr(ApiError(503, why)));
  admitted_.clear();
}

}  // namespace transformer::serve
