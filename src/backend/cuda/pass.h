#pragma once
// A pass (transformer/core/context.h) on a card: what it asks for is written down first, and done at its end. The second time the same list
// comes it is made a graph, and from then on a pass is one launch. The list has every argument of every kernel, so that a graph is used
// only where it does exactly what was asked for; values that change from pass to pass come with the data (uploads), never as arguments.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/cuda/start.h"

namespace transformer {

class CudaKernels;

// What work() starts on the recorder, a stream on which nothing ever runs, as a graph.
cudaGraphExec_t graph_of(cudaStream_t recorder, const std::function<void()>& work);

// Pinned memory, on the way to the device.
struct PinnedUploads {
  std::byte* data = nullptr;
  std::size_t size = 0;
  cudaEvent_t copied = nullptr;
};

// What a pass asks for.
class CudaPass {
 public:
  // Bytes that tell one piece of work from another. Padding within `value` does not count.
  template <class T>
  void note(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if constexpr (std::is_class_v<T>) __builtin_clear_padding(&value);
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    log_.insert(log_.end(), bytes, bytes + sizeof value);
  }
  // Work whose every property has been noted.
  void add(const char* name, std::function<void(cudaStream_t)> run);

  template <class... Parameters>
  void add_kernel(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared, Parameters... arguments) {
    note(reinterpret_cast<const void*>(kernel));
    note(grid), note(block), note(shared);
    (note(arguments), ...);
    add(name, [=](cudaStream_t stream) { start(name, kernel, grid, block, shared, stream, arguments...); });
  }

 private:
  friend class CudaPasses;
  struct Work {
    const char* name;
    std::function<void(cudaStream_t)> run;
  };
  std::uint32_t random_step_ = 0;
  std::vector<Work> works_;
  std::vector<std::byte> log_;
  PinnedUploads uploads_;
  std::size_t uploaded_ = 0;  // bytes of them
};

// The passes of a card's contexts: the one that this thread is in, uploads, and graphs of those that came before.
class CudaPasses {
 public:
  explicit CudaPasses(CudaKernels& device);
  ~CudaPasses();
  CudaPasses(const CudaPasses&) = delete;
  CudaPasses& operator=(const CudaPasses&) = delete;

  CudaPass* current() const;  // this thread's, null: there is none
  void begin(std::uint32_t random_step);
  void end(bool wanted);
  void flush();  // the host wants to see something: what was asked for so far is done, and the rest of the pass as it comes
  void upload(const void* from, std::byte* to, std::size_t bytes);  // within the pass
  // Where kernels find the pass's random step; null: `step` is another, or there is no pass.
  const std::uint32_t* random_step(std::uint32_t step) const;
  std::int64_t take_replayed() { return std::exchange(replayed_, 0); }  // passes that were one launch, since it was last asked for

 private:
  struct Graph {
    std::vector<std::byte> log;
    cudaGraphExec_t exec = nullptr;  // null: seen once
    std::uint64_t used = 0;
  };

  PinnedUploads take_uploads();
  void send_uploads(CudaPass& pass);
  void run_each(const CudaPass& pass);
  cudaGraphExec_t make_graph(const CudaPass& pass);
  void forget_oldest();

  CudaKernels& device_;
  bool graphs_wanted_;
  cudaStream_t recorder_ = nullptr;    // nothing ever runs on it
  std::uint32_t* step_ = nullptr;      // in the card's memory
  std::mutex mutex_;                   // of all below, and while a pass is sent
  std::deque<PinnedUploads> uploads_;  // those that no pass has; the first has waited longest
  std::byte* arrived_ = nullptr;       // the uploads of a pass, in the card's memory
  std::size_t arrived_size_ = 0;
  std::unordered_map<std::uint64_t, Graph> graphs_;  // by the hash of their logs
  std::uint64_t clock_ = 0;
  std::int64_t replayed_ = 0;
};

}  // namespace transformer
