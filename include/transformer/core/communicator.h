#pragma once
// Several processes that train one model together. One process is alone: there is nobody to exchange anything with.
//
//   ContextOptions options{.communicator = join_processes()};   // transformer/processes/processes.h; null: alone
//
// All processes make the same calls in the same order.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace transformer {

class Backend;

// An exchange under way. After wait() what the host, or the device, does next sees its result. Let go without it, it is waited for.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void wait() = 0;
};
using ExchangePtr = std::unique_ptr<Exchange>;

class Communicator {
 public:
  struct Place {
    int rank = 0, size = 1;              // among all processes
    int local_rank = 0, local_size = 1;  // among those of the same machine
  };
  explicit Communicator(const Place& place) : place_(place) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const Place& place() const { return place_; }
  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  virtual bool alone() const { return place_.size == 1; }  // nothing is exchanged: callers leave it out
  bool first() const { return place_.rank == 0; }          // the one that speaks and writes
  virtual std::string name() const { return "one process"; }

  // Of the hosts' memory; they return when it is done.
  virtual void all_gather(const void* mine, std::size_t bytes, void* all);  // all: bytes of each, in the order of the ranks
  virtual void broadcast(void* data, std::size_t bytes, int from);
  void barrier();
  std::vector<std::string> all_gather(const std::string& mine);  // of any lengths
  void sum(std::span<double> values);                            // in the order of the ranks: the same bits for all

  // Of memory that the backend's kernels compute with. What they were asked for before is there, in the order of calls; results are
  // there after wait(). `all` has `each` elements of every process, in the order of the ranks.
  virtual ExchangePtr reduce_scatter(Backend& on, const float* all, float* mine, std::int64_t each);  // mine: this rank's, summed
  virtual ExchangePtr all_gather(Backend& on, float* all, std::int64_t each);                         // in place
  virtual ExchangePtr all_reduce(Backend& on, double* values, std::int64_t count);                    // in place; few

 private:
  Place place_;
};

// One that exchanges the memory of devices which the host cannot reach, by way of the host's.
std::shared_ptr<Communicator> staged(std::shared_ptr<Communicator> hosts);
// Hands everything on to another, for what changes a part of it.
class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(std::shared_ptr<Communicator> to) : Communicator(to->place()), to_(std::move(to)) {}
  bool alone() const override { return to_->alone(); }
  std::string name() const override { return to_->name(); }
  using Communicator::all_gather;
  void all_gather(const void* mine, std::size_t bytes, void* all) override { to_->all_gather(mine, bytes, all); }
  void broadcast(void* data, std::size_t bytes, int from) override { to_->broadcast(data, bytes, from); }
  ExchangePtr reduce_scatter(Backend& on, const float* all, float* mine, std::int64_t each) override {
    return to_->reduce_scatter(on, all, mine, each);
  }
  ExchangePtr all_gather(Backend& on, float* all, std::int64_t each) override { return to_->all_gather(on, all, each); }
  ExchangePtr all_reduce(Backend& on, double* values, std::int64_t count) override { return to_->all_reduce(on, values, count); }

 protected:
  std::shared_ptr<Communicator> to_;
};

}  // namespace transformer
