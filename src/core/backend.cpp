// Copies for a device whose memory is the host's.
#include "transformer/core/backend.h"

#include <cstring>

#include "transformer/core/communicator.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

class There final : public Arrival {
 public:
  bool there() override { return true; }
  void wait() override {}
};

}  // namespace

std::unique_ptr<Recorded> Backend::record(const std::function<void()>&) { fail("Backend", "this device cannot record work"); }

void Backend::to_device(const void* from, std::byte* to, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

void Backend::to_host(const std::byte* from, void* to, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

std::unique_ptr<Arrival> Backend::to_host_later(const std::byte* from, void* to, std::size_t bytes) {
  to_host(from, to, bytes);
  return std::make_unique<There>();
}

std::shared_ptr<Communicator> Backend::communicator(std::shared_ptr<Communicator> hosts) {
  return host_access() ? std::move(hosts) : staged(std::move(hosts));
}

}  // namespace transformer
