#include "serve/engine.h"

#include <algorithm>

#include "serve/api_error.h"
#include "transformer/core/error.h"

namespace transformer::serve {
namespace {

const std::string shutting_down = "the server is shutting down";

void check_queue(std::int64_t waiting, std::int64_t most) {
  if (waiting < most) return;
  ApiError full(429, fmt::format("{} requests wait already: try again later", waiting), {}, "queue_full");
  full.retry_after = 1;
  throw full;
}

}  // namespace

Engine::Engine(const ContextOptions& context, const EngineLimits& limits, Load load)
    : limits_(limits), options_(context), loaded_(loading_.get_future()) {
  Lane& first = *lanes_.emplace_back(std::make_unique<Lane>());
  first.thread = std::thread([this, load = std::move(load)] { start(load); });
}

Engine::~Engine() {
  loaded_.wait();  // no lane is added any more
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    wake_all();
  }
  for (const auto& lane : lanes_) lane->thread.join();
}

void Engine::loaded() { loaded_.get(); }

std::uint64_t Engine::submit(std::unique_ptr<Job> job) {
  job->source.ids = job->ids;
  const std::lock_guard lock(mutex_);
  if (finishing_ || ending_) throw ApiError(503, shutting_down);
  check_queue(std::ssize(waiting_), limits_.queue);
  waiting_.emplace_back(next_, std::move(job));
  wake_one();
  return next_++;
}

void Engine::cancel(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (std::erase_if(waiting_, [&](const auto& w) { return w.first == number; }) > 0) return;
  for (const auto& lane : lanes_) lane->cancelled.push_back(number);
  wake_all();
}

void Engine::run(const std::function<void(Context&)>& work, const Wanted& wanted) {
  std::exception_ptr failed;  // the caller's alone when the task is done: nobody else frees what it throws
  Task task([&](Context& ctx) {
    try {
      wanted.check();
      work(ctx);
    } catch (...) {
      failed = std::current_exception();
    }
  });
  std::future<void> done = task.get_future();
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (finishing_ || ending_) throw ApiError(503, shutting_down);
    check_queue(std::ssize(tasks_), limits_.queue);
    number = next_++;
    tasks_.emplace_back(number, std::move(task));
    lanes_.front()->changed.notify_one();
  }
  while (done.wait_until(wanted.next_check()) != std::future_status::ready) {
    try {
      wanted.check();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (std::erase_if(tasks_, [&](const auto& t) { return t.first == number; }) > 0) throw;
      break;  // it has begun
    }
  }
  done.get();
  if (failed != nullptr) std::rethrow_exception(failed);
}

void Engine::finish() {
  std::unique_lock lock(mutex_);
  finishing_ = true;
  const auto busy = [](const auto& lane) { return lane->busy; };
  idle_.wait(lock, [&] { return ending_ || (waiting_.empty() && tasks_.empty() && std::none_of(lanes_.begin(), lanes_.end(), busy)); });
}

Engine::State Engine::state() const {
  const std::lock_guard lock(mutex_);
  State all{.waiting = std::ssize(waiting_) + std::ssize(tasks_)};
  for (const auto& lane : lanes_)
    all.rows += lane->state.rows, all.steps += lane->state.steps, all.shared_tokens += lane->state.shared_tokens;
  return all;
}

// A thread that waits for work, the first of them, where there is one.
void Engine::wake_one() {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(), [](const auto& lane) { return !lane->busy; });
  if (found != lanes_.end()) (*found)->changed.notify_one();
}

void Engine::wake_all() {
  for (const auto& lane : lanes_) lane->changed.notify_one();
}

void Engine::start(const Load& load) {
  Lane& first = *lanes_.front();
  try {
    first.ctx.emplace(options_);
    threads_ = first.ctx->threads();
    const Loaded loaded = load(*first.ctx);
    model_ = loaded.model;
    const bool several = model_ != nullptr && loaded.small && first.ctx->device().kind == Device::Kind::cpu;
    const int count = several ? threads_ : 1;
    if (loaded.token_bytes > 0) limits_.loop.kept_tokens = std::min(limits_.loop.kept_tokens, limits_.kept_bytes / loaded.token_bytes);
    limits_.loop.kept_tokens /= count;
    open(first);
    for (int i = 1; i < count; ++i) add_lane();
    loading_.set_value();
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    return loading_.set_exception(std::current_exception());
  }
  work(first, true);
}

void Engine::open(Lane& lane) {
  lane.ctx->set_row_invariant(true);
  if (model_ != nullptr) lane.loop.emplace(*lane.ctx, *model_, limits_.loop);
}

