#pragma once
// Everything an op needs beside its operands: device, memory, threads, random numbers, precision, and
// whether gradients are recorded. There are no globals; a program may hold several contexts. One context
// is used by one thread at a time.

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

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

class LayerWeights;
class PassAllocator;

class Context {
 public:
  explicit Context(const ContextOptions& options = {});

  Device device() const { return device_; }
  int threads() const { return threads_; }
  void set_threads(int threads);  // from here on; 0: all that the machine offers
  Allocator& allocator() { return *allocator_; }
  MemoryStats memory() const;  // of tensors, those of passes too
  Backend& backend() { return *backend_; }
  Communicator& communicator() { return *communicator_; }
  const std::shared_ptr<Communicator>& shared_communicator() const { return communicator_; }
  // Where the weights of layers are not always there, see autograd/layer_weights.h; null: they are.
  LayerWeights* layer_weights() const { return layer_weights_; }
  void set_layer_weights(LayerWeights* weights, std::shared_ptr<Communicator> communicator) {
    layer_weights_ = weights, communicator_ = std::move(communicator);
  }
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
  friend class Pass;
  friend std::unique_ptr<Recorded> record(Context& ctx, const std::function<void()>& work);
  Device device_;
  int threads_;
  DType precision_ = DType::float32;
  bool recording_ = true, training_ = false, row_invariant_ = false;
  std::uint64_t tape_order_ = 0;
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<Allocator> allocator_;
  std::shared_ptr<Communicator> communicator_;
  LayerWeights* layer_weights_ = nullptr;
  std::shared_ptr<Allocator> outside_;             // while a pass is under way: the allocator of everything else
  std::shared_ptr<PassAllocator> pass_allocator_;  // made by the second pass
  std::int64_t passes_ = 0;
  Random random_;
};

// An update of a training, or other work that comes again and again: with the same sizes it asks for the same things at the same
// addresses, and the device may take it as a whole. begin_step of the random numbers comes first. Nothing may be read back before end().
class Pass {
 public:
  explicit Pass(Context& ctx);
  ~Pass();  // without end(), as after an exception: what was not yet done is not done
  void end();
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

 private:
  void leave(bool wanted);
  Context* ctx_;  // null: it has ended, or the device has no passes
};

// What work() asks of the device, to be done again and again without being asked for: see Backend::record. No other tensor gets the memory
// of its tensors while it lives.
std::unique_ptr<Recorded> record(Context& ctx, const std::function<void()>& work);

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
