#pragma once
// Watches over processes that work together. Each has a connection to the first one, beside MPI's: when a process ends, is killed, or its
// machine goes silent, the first says which and why, and all end. MPI by itself would wait for ever.

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transformer/core/communicator.h"

namespace transformer {

class Watch {
 public:
  // Connects: a collective call.
  explicit Watch(Communicator& processes);
  // All have come to their end, see leave(): the connections may go.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  [[noreturn]] void fail(const std::string& reason, int code);
  void leave();  // from now on a connection that ends is no fault

 private:
  void serve();   // the first process's thread
  void follow();  // the others'
  [[noreturn]] void end_all(const std::string& message, int code);
  std::string called(int rank) const;
  [[noreturn]] static void fail_with_errno(const char* what);

  int rank_, size_;
  std::FILE* speech_;  // standard error, whatever becomes of the one that the others have
  std::vector<std::string> hosts_;
  std::vector<int> sockets_;  // of the first: one a rank; of the others: one
  std::atomic<bool> stop_ = false, leaving_ = false, failing_ = false;
  std::mutex speaking_;
  std::thread thread_;
};

}  // namespace transformer
