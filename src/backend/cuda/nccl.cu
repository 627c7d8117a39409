// Several cards: NCCL exchanges what lies in their memory, on a stream of its own, while kernels compute. The library is opened when it is
// first needed; where it is missing, or processes share a card, the exchange goes by way of the hosts.
#include <dlfcn.h>

#include <algorithm>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/cuda/launch.h"
#include "transformer/core/communicator.h"
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

namespace transformer {

#ifdef NCCL_MAJOR
namespace {

struct NcclFunctions {
  decltype(&ncclGetUniqueId) unique_id = nullptr;
  decltype(&ncclCommInitRank) init = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclGetErrorString) error = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  bool there = false;

  NcclFunctions() {
    void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    there = true;
    const auto get = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      there = there && function != nullptr;
    };
    get(unique_id, "ncclGetUniqueId"), get(init, "ncclCommInitRank"), get(destroy, "ncclCommDestroy");
    get(error, "ncclGetErrorString"), get(reduce_scatter, "ncclReduceScatter"), get(all_gather, "ncclAllGather");
    get(all_reduce, "ncclAllReduce");
  }
  void check(ncclResult_t result, const char* what) const {
    if (result != ncclSuccess) fail("NCCL", "{}: {}", what, error(result));
  }
};

const NcclFunctions& nccl() {
  static const NcclFunctions functions;
  return functions;
}

struct Event {
  cudaEvent_t event = nullptr;
  explicit Event(cudaStream_t after) {
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
    check_cuda(cudaEventRecord(event, after), "event");
  }
  ~Event() { cudaEventDestroy(event); }  // it is gone when it has happened
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
};

// What the device does next waits for it; the host does not.
class NcclExchange final : public Exchange {
 public:
  NcclExchange(cudaStream_t on, cudaStream_t compute) : ended_(on), compute_(compute) {}
  ~NcclExchange() override {
    if (!waited_) cudaStreamWaitEvent(compute_, ended_.event, 0);
  }
  void wait() override {
    check_cuda(cudaStreamWaitEvent(compute_, ended_.event, 0), "exchange");
    waited_ = true;
  }

 private:
  Event ended_;
  cudaStream_t compute_;
  bool waited_ = false;
};

class NcclCommunicator final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::all_gather;
  NcclCommunicator(std::shared_ptr<Communicator> hosts, const CudaKernels& card)
      : ForwardingCommunicator(std::move(hosts)), compute_(card.stream()) {
    ncclUniqueId id{};
    if (rank() == 0) nccl().check(nccl().unique_id(&id), "the first process");
    to_->broadcast(&id, sizeof id, 0);
    nccl().check(nccl().init(&all_, size(), id, rank()), "joining the other cards");
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
  }
  ~NcclCommunicator() override {
    // On an error's way up nothing is waited for: processes of one machine take their leave of NCCL together, and the others, which are not
    // told of the error before it has come to the top, do not.
    if (std::uncaught_exceptions() > 0) return;
    cudaStreamSynchronize(stream_);
    nccl().destroy(all_);
    cudaStreamDestroy(stream_);
  }
  std::string name() const override { return to_->name() + ", NCCL"; }

  ExchangePtr reduce_scatter(Backend&, const float* all, float* mine, std::int64_t each) override {
    return begin("reduce-scatter", nccl().reduce_scatter, all, mine, static_cast<std::size_t>(each), ncclFloat32, ncclSum);
  }
  ExchangePtr all_gather(Backend&, float* all, std::int64_t each) override {
    return begin("all-gather", nccl().all_gather, all + each * rank(), all, static_cast<std::size_t>(each), ncclFloat32);
  }
  ExchangePtr all_reduce(Backend&, double* values, std::int64_t count) override {
    return begin("all-reduce", nccl().all_reduce, values, values, static_cast<std::size_t>(count), ncclFloat64, ncclSum);
  }

 private:
  template <class Function, class... Arguments>
  ExchangePtr begin(const char* what, Function function, Arguments... arguments) {
    const Event asked(compute_);
    check_cuda(cudaStreamWaitEvent(stream_, asked.event, 0), what);
    nccl().check(function(arguments..., all_, stream_), what);
    return std::make_unique<NcclExchange>(stream_, compute_);
  }

  cudaStream_t compute_, stream_ = nullptr;
  ncclComm_t all_ = nullptr;
};

}  // namespace

std::shared_ptr<Communicator> CudaKernels::communicator(std::shared_ptr<Communicator> hosts) {
  use();
  // All have the library, and a card of their own each: NCCL knows no two processes of one card.
  cudaDeviceProp card{};
  check_cuda(cudaGetDeviceProperties(&card, device_), name_);
  std::string mine(card.uuid.bytes, sizeof card.uuid.bytes);
  if (!nccl().there) mine.clear();
  std::vector<std::string> cards = hosts->all_gather(mine);
  std::sort(cards.begin(), cards.end());
  if (cards.front().empty() || std::adjacent_find(cards.begin(), cards.end()) != cards.end()) return staged(std::move(hosts));
  return std::make_shared<NcclCommunicator>(std::move(hosts), *this);
}
#else
std::shared_ptr<Communicator> CudaKernels::communicator(std::shared_ptr<Communicator> hosts) { return staged(std::move(hosts)); }
#endif

}  // namespace transformer
