// A card: its memory, copies between it and the host's, and what goes wrong.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "backend/cuda/cublaslt.h"
#include "backend/cuda/launch.h"

namespace transformer {

void check_cuda(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // what can be forgotten is: the next call starts afresh
  fail(what, "CUDA: {} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
}

// Pinned memory that copies to the device pass through, in turns: `from` may change as soon as to_device returns, and the device reads at
// its own time. A part is filled again only when the copies out of it have ended.
class Staging {
 public:
  Staging() { check_cuda(cudaMallocHost(reinterpret_cast<void**>(&data_), part * parts), "pinned memory"); }
  ~Staging() {
    for (cudaEvent_t& e : ended_)
      if (e != nullptr) cudaEventDestroy(e);
    cudaFreeHost(data_);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void copy(const std::byte* from, std::byte* to, std::size_t bytes, cudaStream_t stream) {
    while (bytes > 0) {
      if (used_ == part) turn(stream);
      const std::size_t n = std::min(bytes, part - used_);
      std::byte* at = data_ + current_ * part + used_;
      std::memcpy(at, from, n);
      check_cuda(cudaMemcpyAsync(to, at, n, cudaMemcpyHostToDevice, stream), "copy to the device");
      used_ = std::min(part, (used_ + n + 63) / 64 * 64);
      from += n, to += n, bytes -= n;
    }
  }

 private:
  static constexpr std::size_t part = std::size_t{4} << 20, parts = 8;

  void turn(cudaStream_t stream) {
    cudaEvent_t& ended = ended_[current_];
    if (ended == nullptr) check_cuda(cudaEventCreateWithFlags(&ended, cudaEventDisableTiming), "event");
    check_cuda(cudaEventRecord(ended, stream), "event");
    current_ = (current_ + 1) % parts, used_ = 0;
    if (ended_[current_] != nullptr) check_cuda(cudaEventSynchronize(ended_[current_]), "copy to the device");
  }

  std::byte* data_ = nullptr;
  std::size_t current_ = 0, used_ = 0;
  std::array<cudaEvent_t, parts> ended_{};
};

// Pinned places for few bytes each, with an event; taken and given back, since making one makes the device wait.
class PinnedPlaces {
 public:
  struct Place {
    void* data = nullptr;
    cudaEvent_t ended = nullptr;
  };
  static constexpr std::size_t size = std::size_t{32} << 10;

  Place take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      std::byte* block = nullptr;
      check_cuda(cudaMallocHost(reinterpret_cast<void**>(&block), size * 32), "pinned memory");
      blocks_.push_back(block);
      for (std::size_t i = 0; i < 32; ++i) {
        Place place{block + i * size};
        check_cuda(cudaEventCreateWithFlags(&place.ended, cudaEventDisableTiming), "event");
        free_.push_back(place);
      }
    }
    const Place place = free_.back();
    free_.pop_back();
    return place;
  }
  void give_back(Place place) {
    const std::lock_guard lock(mutex_);
    free_.push_back(place);
  }
  PinnedPlaces() = default;
  ~PinnedPlaces() {
    for (const Place& place : free_) cudaEventDestroy(place.ended);
    for (std::byte* block : blocks_) cudaFreeHost(block);
  }
  PinnedPlaces(const PinnedPlaces&) = delete;
  PinnedPlaces& operator=(const PinnedPlaces&) = delete;

 private:
  std::mutex mutex_;
  std::vector<Place> free_;
  std::vector<std::byte*> blocks_;
};

namespace {

// A few bytes on their way back.
class CudaArrival final : public Arrival {
 public:
  CudaArrival(std::shared_ptr<PinnedPlaces> places, const std::byte* from, void* to, std::size_t bytes, cudaStream_t stream)
      : places_(std::move(places)), place_(places_->take()), to_(to), bytes_(bytes) {
    check_cuda(cudaMemcpyAsync(place_.data, from, bytes, cudaMemcpyDeviceToHost, stream), "copy to the host");
    check_cuda(cudaEventRecord(place_.ended, stream), "event");
  }
  ~CudaArrival() override {
    if (!done_) cudaEventSynchronize(place_.ended);  // the device may still write
    places_->give_back(place_);
  }
  bool there() override {
    if (done_) return true;
    const cudaError_t state = cudaEventQuery(place_.ended);
    if (state == cudaErrorNotReady) return false;
    check_cuda(state, "copy to the host");
    return take();
  }
  void wait() override {
    if (done_) return;
    check_cuda(cudaEventSynchronize(place_.ended), "copy to the host");
    take();
  }

