#pragma once
// What core needs of a device: raw memory, and copies between it and the host's. Everything else a device can do (the kernels of
// the ops) is declared one room up, in src/backend/kernels.h.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "transformer/core/device.h"

namespace transformer {

class Communicator;

// A copy to the host that was begun: what it writes may be read when it is there.
class Arrival {
 public:
  virtual ~Arrival() = default;
  virtual bool there() = 0;
  virtual void wait() = 0;
};

// Work of a device that was written down: run() does it, any number of times, with the memory it was recorded with.
class Recorded {
 public:
  virtual ~Recorded() = default;
  virtual void run() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::byte* allocate(std::size_t bytes) = 0;  // aligned to 64 bytes at least; throws Error when there is none
  virtual void deallocate(std::byte* data, std::size_t bytes) noexcept = 0;
  virtual void release_freed() {}  // gives what was deallocated back to the system, where the device keeps it; waits

  // Does the host read and write the memory through pointers? If not, only the device's kernels do, and the copies below.
  virtual bool host_access() const { return true; }
  // Copies take place in the order of the device's work. `from` may change as soon as to_device returns.
  virtual void to_device(const void* from, std::byte* to, std::size_t bytes);
  virtual void to_host(const std::byte* from, void* to, std::size_t bytes);  // waits for the work before it
  // The same without waiting; `to` must live until it is there.
  virtual std::unique_ptr<Arrival> to_host_later(const std::byte* from, void* to, std::size_t bytes);
  virtual void synchronize() {}                           // waits for all work
  virtual std::string description() const { return {}; }  // for people: "NVIDIA H200 (sm_90), 138.2 of 139.8 GiB free"
  // What work() asks of the kernels is written down and not done. Memory is taken, and copied to, at once, and nothing may be copied to the
  // host. Use record(ctx, work) of context.h, which gives it memory of its own.
  virtual bool records() const { return false; }
  virtual std::unique_ptr<Recorded> record(const std::function<void()>& work);
  // So many updates of a training may be under way before the host must know how the first of them went.
  virtual int steps_ahead() const { return 0; }
  // One that exchanges this device's memory, given one that exchanges the hosts'.
  virtual std::shared_ptr<Communicator> communicator(std::shared_ptr<Communicator> hosts);

  // What is asked for between begin_pass and end_pass may be done at its end, all at once; a device that has seen a pass may repeat it
  // faster than it is asked for (see Pass). Passes belong to the calling thread. end_pass(false): none of it is to be done.
  virtual bool has_passes() const { return false; }
  virtual void begin_pass(std::uint32_t random_step) { static_cast<void>(random_step); }
  virtual void end_pass(bool wanted) { static_cast<void>(wanted); }
};

// Defined by src/backend/dispatch.cpp, the one place that switches over devices.
std::shared_ptr<Backend> make_backend(Device device);
Device card_in_turn(int process);  // of the machine's GPUs, for one of several processes
Device fastest_device();           // the first GPU, where this build and this machine have one; else the CPU

}  // namespace transformer
