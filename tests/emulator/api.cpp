// CUDA's functions: checks, and what they add to the card's streams.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "card.h"
#include "memory.h"
#include "settings.h"

using emulator::Card;
using emulator::Memory;
using emulator::Moment;

namespace {

thread_local cudaError_t last_error = cudaSuccess;

Card& card() { return Card::instance(); }

// A call that must not be made while the card is lost.
template <class F>
cudaError_t call(F&& f) {
  const std::lock_guard lock(card().mutex());
  cudaError_t error = card().error();
  if (error == cudaSuccess) error = f();
  if (error == cudaSuccess) error = card().error();
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}
cudaError_t check_device(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }

bool is_stream(cudaStream_t stream) { return std::find(card().streams.begin(), card().streams.end(), stream) != card().streams.end(); }
bool never() { return false; }

struct Name {
  cudaError_t error;
  const char *name, *words;
};
constexpr Name names[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
};
const Name* entry_of(cudaError_t error) {
  return std::find_if(std::begin(names), std::end(names), [&](const Name& n) { return n.error == error; });
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  const Name* entry = entry_of(error);
  return entry == std::end(names) ? "cudaErrorUnknown" : entry->name;
}
// Of a lost card: what was wrong.
const char* cudaGetErrorString(cudaError_t error) {
  if (error != cudaSuccess && error == card().error()) return card().what().c_str();
  const Name* entry = entry_of(error);
  return entry == std::end(names) ? "unknown error" : entry->words;
}
cudaError_t cudaPeekAtLastError() { return card().error() != cudaSuccess ? card().error() : last_error; }
cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}