 private:
  bool take() {
    std::memcpy(to_, place_.data, bytes_);
    return done_ = true;
  }
  std::shared_ptr<PinnedPlaces> places_;
  PinnedPlaces::Place place_;
  void* to_;
  std::size_t bytes_;
  bool done_ = false;
};

// The cards' kernels, one for each: contexts share them, and the last one takes them along.
std::shared_ptr<CudaKernels> shared_kernels(int device) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<CudaKernels>> cards;
  const std::lock_guard lock(mutex);
  std::shared_ptr<CudaKernels> kernels = cards[device].lock();
  if (!kernels) cards[device] = kernels = std::make_shared<CudaKernels>(device);
  return kernels;
}

}  // namespace

CudaKernels::CudaKernels(int device) : device_(device), name_(Device::cuda(device).str()) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess)
    fail("Device", "{} asked for, but there is no usable NVIDIA GPU: {}. Use the device cpu, or install a driver for CUDA {}.{} or newer",
         name_, cudaGetErrorString(error), CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  if (device < 0 || device >= count)
    fail("Device", "{} asked for, but there {}: expected cuda:0{}", name_,
         count == 1 ? "is one GPU" : "are " + std::to_string(count) + " GPUs", count > 1 ? " to cuda:" + std::to_string(count - 1) : "");
  use();
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), name_);
  int shared = 0, major = 0;
  check_cuda(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device_), name_);
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device_), name_);
  most_shared_memory_ = static_cast<std::size_t>(shared), starts_early_ = major >= 9;
  // Freed memory stays with the program: asking for it again costs next to nothing.
  cudaMemPool_t pool = nullptr;
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, device_), name_);
  std::uint64_t threshold = ~std::uint64_t{0};
  check_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold), name_);
  staging_ = std::make_unique<Staging>();
  places_ = std::make_shared<PinnedPlaces>();
  products_ = std::make_unique<CublasLt>();
  passes_ = std::make_unique<CudaPasses>(*this);
}

CudaKernels::~CudaKernels() {
  use();
  cudaStreamSynchronize(stream_);
  passes_.reset();
  products_.reset();
  staging_.reset();
  if (recorder_ != nullptr) cudaStreamDestroy(recorder_);
  cudaStreamDestroy(stream_);
}

void CudaKernels::use() const {
  thread_local int current = -1;
  if (current == device_) return;
  check_cuda(cudaSetDevice(device_), name_);
  current = device_;
}

void CudaKernels::launching() {
  if (!timing_ || recording()) return;
  CudaTime time{"", nullptr, nullptr};
  check_cuda(cudaEventCreate(&time.begin), "event");
  check_cuda(cudaEventCreate(&time.end), "event");
  check_cuda(cudaEventRecord(time.begin, stream_), "event");
  times_.push_back(time);
}

CudaReport CudaKernels::take_report() {
  CudaReport report{.launches = counts_.launches.exchange(0), .waits = counts_.waits.exchange(0), .graphs = passes_->take_replayed()};
  check_cuda(cudaStreamSynchronize(stream_), "report");
  std::map<std::string, CudaReport::Kernel> by_name;
  for (const CudaTime& time : times_) {
    float milliseconds = 0.0F;
    check_cuda(cudaEventElapsedTime(&milliseconds, time.begin, time.end), "report");
    CudaReport::Kernel& kernel = by_name[time.kernel];
    kernel.name = time.kernel, ++kernel.calls, kernel.milliseconds += static_cast<double>(milliseconds);
    cudaEventDestroy(time.begin), cudaEventDestroy(time.end);
  }
  times_.clear();
  for (auto& [name, kernel] : by_name) report.kernels.push_back(kernel);
  std::sort(report.kernels.begin(), report.kernels.end(), [](const auto& a, const auto& b) { return a.milliseconds > b.milliseconds; });
  return report;
}

