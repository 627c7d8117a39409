#include "transformer/core/parallel.h"

#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "core/shared/pool.h"

namespace transformer {
namespace {

constexpr int most_threads = 256;        // of one call
constexpr int spins = 4000;              // looks at the next epoch, some 50 to 200 µs, …
constexpr int yields = 1000;             // … then while others may have the core, some ms, before a thread goes to sleep
constexpr std::int64_t pieces_each = 4;  // pieces for each thread, where there is enough work
constexpr std::int64_t most_pieces = 0xFFF;

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Look number i of a thread that waits. Waking a thread that sleeps costs more than most pieces of work, so it waits longer than the
// end of a call is uneven; whoever else wants the core gets it soon.
inline void wait_a_little(int i) {
  if (i > spins) sched_yield();
  pause();
}

thread_local int seat = -1;  // of this thread in the call whose piece it is running; -1: none

class Seated {
 public:
  explicit Seated(int number) : before_(std::exchange(seat, number)) {}
  ~Seated() { seat = before_; }
  Seated(const Seated&) = delete;
  Seated& operator=(const Seated&) = delete;

 private:
  int before_;
};

// The pieces that one thread begins with, in one word, so that a piece is taken in one step: which call they belong to (40 bits), the
// first that is not of this lane (12) and the next to be taken (12).
struct alignas(64) Lane {
  std::atomic<std::uint64_t> ticket{0};

  static constexpr std::uint64_t low = most_pieces;
  static_assert(most_threads * pieces_each <= most_pieces);
  void open(std::uint64_t call, std::int64_t begin, std::int64_t end) {
    ticket.store(call << 24 | static_cast<std::uint64_t>(end) << 12 | static_cast<std::uint64_t>(begin), std::memory_order_release);
  }
  // A piece of that call, or -1. Whoever holds a piece keeps its call alive, so what belongs to the call may be read after this.
  std::int64_t take(std::uint64_t call) {
    std::uint64_t seen = ticket.load(std::memory_order_acquire);
    while (seen >> 24 == call && (seen & low) < (seen >> 12 & low))
      if (ticket.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return static_cast<std::int64_t>(seen & low);
    return -1;
  }
};

// One call of parallel_for. Slots are never freed, so that a thread that looks at one too late finds an empty lane.
struct Slot {
  detail::RangeBody call = nullptr;
  void* body = nullptr;
  std::int64_t n = 0, pieces = 0;
  std::atomic<std::uint64_t> opened{0};  // the call's number (40 bits), the workers there were (12), its threads (12)
  std::mutex error_mutex;
  std::exception_ptr error;
  alignas(64) std::atomic<std::int32_t> remaining{0};  // pieces that are not done
  std::atomic<bool> awaited{false};                    // the caller sleeps
  std::array<Lane, most_threads> lane;

  // Works on the pieces of `call` from one's own lane on through all of them; how many were done.
  std::int32_t work(std::uint64_t number, int lanes, int own) {
    std::int32_t done = 0;
    const Seated seated(own);
    for (int i = 0; i < lanes; ++i) {
      Lane& l = lane[static_cast<std::size_t>((own + i) % lanes)];
      for (std::int64_t piece; (piece = l.take(number)) >= 0; ++done) {
        try {
          call(body, n * piece / pieces, n * (piece + 1) / pieces);
        } catch (...) {
          const std::lock_guard lock(error_mutex);
          if (!error) error = std::current_exception();
        }
      }
    }
    return done;
  }
  void finish(std::int32_t done) {
    if (remaining.fetch_sub(done, std::memory_order_seq_cst) == done && awaited.load(std::memory_order_seq_cst)) remaining.notify_one();
  }
};

class Pool {
 public:
  static Pool& get() {
    static Pool* pool = new Pool;  // never destroyed: its threads may outlive main's statics
    return *pool;
  }

  void run(int threads, std::int64_t n, std::int64_t pieces, detail::RangeBody call, void* body);
  ParallelStats stats() const {
    return {regions_.load(std::memory_order_relaxed), threads_.load(std::memory_order_relaxed), workers_.load()};
  }

 private:
  static constexpr int slot_count = 32;  // calls at a time; more run on their own thread

  void start(int workers);
  void loop(int worker);

