#pragma once
// Everything an op needs beside its operands: device, memory, threads, random numbers, precision, and
// whether gradients are recorded. There are no globals; a program may hold several contexts. One context
// is used by one thread at a time.

#include <cstdint>
#include <memory>

#include "transformer/core/allocator.h"
#include "transformer/core/backend.h"
#include "transformer/core/communicator.h"
#include "transformer/core/device.h"
#include "transformer/core/dtype.h"
#include "transformer/core/random.h"

namespace transformer {

struct ContextOptions {
  Device device = Device::usual();
  int threads = 0;  // 0: all that the machine offers
  std::uint64_t seed = 0;
  DType precision = DType::float32;                      // type of activations: float32 or bfloat16; weights stay float32
  std::shared_ptr<Communicator> communicator = nullptr;  // the processes that train together; null: this one is alone
};

class Context {
 public:
  explicit Context(const ContextOptions& options = {});

  Device device() const { return device_; }
  int threads() const { return threads_; }
  Allocator& allocator() { return *allocator_; }
  Backend& backend() { return *backend_; }
  Communicator& communicator() { return *communicator_; }
  Random& random() { return random_; }
  DType precision() const { return precision_; }
  void set_precision(DType precision);

  std::uint64_t& tape_order() { return tape_order_; }  // of the last op that was recorded, see autograd/autograd.h

  bool recording() const { return recording_; }  // are gradients recorded?
  bool training() const { return training_; }    // is dropout active?
  void set_training(bool on) { training_ = on; }
  // On the CPU: with true, each row of a product with a weight is computed in the same way however many rows there are, so that what a
  // sequence gives does not depend on what else is in its batch, to the last bit. Slower for many rows.
  bool row_invariant() const { return row_invariant_; }
  void set_row_invariant(bool on) { row_invariant_ = on; }

 private:
  friend class NoGradients;
  Device device_;
  int threads_;
  DType precision_ = DType::float32;
  bool recording_ = true, training_ = false, row_invariant_ = false;
  std::uint64_t tape_order_ = 0;
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<Allocator> allocator_;
  std::shared_ptr<Communicator> communicator_;
  Random random_;
};

// While alive, ops record nothing: for inference and for updates of weights.
class NoGradients {
 public:
  explicit NoGradients(Context& ctx) : ctx_(ctx), before_(ctx.recording_) { ctx.recording_ = false; }
  ~NoGradients() { ctx_.recording_ = before_; }
  NoGradients(const NoGradients&) = delete;
  NoGradients& operator=(const NoGradients&) = delete;

 private:
  Context& ctx_;
  bool before_;
};

}  // namespace transformer
