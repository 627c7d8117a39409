#pragma once
// Adam and AdamW with PyTorch's formulas. At step t, with g the gradient times the clipping factor:
//   AdamW: w ← w·(1 - lr·decay)      Adam: g ← g + decay·w
//   m ← β1·m + (1-β1)·g,   v ← β2·v + (1-β2)·g²
//   w ← w - lr/(1-β1ᵗ) · m / (√v/√(1-β2ᵗ) + ε)

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transformer/autograd/autograd.h"
#include "transformer/core/step_state.h"
#include "transformer/nn/parameter.h"

namespace transformer {

struct AdamOptions {
  float beta1 = 0.9F, beta2 = 0.98F, eps = 1e-9F;
  float weight_decay = 0.0F;
  bool decoupled = true;       // AdamW: the decay acts on the weight; otherwise on the gradient
  bool shard_weights = false;  // of several processes: each keeps a piece of the layers' weights and gradients too, see docs/scale.md
};

class Arena;
class LayerPieces;
class Shards;
struct AdamSlot;

class Adam {
 public:
  struct Parameter {
    Tensor tensor;                // a float32 leaf, see require_grad; one that is given twice (tied) is updated once
    std::string name = {};        // for messages and checkpoints
    bool decay = true;            // does weight_decay apply?
    const void* layer = nullptr;  // that it is a part of, see nn/parameter.h
  };
  Adam(Context& ctx, std::vector<Parameter> parameters, const AdamOptions& options = {});
  Adam(Context& ctx, const std::vector<Tensor>& parameters, const AdamOptions& options = {});
  // All trained parameters of a model: Adam(ctx, parameters(model), {.weight_decay = 0.01F}, decay_matrices)
  // The parameters move into one block of memory, their gradients will lie in another.
  using Decays = bool (*)(const NamedParameter&);
  Adam(Context& ctx, const std::vector<NamedParameter>& parameters, const AdamOptions& options = {}, Decays decays = nullptr);
  ~Adam();

  // Updates every parameter that has a gradient, in one pass over all of them; bfloat16 copies of weights are renewed
  // on the way. With max_norm > 0 the gradients are scaled so that their common norm does not exceed it. Returns the
  // norm before clipping. When that is NaN or infinite, because a gradient is, nothing is updated.
  double step(Context& ctx, float lr, float max_norm = 0.0F);
  void zero_gradients();  // drops them: the next ones are written in their place

  // The same in parts, without waiting for the device: begin(), then for each batch its loss and backward(), then update(). When
  // the sum of weight · loss, or the norm, is not finite, update changes nothing. The state of the step tells how it went:
  //   result(ctx, state)->wait();
  void begin(Context& ctx, float lr);
  void add_loss(Context& ctx, const Tensor& loss, double weight);
  void update(Context& ctx, float max_norm = 0.0F);
  // Of several processes, which each update a part of the parameters with the sum of all gradients: for the last backward(), after which
  // gradients are final. They are then exchanged while it goes on. Null: there is nobody to exchange with.
  GradientWatch* exchanging() const;
  // Gradients that are taken away, so that others can be computed, and added to those.
  struct Gradients {
    Tensor block;
    std::vector<bool> given;  // by leaf of the arena
  };
  Gradients take_gradients(Context& ctx);
  void add_gradients(Context& ctx, const Gradients& taken);
  std::unique_ptr<Arrival> result(Context& ctx, StepState& to) const;
  const Tensor& step_state() const { return step_; }  // uint8 [sizeof(StepState)], on the device

  const AdamOptions& options() const { return options_; }
  const Arena& arena() const { return *arena_; }  // where the parameters are

  // The state, for checkpoints: one entry a parameter, in the order given, and the number of steps done.
  struct State {
    Parameter parameter;
    Tensor m, v;
  };
  const std::vector<State>& state() const { return state_; }
  // The same of several processes, which have a part each: put together in the host's memory for the first, empty for the others. What
  // belongs to the pieces of layers is not there.
  std::vector<State> whole_state(Context& ctx) const;
  std::int64_t state_bytes() const;                                                   // that this process keeps
  LayerPieces* pieces() const { return pieces_.get(); }                               // null: all weights are whole
  void set_state(Context& ctx, std::size_t index, const Tensor& m, const Tensor& v);  // copies
  std::int64_t steps() const;                                                         // waits for the device
  void set_steps(std::int64_t steps);

 private:
  void keep_low_precision(Context& ctx);
  void add_slots(std::vector<AdamSlot>& slots, std::int64_t begin, std::int64_t end, float decay) const;

  AdamOptions options_;
  std::vector<State> state_;
  std::vector<std::size_t> order_;  // in the arena: whose weights decay first, then the others; not those in pieces
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Shards> shards_;  // null: this process is alone
  std::unique_ptr<LayerPieces> pieces_;
  Tensor m_, v_, low_precision_;  // blocks, or the pieces of m and v; the last bfloat16, or undefined
  Tensor step_;
};

// Weight decay for matrices and tables only, not for biases and norms.
bool decay_matrices(const NamedParameter& p);

// Scales the gradients of the parameters so that their common norm does not exceed max_norm; returns the norm before.
// Adam::step does the same without touching memory once more.
double clip_gradients(Context& ctx, std::span<const Tensor> parameters, float max_norm);

}  // namespace transformer