// --- the card ----------------------------------------------------------------------------------------------------------------------
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return call([&] { return check_device(device); });
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call([&] {
    *properties = {};
    std::snprintf(properties->name, sizeof properties->name, "an emulated card");
    properties->major = EMULATED_ARCH / 10, properties->minor = EMULATED_ARCH % 10, properties->multiProcessorCount = 132;
    return check_device(device);
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call([&] {
    switch (attribute) {
      case cudaDevAttrComputeCapabilityMajor: *value = EMULATED_ARCH / 10; return check_device(device);
      case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(emulator::most_shared); return check_device(device);
    }
    return cudaErrorInvalidValue;
  });
}

// --- streams and graphs --------------------------------------------------------------------------------------------------------------
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call([&] {
    if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
    card().streams.push_back(*stream = new CUstream_st);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([&] {
    if (!is_stream(stream) || stream->capturing) return cudaErrorInvalidResourceHandle;
    card().run(stream, never);  // what was asked for is still done
    std::erase(card().streams, stream);
    delete stream;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call([&] {
    if (!is_stream(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capturing) return cudaErrorStreamCaptureUnsupported;
    card().run(stream, never);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call([&] {
    if (!is_stream(stream) || stream->capturing || mode != cudaStreamCaptureModeRelaxed) return cudaErrorInvalidValue;
    stream->capturing = true;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call([&] {
    if (!is_stream(stream) || !stream->capturing) return cudaErrorInvalidValue;
    stream->capturing = false;
    *graph = new CUgraph_st{std::exchange(stream->captured, {})};
    return cudaSuccess;
  });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return call([&] {
    *exec = new CUgraphExec_st{std::make_shared<const std::vector<emulator::Work>>(graph->works)};
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return call([&] {
    cudaError_t error = cudaSuccess;
    for (std::size_t i = 0; i < exec->works->size() && error == cudaSuccess; ++i) {
      const emulator::Work& work = (*exec->works)[i];
      error = card().add(stream, {work.name, [works = exec->works, i] { (*works)[i].run(); }, work.host_begin, work.host_end});
    }
    return error;
  });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;  // one that is under way ends first
  return cudaSuccess;
}

// --- events --------------------------------------------------------------------------------------------------------------------------
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&] {
    *event = new CUevent_st{(flags & cudaEventDisableTiming) == 0, nullptr};
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([&] {
    if (!is_stream(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capturing) return cudaErrorStreamCaptureUnsupported;
    const auto moment = std::make_shared<Moment>(Moment{stream});
    event->last = moment;
    return card().add(stream, {"", [moment] { moment->passed = true, moment->when = std::chrono::steady_clock::now(); }});
  });
}
// The card is always a little behind: of what is asked about it does one thing more.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&] {
    if (!event->last || event->last->passed) return cudaSuccess;
    int steps = emulator::chance.one_in(2) ? 16 : 1;
    card().run(event->last->stream, [&] { return steps-- == 0; });
    return event->last->passed ? cudaSuccess : cudaErrorNotReady;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&] {
    if (event->last) card().run(event->last->stream, [&] { return event->last->passed; });
    return cudaSuccess;
  });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return call([&] {
    if (!begin->last || !end->last || !begin->timed || !end->timed) return cudaErrorInvalidResourceHandle;
    if (!begin->last->passed || !end->last->passed) return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(end->last->when - begin->last->when).count();
    return cudaSuccess;
  });
}

// --- memory --------------------------------------------------------------------------------------------------------------------------
cudaError_t cudaMalloc(void** at, std::size_t bytes) {
  return call([&] { return (*at = Memory::instance().take(bytes)) == nullptr ? cudaErrorMemoryAllocation : cudaSuccess; });
}
cudaError_t cudaFree(void* at) {
  return call([&] {
    if (at == nullptr) return cudaSuccess;
    card().run_all();
    Memory::instance().open();
    const char* wrong = Memory::instance().give_back(static_cast<std::byte*>(at));
    Memory::instance().close();
    if (wrong != nullptr) card().lose(cudaErrorInvalidValue, wrong);
    return cudaSuccess;
  });
}
cudaError_t cudaMallocAsync(void** at, std::size_t bytes, cudaStream_t stream) {
  return call([&] {
    if (!is_stream(stream) || stream->capturing) return cudaErrorInvalidValue;
    *at = Memory::instance().take(bytes);
    if (*at == nullptr) card().run(stream, never), *at = Memory::instance().take(bytes);  // what was to be given back is
    return *at == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}
cudaError_t cudaFreeAsync(void* at, cudaStream_t stream) {
  return call([&] {
    if (at == nullptr) return cudaSuccess;
    if (!is_stream(stream) || stream->capturing) return cudaErrorInvalidValue;
    return card().add(stream, {"giving memory back", [at] {
                                 if (const char* wrong = Memory::instance().give_back(static_cast<std::byte*>(at)))
                                   emulator::stop_work(cudaErrorLaunchFailure, wrong);
                               }});
  });
}
cudaError_t cudaMallocHost(void** at, std::size_t bytes) {
  return call([&] {
    std::byte* const data = emulator::guarded_pages(bytes);
    std::memset(data, 0xFF, bytes);
    card().pinned[data] = bytes;
    *at = data;
    return cudaSuccess;
  });
}
cudaError_t cudaFreeHost(void* at) {
  return call([&] {
    if (at == nullptr) return cudaSuccess;
    const auto it = card().pinned.find(static_cast<std::byte*>(at));
    if (it == card().pinned.end()) return cudaErrorInvalidValue;
    if (card().is_needed(it->first, it->first + it->second))
      card().lose(cudaErrorInvalidValue, "pinned memory was given back that a copy needs");
    emulator::forget_pages(it->first, it->second);
    card().pinned.erase(it);
    return cudaSuccess;
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&] {
    Memory& memory = Memory::instance();
    const bool from_card = memory.holds(from), to_card = memory.holds(to);
    if (from_card != (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice) ||
        to_card != (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) || kind == cudaMemcpyHostToHost)
      return cudaErrorInvalidValue;
    const auto* host = static_cast<const std::byte*>(from_card ? to : from);
    const auto block = card().pinned.upper_bound(const_cast<std::byte*>(host));
    const bool is_pinned = block != card().pinned.begin() && host + bytes <= std::prev(block)->first + std::prev(block)->second;
    emulator::Work work{"copy", [=] {
                          for (const void* at : {static_cast<const void*>(to), from})
                            if (Memory::instance().holds(at) && !Memory::instance().is_allocated(at, bytes))
                              emulator::stop_work(cudaErrorIllegalAddress, "a copy from or to memory that is not allocated");
                          std::memcpy(to, from, bytes);
                        }};
    if (kind == cudaMemcpyDeviceToDevice) return card().add(stream, std::move(work));
    if (is_pinned) work.host_begin = host, work.host_end = host + bytes;
    else if (stream->capturing) return cudaErrorStreamCaptureUnsupported;
    if (is_pinned || from_card) return card().add(stream, std::move(work));
    // What is not pinned has been read when the call returns.
    auto kept = std::make_shared<std::vector<std::byte>>(host, host + bytes);
    return card().add(stream, {"copy", [to, kept] {
                                 if (!Memory::instance().is_allocated(to, kept->size()))
                                   emulator::stop_work(cudaErrorIllegalAddress, "a copy to memory that is not allocated");
                                 std::memcpy(to, kept->data(), kept->size());
                               }});
  });
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call([&] {
    *total = Memory::total, *free = Memory::total - Memory::instance().used();
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  *pool = nullptr;
  return call([&] { return check_device(device); });
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) { return cudaSuccess; }

namespace emulator {

cudaError_t allow_shared(const void* kernel, cudaFuncAttribute, int value) {
  return call([&] {
    if (value < 0 || static_cast<std::size_t>(value) > most_shared) return cudaErrorInvalidValue;
    card().shared_limits[kernel] = static_cast<std::size_t>(value);
    return cudaSuccess;
  });
}

cudaError_t start(Launch launch, cudaStream_t stream) {
  return call([&] {
    const dim3 blocks = launch.blocks, threads = launch.threads;
    const auto limit = card().shared_limits.find(launch.kernel);
    if (launch.shared > (limit == card().shared_limits.end() ? usual_shared : limit->second)) return cudaErrorInvalidValue;
    if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0 || blocks.x > 0x7FFFFFFFU || blocks.y > 65535 || blocks.z > 65535 ||
        threads.x == 0 || threads.y == 0 || threads.z == 0 || threads.z > 64 || threads.x * threads.y * threads.z > 1024)
      return cudaErrorInvalidConfiguration;
    const char* name = launch.name;
    return card().add(stream, {name, [launch = std::move(launch)] { run_kernel(launch); }});
  });
}

}  // namespace emulator
