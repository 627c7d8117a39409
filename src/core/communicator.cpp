#include "transformer/core/communicator.h"

#include <algorithm>
#include <cstring>

#include "transformer/core/backend.h"

namespace transformer {
namespace {

struct Done final : Exchange {
  void wait() override {}
};

// What the host has sent and received is copied to where it belongs: all of it at once, since a device's copies wait for its work anyway.
class StagedCommunicator final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::all_gather;
  using ForwardingCommunicator::ForwardingCommunicator;
  std::string name() const override { return to_->name() + ", by way of the host"; }

  ExchangePtr reduce_scatter(Backend& on, const float* all, float* mine, std::int64_t each) override {
    const auto elements = static_cast<std::size_t>(each);
    std::vector<float> whole(elements * static_cast<std::size_t>(size())), part(elements);
    from_device(on, all, whole);
    to_->reduce_scatter(on, whole.data(), part.data(), each)->wait();
    to_device(on, part, mine);
    return std::make_unique<Done>();
  }
  ExchangePtr all_gather(Backend& on, float* all, std::int64_t each) override {
    std::vector<float> whole(static_cast<std::size_t>(each * size()));
    from_device(on, all, whole);
    to_->all_gather(on, whole.data(), each)->wait();
    to_device(on, whole, all);
    return std::make_unique<Done>();
  }
  ExchangePtr all_reduce(Backend& on, double* values, std::int64_t count) override {
    std::vector<double> host(static_cast<std::size_t>(count));
    from_device(on, values, host);
    to_->sum(host);
    to_device(on, host, values);
    return std::make_unique<Done>();
  }

 private:
  template <class T>
  static void from_device(Backend& on, const T* from, std::vector<T>& to) {
    on.to_host(reinterpret_cast<const std::byte*>(from), to.data(), to.size() * sizeof(T));
  }
  template <class T>
  static void to_device(Backend& on, const std::vector<T>& from, T* to) {
    on.to_device(from.data(), reinterpret_cast<std::byte*>(to), from.size() * sizeof(T));
  }
};

}  // namespace

void Communicator::all_gather(const void* mine, std::size_t bytes, void* all) {
  if (mine != all && bytes > 0) std::memcpy(all, mine, bytes);
}
void Communicator::broadcast(void*, std::size_t, int) {}

void Communicator::barrier() {
  const char mine = 0;
  std::vector<char> all(static_cast<std::size_t>(size()));
  all_gather(&mine, 1, all.data());
}

std::vector<std::string> Communicator::all_gather(const std::string& mine) {
  const std::uint64_t length = mine.size();
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(size()));
  all_gather(&length, sizeof length, lengths.data());
  const std::uint64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::string padded = mine, all(longest * lengths.size(), '\0');
  padded.resize(longest);
  if (longest > 0) all_gather(padded.data(), longest, all.data());
  std::vector<std::string> out;
  for (std::size_t i = 0; i < lengths.size(); ++i) out.push_back(all.substr(i * longest, lengths[i]));
  return out;
}

void Communicator::sum(std::span<double> values) {
  if (values.empty()) return;
  std::vector<double> all(values.size() * static_cast<std::size_t>(size()));
  all_gather(values.data(), values.size_bytes(), all.data());
  std::fill(values.begin(), values.end(), 0.0);
  for (std::size_t i = 0; i < all.size(); ++i) values[i % values.size()] += all[i];
}

ExchangePtr Communicator::reduce_scatter(Backend&, const float* all, float* mine, std::int64_t each) {
  std::copy_n(all, each, mine);
  return std::make_unique<Done>();
}
ExchangePtr Communicator::all_gather(Backend&, float*, std::int64_t) { return std::make_unique<Done>(); }
ExchangePtr Communicator::all_reduce(Backend&, double* values, std::int64_t count) {
  sum({values, static_cast<std::size_t>(count)});
  return std::make_unique<Done>();
}

std::shared_ptr<Communicator> staged(std::shared_ptr<Communicator> hosts) { return std::make_shared<StagedCommunicator>(std::move(hosts)); }

}  // namespace transformer
