#pragma once
// Work done ahead of its use, on one background thread: batches are made while the model computes.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace transformer {

//   Prefetcher<PairIds> batches([&](std::int64_t i) { return make_batch(data, plan[i]); }, position, plan.size());
//   while (auto batch = batches.next()) train_on(*batch);
template <class T>
class Prefetcher {
 public:
  using Producer = std::function<T(std::int64_t index)>;

  // Calls produce(first), produce(first + 1), … produce(end - 1), in this order, at most `ahead` items ahead of next().
  // What produce refers to must outlive this object.
  Prefetcher(Producer produce, std::int64_t first, std::int64_t end, std::size_t ahead = 4)
      : produce_(std::move(produce)), ahead_(ahead == 0 ? 1 : ahead), thread_([this, first, end] { run(first, end); }) {}

  // Stops after the item under way.
  ~Prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next item; none after the last one. An exception of produce is thrown here, in the place of its item, and again at
  // every later call: nothing is produced after it.
  std::optional<T> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || done_; });
    if (ready_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return std::nullopt;
    }
    std::optional<T> item(std::move(ready_.front()));
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return item;
  }

 private:
  void run(std::int64_t first, std::int64_t end) {
    std::exception_ptr error;
    try {
      for (std::int64_t i = first; i < end; ++i) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ready_.size() < ahead_ || stop_; });
        if (stop_) break;
        lock.unlock();
        T item = produce_(i);
        lock.lock();
        ready_.push_back(std::move(item));
        lock.unlock();
        changed_.notify_all();
      }
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      error_ = error;
      done_ = true;
    }
    changed_.notify_all();
  }

  Producer produce_;
  std::size_t ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> ready_;  // at most ahead_ items
  std::exception_ptr error_;
  bool stop_ = false, done_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace transformer
