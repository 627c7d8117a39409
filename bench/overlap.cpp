#include "overlap.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>

#include "base_step.h"
#include "measure.h"

namespace transformer::bench {
namespace {

// The first of two processes, of which there is only this one: sums of gradients come after a while, one after the other, as from a network
// of so many bytes a second, without taking a processor.
class SlowCommunicator final : public Communicator {
 public:
  using Communicator::all_gather;
  SlowCommunicator() : Communicator(Place{.rank = 0, .size = 2, .local_rank = 0, .local_size = 2}) {}
  ~SlowCommunicator() override {
    if (last_.valid()) last_.wait();
  }
  double bytes_per_second = 0.0;  // 0: at once
  double waited = 0.0;            // seconds that all exchanges took

  void all_gather(const void* mine, std::size_t bytes, void* all) override {
    for (int r = 0; r < size(); ++r) std::memmove(static_cast<std::byte*>(all) + bytes * static_cast<std::size_t>(r), mine, bytes);
  }
  ExchangePtr reduce_scatter(Backend&, const float* all, float* mine, std::int64_t each) override {
    const double time = bytes_per_second > 0.0 ? 4.0 * static_cast<double>(each) / bytes_per_second : 0.0;
    waited += time;
    last_ = std::async(std::launch::async, [before = last_, all, mine, each, time] {
              if (before.valid()) before.wait();
              std::this_thread::sleep_for(std::chrono::duration<double>(time));
              std::copy_n(all, each, mine);
            }).share();
    return std::make_unique<Later>(last_);
  }

 private:
  struct Later final : Exchange {
    explicit Later(std::shared_future<void> of) : ended(std::move(of)) {}
    void wait() override { ended.wait(); }
    std::shared_future<void> ended;
  };
  std::shared_future<void> last_;
};

}  // namespace

void overlap_bench(int threads, int rounds) {
  const auto network = std::make_shared<SlowCommunicator>();
  BaseStep step(DType::float32, threads, network);
  const auto time = [&](double rate) {
    network->bytes_per_second = rate;
    step.run();
    network->waited = 0.0;
    const double begin = seconds();
    step.run();
    return std::pair{seconds() - begin, network->waited};
  };
  const double alone = time(0.0).first, bytes = 4.0 * static_cast<double>(step.parameter_count()) / 2.0;
  std::printf("the base model's step, %d threads: %.0f ms when gradients are there at once\n", threads, 1e3 * alone);
  std::printf("%-28s %12s %12s %10s\n", "exchange, of the step", "exchange ms", "step longer", "hidden");
  for (const double part : {0.25, 0.5}) {
    std::vector<double> hidden, longer, exchange;
    for (int i = 0; i < rounds; ++i) {
      const double before = time(0.0).first;
      const auto [slow, waited] = time(bytes / (part * alone));
      const double after = time(0.0).first, more = slow - (before + after) / 2.0;
      hidden.push_back(1.0 - more / waited), longer.push_back(more), exchange.push_back(waited);
    }
    std::printf("%-28.2f %12.0f %12.0f %8.1f %%\n", part, 1e3 * median(exchange), 1e3 * median(longer), 100.0 * median(hidden));
  }
}

}  // namespace transformer::bench
