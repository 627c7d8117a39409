#pragma once
// Processes that are threads of this one, for tests of what several exchange.

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "transformer/core/communicator.h"

namespace transformer::test {

// What was asked for is exchanged as late as may be: when somebody waits for it, all that was asked for before first.
class ThreadsTogether final : public Communicator {
 public:
  struct Shared {
    explicit Shared(int size) : all_here(size), given(static_cast<std::size_t>(size)) {}
    std::barrier<> all_here;
    std::vector<const void*> given;  // by rank
  };
  ThreadsTogether(std::shared_ptr<Shared> shared, int rank, int size)
      : Communicator(Place{.rank = rank, .size = size, .local_rank = rank, .local_size = size}), shared_(std::move(shared)) {}

  std::vector<std::int64_t> sums;  // the elements of each reduce-scatter that was asked for

  using Communicator::all_gather;
  void all_gather(const void* mine, std::size_t bytes, void* all) override {
    exchange_until(open_.size());
    const std::vector<char> own(static_cast<const char*>(mine), static_cast<const char*>(mine) + bytes);
    meet(own.data(),
         [&](int r, const void* given) { std::memcpy(static_cast<char*>(all) + bytes * static_cast<std::size_t>(r), given, bytes); });
  }
  void broadcast(void* data, std::size_t bytes, int from) override {
    exchange_until(open_.size());
    meet(data, [&](int r, const void* given) {
      if (r == from && r != rank()) std::memcpy(data, given, bytes);
    });
  }
  ExchangePtr reduce_scatter(Backend&, const float* all, float* mine, std::int64_t each) override {
    sums.push_back(each);
    open_.push_back([this, all, mine, each, then = std::vector<float>(all, all + each * size())] {
      EXPECT_TRUE(std::equal(then.begin(), then.end(), all)) << "it was changed while it was exchanged";
      std::vector<float> sum(static_cast<std::size_t>(each), 0.0F);
      meet(all, [&](int, const void* given) {
        for (std::int64_t i = 0; i < each; ++i) sum[static_cast<std::size_t>(i)] += static_cast<const float*>(given)[each * rank() + i];
      });
      std::copy(sum.begin(), sum.end(), mine);
    });
    return std::make_unique<Later>(*this, open_.size());
  }
  ExchangePtr all_gather(Backend&, float* all, std::int64_t each) override {
    open_.push_back([this, all, each] {
      meet(all, [&](int r, const void* given) {
        if (r != rank()) std::copy_n(static_cast<const float*>(given) + each * r, each, all + each * r);
      });
    });
    return std::make_unique<Later>(*this, open_.size());
  }

 private:
  struct Later final : Exchange {
    Later(ThreadsTogether& of, std::size_t number) : processes(of), until(number) {}
    void wait() override { processes.exchange_until(until); }
    ThreadsTogether& processes;
    std::size_t until;
  };
  void exchange_until(std::size_t number) {
    for (; done_ < number; ++done_) open_[done_]();
  }
  // use(rank, what it has given) for all, one after the other; nobody goes on before all have.
  template <class Use>
  void meet(const void* mine, Use&& use) {
    shared_->given[static_cast<std::size_t>(rank())] = mine;
    shared_->all_here.arrive_and_wait();
    for (int r = 0; r < size(); ++r) use(r, shared_->given[static_cast<std::size_t>(r)]);
    shared_->all_here.arrive_and_wait();
  }

  std::shared_ptr<Shared> shared_;
  std::vector<std::function<void()>> open_;
  std::size_t done_ = 0;
};

// run(processes) on so many threads, each with its own.
template <class Run>
void together(int size, Run&& run) {
  const auto shared = std::make_shared<ThreadsTogether::Shared>(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&, rank] { run(std::make_shared<ThreadsTogether>(shared, rank, size)); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace transformer::test