void time_cuda_kernels(Context& ctx, bool on) { cuda(ctx).time_kernels(on); }
CudaReport take_cuda_report(Context& ctx) { return cuda(ctx).take_report(); }

void CudaKernels::launched(const char* kernel) {
  if (!recording()) ++counts_.launches;
  if (timing_ && !recording() && !times_.empty()) {
    times_.back().kernel = kernel;
    check_cuda(cudaEventRecord(times_.back().end, stream_), "event");
  }
  check_cuda(cudaPeekAtLastError(), kernel);
}

std::byte* CudaKernels::allocate(std::size_t bytes) {
  use();
  void* data = nullptr;
  const cudaError_t error = cudaMallocAsync(&data, bytes, stream_);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    constexpr double mib = 1024.0 * 1024.0;
    fail(name_,
         "out of memory: {:.1f} MiB asked for, {:.1f} of {:.1f} MiB free. Try smaller batches with a larger update_freq, bfloat16 "
         "(--precision), or LoRA",
         static_cast<double>(bytes) / mib, static_cast<double>(free) / mib, static_cast<double>(total) / mib);
  }
  check_cuda(error, "allocation");
  return static_cast<std::byte*>(data);
}

void CudaKernels::deallocate(std::byte* data, std::size_t) noexcept { cudaFreeAsync(data, stream_); }

void CudaKernels::release_freed() {
  use();
  cudaMemPool_t pool = nullptr;
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, device_), name_);
  check_cuda(cudaStreamSynchronize(stream_), "memory");
  check_cuda(cudaMemPoolTrimTo(pool, 0), "memory");
}

void CudaKernels::begin_pass(std::uint32_t random_step) {
  use();
  passes_->begin(random_step);
}
void CudaKernels::end_pass(bool wanted) { passes_->end(wanted); }
const std::uint32_t* CudaKernels::random_step(std::uint32_t step) const { return passes_->random_step(step); }
CudaPass* CudaKernels::pass() const { return passes_->current(); }

void CudaKernels::to_device(const void* from, std::byte* to, std::size_t bytes) {
  if (bytes == 0) return;
  use();
  if (pass() != nullptr) return passes_->upload(from, to, bytes);
  const std::lock_guard lock(mutex_);
  staging_->copy(static_cast<const std::byte*>(from), to, bytes, stream_);
}

void CudaKernels::to_host(const std::byte* from, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  use();
  if (recording()) fail("copy to the host", "work that is being recorded has not been done: there is nothing to copy");
  passes_->flush();
  ++counts_.waits;
  if (bytes <= PinnedPlaces::size) return CudaArrival(places_, from, to, bytes, stream_).wait();
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "copy to the host");
  check_cuda(cudaStreamSynchronize(stream_), "copy to the host");
}

std::unique_ptr<Arrival> CudaKernels::to_host_later(const std::byte* from, void* to, std::size_t bytes) {
  use();
  passes_->flush();
  if (bytes > PinnedPlaces::size) return Backend::to_host_later(from, to, bytes);
  return std::make_unique<CudaArrival>(places_, from, to, bytes, stream_);
}

void CudaKernels::synchronize() {
  use();
  passes_->flush();
  ++counts_.waits;
  check_cuda(cudaStreamSynchronize(stream_), "synchronize");
}

std::string CudaKernels::description() const {
  use();
  cudaDeviceProp card{};
  check_cuda(cudaGetDeviceProperties(&card, device_), name_);
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), name_);
  constexpr double gib = 1024.0 * 1024.0 * 1024.0;
  return fmt::format("{} (sm_{}{}), {} multiprocessors, {:.1f} of {:.1f} GiB free", card.name, card.major, card.minor,
                     card.multiProcessorCount, static_cast<double>(free) / gib, static_cast<double>(total) / gib);
}

std::shared_ptr<Kernels> make_cuda_kernels(int device) { return shared_kernels(device); }

int cuda_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

}  // namespace transformer
