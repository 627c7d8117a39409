#pragma once
// One model at work for many clients: a thread with a Context and a loop for all that is generated or searched for. What is asked for
// joins the loop at its next step and leaves it when it is done; other work, such as labels of a text, is done between steps.
//
// The steps of a small model are so short that threads which share one mostly wait for each other. So it has a loop for each thread, and
// what is asked for is spread over them. A loop that is alone at work has all threads.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "generate/shared/loop.h"
#include "serve/wanted.h"
#include "transformer/core/context.h"

namespace transformer::serve {

struct EngineLimits {
  std::int64_t rows = 256;    // sequences that are computed together
  std::int64_t queue = 1024;  // requests that wait for a place
  LoopLimits loop = {.part = 64, .step_tokens = 256, .kept_tokens = 16384};
  std::int64_t kept_bytes = std::int64_t{256} << 20;  // of keys and values of prompts that are kept for later ones
};

class Engine {
 public:
  struct Loaded {
    const SequenceModel* model = nullptr;  // what the loop generates with; null where there is only other work
    std::int64_t token_bytes = 0;          // of a token's keys and values; 0: not known
    bool small = false;                    // a loop for each thread
  };
  using Load = std::function<Loaded(Context&)>;  // called on the engine's thread first
  Engine(const ContextOptions& context, const EngineLimits& limits, Load load);
  ~Engine();  // what is under way is ended
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void loaded();  // waits for the model; Error when it could not be loaded

  // A source for the loop. Its functions are called on the engine's thread, `failed` too where the engine ends before it.
  struct Job {
    LoopSource source;
    std::vector<std::int32_t> ids;  // what source.ids are of
    std::int64_t rows = 1;          // sequences that it may need
  };
  // Its number. ApiError 429 when too many wait, 503 when the engine ends.
  std::uint64_t submit(std::unique_ptr<Job> job);
  void cancel(std::uint64_t number);  // frees its place; its functions may still be called until this has been seen

  // Other work, in the order of the calls; the caller waits. What it throws comes out here, and what `wanted` throws, which is asked
  // while the work waits, and by the engine's thread before it begins: what has begun is done.
  void run(const std::function<void(Context&)>& work, const Wanted& wanted = {});

  void finish();  // waits until all that was submitted is done, and takes nothing more

  struct State {
    std::int64_t waiting = 0, rows = 0, steps = 0, shared_tokens = 0;
  };
  State state() const;

 private:
  using Task = std::packaged_task<void(Context&)>;
  struct Admitted {
    std::uint64_t number, in_loop;
    std::unique_ptr<Job> job;
    bool done = false;
  };
  // A thread with its loop. Its first four are the thread's alone, the others are under the engine's mutex.
  struct Lane {
    std::optional<Context> ctx;
    std::optional<GenerationLoop> loop;
    std::int64_t shared_before = 0;  // tokens that were shared in loops which failed
    std::deque<Admitted> admitted;
    std::vector<std::uint64_t> cancelled;
    std::condition_variable changed;
    bool busy = false;
    std::int64_t taken = 0;  // rows that what it has taken may need
    State state;
    std::thread thread;
  };

  void start(const Load& load);
  void open(Lane& lane);
  void add_lane();
  void work(Lane& lane, bool first);
  bool may_take(const Lane& lane) const;
  void take(Lane& lane);
  void count(Lane& lane);
  void wake_one();
  void wake_all();
  void end(Lane& lane);
  static void fail_admitted(Lane& lane, const std::string& why);

  EngineLimits limits_;
  ContextOptions options_;
  const SequenceModel* model_ = nullptr;
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<std::pair<std::uint64_t, std::unique_ptr<Job>>> waiting_;
  std::deque<std::pair<std::uint64_t, Task>> tasks_;  // of the first lane
  std::uint64_t next_ = 1;
  bool finishing_ = false, ending_ = false;
  std::promise<void> loading_;
  std::shared_future<void> loaded_;
  int threads_ = 1;  // of all lanes together
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace transformer::serve