void Engine::add_lane() {
  auto lane = std::make_unique<Lane>();
  lane->ctx.emplace(options_);
  open(*lane);
  const std::lock_guard lock(mutex_);
  lane->thread = std::thread([this, &lane = *lane] { work(lane, false); });
  lanes_.push_back(std::move(lane));
}

void Engine::work(Lane& lane, bool first) {
  const Inference inference(*lane.ctx);
  bool more = false;  // the loop has something to do
  for (;;) {
    std::optional<Task> task;
    {
      std::unique_lock lock(mutex_);
      const auto wanted = [&] { return more || ending_ || !lane.cancelled.empty() || (first && !tasks_.empty()) || may_take(lane); };
      if (!wanted()) {
        lane.busy = false;
        idle_.notify_all();
        // Prompts are kept for a while, not for ever: memory is given back.
        if (!lane.changed.wait_for(lock, std::chrono::seconds(60), wanted) && lane.loop) {
          lane.loop->forget();
          lane.changed.wait(lock, wanted);
        }
      }
      if (ending_) break;
      lane.busy = true;
      if (first && !tasks_.empty()) task = std::move(tasks_.front().second), tasks_.pop_front();
      take(lane);
      const auto busy = std::count_if(lanes_.begin(), lanes_.end(), [](const auto& other) { return other->busy; });
      lane.ctx->set_threads(std::max(1, threads_ / static_cast<int>(busy)));
    }
    if (task) (*task)(*lane.ctx);
    if (!lane.loop) continue;
    try {
      more = lane.loop->step();
    } catch (const std::exception& e) {  // of all that is under way: memory, the device
      fail_admitted(lane, e.what());
      lane.shared_before += lane.loop->shared_tokens();
      lane.loop.emplace(*lane.ctx, *model_, limits_.loop);
      more = false;
    }
    const std::lock_guard lock(mutex_);
    count(lane);
    lane.state.rows = lane.loop->rows();
    lane.state.steps += more ? 1 : 0;
    lane.state.shared_tokens = lane.shared_before + lane.loop->shared_tokens();
    more |= !lane.admitted.empty();
  }
  end(lane);
}

// Has this lane less than its part of all that is under way or waits, and is there a place?
bool Engine::may_take(const Lane& lane) const {
  if (waiting_.empty() || !lane.loop) return false;
  std::int64_t taken = 0, wanted = 0;
  for (const auto& other : lanes_) taken += other->taken;
  for (const auto& [number, job] : waiting_) wanted += job->rows;
  return lane.taken * std::ssize(lanes_) < taken + wanted && (taken == 0 || taken + waiting_.front().second->rows <= limits_.rows);
}

// Takes what waits, in its order.
void Engine::take(Lane& lane) {
  for (const std::uint64_t number : lane.cancelled)
    for (Admitted& a : lane.admitted)
      if (a.number == number && !a.done) lane.loop->end(a.in_loop), a.done = true;
  lane.cancelled.clear();
  count(lane);
  while (may_take(lane)) {
    auto [number, job] = std::move(waiting_.front());
    waiting_.pop_front();
    lane.taken += job->rows;
    Admitted& a = lane.admitted.emplace_back(Admitted{number, 0, std::move(job)});
    LoopSource source = a.job->source;
    // The entry is found again by its number: others come and go.
    const auto done = [&lane, number] {
      for (Admitted& other : lane.admitted)
        if (other.number == number) other.done = true;
    };
    source.found = [found = a.job->source.found, done](std::vector<Found> all) { found(std::move(all)), done(); };
    source.failed = [failed = a.job->source.failed, done](std::exception_ptr why) { failed(why), done(); };
    a.in_loop = lane.loop->add(std::move(source));
  }
  if (!waiting_.empty()) wake_one();
}

// What is done gives its places back.
void Engine::count(Lane& lane) {
  std::erase_if(lane.admitted, [](const Admitted& a) { return a.done; });
  lane.taken = 0;
  for (const Admitted& a : lane.admitted) lane.taken += a.job->rows;
}

void Engine::end(Lane& lane) {
  fail_admitted(lane, shutting_down);
  std::deque<std::pair<std::uint64_t, std::unique_ptr<Job>>> waiting;
  std::deque<std::pair<std::uint64_t, Task>> tasks;
  {
    const std::lock_guard lock(mutex_);
    waiting.swap(waiting_), tasks.swap(tasks_);
  }
  for (auto& [number, job] : waiting) job->source.failed(std::make_exception_ptr(ApiError(503, shutting_down)));
  tasks.clear();  // those who wait get a broken promise
  idle_.notify_all();
}

void Engine::fail_admitted(Lane& lane, const std::string& why) {
  for (Admitted& a : lane.admitted)
    if (!a.done) a.job->source.failed(std::make_exception_ptr(ApiError(503, why)));
  lane.admitted.clear();
}

}  // namespace transformer::serve