  std::array<Slot, slot_count> slots_;
  alignas(64) std::atomic<std::uint32_t> epoch_{0};  // counts calls: what waiting threads look at
  std::atomic<int> sleepers_{0};
  alignas(64) std::atomic<std::uint32_t> taken_{0}, active_{0};  // slots that are in use, that have work
  std::mutex starting_;
  std::atomic<int> workers_{0};
  std::atomic<std::int64_t> regions_{0}, threads_{0};
};

void Pool::start(int wanted) {
  const std::lock_guard lock(starting_);
  // Signals are for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int i = workers_.load(); i < wanted; ++i) {
    try {
      std::thread([this, i] { loop(i); }).detach();
    } catch (const std::system_error&) {
      break;  // the system allows no more threads: those that are there do the work
    }
    workers_.store(i + 1);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Pool::loop(int worker) {
  int idle = 0;
  std::uint32_t seen = 0;
  for (;;) {
    for (std::uint32_t left = active_.load(std::memory_order_acquire); left != 0; left &= left - 1) {
      const int index = std::countr_zero(left);
      Slot& slot = slots_[static_cast<std::size_t>(index)];
      const std::uint64_t opened = slot.opened.load(std::memory_order_acquire);
      const int lanes = static_cast<int>(opened & 0xFFF), all = static_cast<int>(opened >> 12 & 0xFFF);
      if (worker >= all) continue;
      const int lane = 1 + (worker + all - index * (lanes - 1) % all) % all;  // calls at the same time begin with other workers
      if (lane >= lanes) continue;
      if (const std::int32_t done = slot.work(opened >> 24, lanes, lane); done > 0) slot.finish(done);
    }
    // The next call, or sleep. A call that wanted this thread and was over before it came still shows that there is work.
    std::uint32_t now;
    while ((now = epoch_.load(std::memory_order_acquire)) == seen && ++idle < spins + yields) wait_a_little(idle);
    if (now == seen) {
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      epoch_.wait(seen, std::memory_order_seq_cst);
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
      now = epoch_.load(std::memory_order_acquire);
    }
    if (worker + 1 < static_cast<int>(now & 0x1FF)) idle = 0;
    seen = now;
  }
}

void Pool::run(int threads, std::int64_t n, std::int64_t pieces, detail::RangeBody call, void* body) {
  int index = -1;
  for (std::uint32_t taken = taken_.load(std::memory_order_relaxed); ~taken != 0;) {
    const int free = std::countr_one(taken);
    if (taken_.compare_exchange_weak(taken, taken | 1U << free, std::memory_order_acquire)) {
      index = free;
      break;
    }
  }
  if (index < 0) {  // more calls at a time than slots: on this thread alone
    const Seated seated(0);
    for (std::int64_t i = 0; i < pieces; ++i) call(body, n * i / pieces, n * (i + 1) / pieces);
    return;
  }
  if (workers_.load(std::memory_order_acquire) < threads - 1) start(threads - 1);
  const int workers = workers_.load(std::memory_order_acquire);
  threads = std::min(threads, workers + 1);
  regions_.fetch_add(1, std::memory_order_relaxed), threads_.fetch_add(threads, std::memory_order_relaxed);

  Slot& slot = slots_[static_cast<std::size_t>(index)];
  slot.call = call, slot.body = body, slot.n = n, slot.pieces = pieces, slot.error = nullptr;
  slot.remaining.store(static_cast<std::int32_t>(pieces), std::memory_order_relaxed);
  const std::uint64_t number = ((slot.opened.load(std::memory_order_relaxed) >> 24) + 1) & ((std::uint64_t{1} << 40) - 1);
  for (int i = 0; i < threads; ++i) slot.lane[static_cast<std::size_t>(i)].open(number, pieces * i / threads, pieces * (i + 1) / threads);
  slot.opened.store(number << 24 | static_cast<std::uint64_t>(workers) << 12 | static_cast<std::uint64_t>(threads),
                    std::memory_order_release);
  active_.fetch_or(1U << index, std::memory_order_release);
  // The epoch's low bits say how many threads the newest call is for.
  std::uint32_t before = epoch_.load(std::memory_order_relaxed);
  while (!epoch_.compare_exchange_weak(before, ((before >> 9) + 1) << 9 | static_cast<std::uint32_t>(threads), std::memory_order_seq_cst)) {
  }
  if (sleepers_.load(std::memory_order_seq_cst) > 0) epoch_.notify_all();

  const std::int32_t done = slot.work(number, threads, 0);
  active_.fetch_and(~(1U << index), std::memory_order_relaxed);  // every piece is taken
  std::int32_t left = slot.remaining.fetch_sub(done, std::memory_order_acq_rel) - done;
  for (int i = 0; left != 0; left = slot.remaining.load(std::memory_order_acquire)) {
    if (++i < spins + yields) {
      wait_a_little(i);
      continue;
    }
    slot.awaited.store(true, std::memory_order_seq_cst);
    if ((left = slot.remaining.load(std::memory_order_seq_cst)) != 0) slot.remaining.wait(left, std::memory_order_acquire);
  }
  slot.awaited.store(false, std::memory_order_relaxed);
  const std::exception_ptr error = std::exchange(slot.error, nullptr);
  taken_.fetch_and(~(1U << index), std::memory_order_release);
  if (error) std::rethrow_exception(error);
}

// On the caller's own thread, where there is no other or this one is already part of a call.
bool runs_alone(int threads, std::int64_t n, detail::RangeBody call, void* body) {
  if (seat < 0 && threads > 1) return false;
  const Seated alone(std::min(seat, 0));
  call(body, 0, n);
  return true;
}

}  // namespace

void detail::run_parallel(int threads, std::int64_t n, std::int64_t grain, RangeBody call, void* body) {
  if (n <= 0) return;
  const std::int64_t worth = (n + grain - 1) / std::max<std::int64_t>(grain, 1);
  threads = static_cast<int>(std::min<std::int64_t>({threads, worth, most_threads}));
  if (runs_alone(threads, n, call, body)) return;
  // As many for each thread, unless pieces are single items: 19 pieces on 16 threads would take as long as 32.
  const std::int64_t pieces = std::min<std::int64_t>(worth, threads * pieces_each);
  Pool::get().run(threads, n, grain > 1 ? pieces - pieces % threads : pieces, call, body);
}

void detail::run_each(int threads, std::int64_t n, RangeBody call, void* body) {
  if (n <= 0) return;
  threads = static_cast<int>(std::min<std::int64_t>({threads, n, most_threads}));
  if (!runs_alone(threads, n, call, body)) Pool::get().run(threads, n, std::min(n, most_pieces), call, body);
}

int parallel_seat() { return std::max(seat, 0); }

ParallelStats parallel_stats() { return Pool::get().stats(); }

}  // namespace transformer
