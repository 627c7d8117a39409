#pragma once
// The one card. What the host asks for waits in streams until the host waits for it, as if the card were as slow as can be.

#include <chrono>
#include <csetjmp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/host.h"

namespace emulator {

struct Work {
  const char* name;
  std::function<void()> run;
  const void *host_begin = nullptr, *host_end = nullptr;  // pinned memory that it needs
};

// An event, as it was recorded last.
struct Moment {
  CUstream_st* stream;
  bool passed = false;
  std::chrono::steady_clock::time_point when{};
};

class Card {
 public:
  static Card& instance();
  std::mutex& mutex() { return mutex_; }

  // All below with the mutex held.
  cudaError_t add(CUstream_st* stream, Work work);  // or write it down, where the stream is being captured
  // Runs what is first in the stream, until `enough` or nothing is left.
  void run(CUstream_st* stream, const std::function<bool()>& enough);
  void run_all();
  bool is_needed(const void* begin, const void* end) const;  // by work that waits

  cudaError_t error() const { return error_; }
  const std::string& what() const { return what_; }
  // From now on every call is this error.
  void lose(cudaError_t error, const std::string& what);

  std::vector<CUstream_st*> streams;
  std::map<const void*, std::size_t> shared_limits;  // of kernels that may have more than usual
  std::map<std::byte*, std::size_t> pinned;

 private:
  void run_one(CUstream_st* stream);
  std::mutex mutex_;
  cudaError_t error_ = cudaSuccess;
  std::string what_;
};

// Ends the work that is being done; the card is lost.
[[noreturn]] void stop_work(cudaError_t error, const std::string& what);
void catch_faults();  // of the work of this thread

void run_kernel(const Launch& launch);  // block.cpp
std::string where_we_are();             // the thread of the kernel that runs; "" where none does

constexpr std::size_t usual_shared = 48 << 10, most_shared = EMULATED_ARCH >= 90 ? 232448 : 166912;

}  // namespace emulator

struct CUstream_st {
  std::deque<emulator::Work> waiting;
  bool capturing = false;
  std::vector<emulator::Work> captured;
};
struct CUgraph_st {
  std::vector<emulator::Work> works;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<emulator::Work>> works;
};
struct CUevent_st {
  bool timed;
  std::shared_ptr<emulator::Moment> last;
};
