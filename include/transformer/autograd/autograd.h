#pragma once
// Gradients. Each op that has an input with a gradient puts one entry on the tape: a closure that holds
// exactly the tensors its backward needs. backward(loss) runs the closures in reverse order and frees each
// entry, and what it held, as soon as it has run.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"

namespace transformer {

// Where the gradient of one input goes. Ask needed() before computing it.
class GradientSlot {
 public:
  explicit GradientSlot(Node* node) : node_(node) {}
  bool needed() const { return node_ != nullptr; }
  bool operator==(const GradientSlot&) const = default;
  DType dtype() const;  // of the input

  // Adds g to the input's gradient; g may be shared with others, it is not written to. The dtype may differ.
  void add(Context& ctx, const Tensor& g);

  // The buffer to write into, for kernels that can add in place: `accumulate` says whether it holds something
  // already (add to it) or is new and unset (overwrite it). It has the dtype and shape of the input.
  struct Target {
    Tensor tensor;
    bool accumulate;
  };
  Target target(Context& ctx);

 private:
  Node* node_;
};

using Slots = std::vector<GradientSlot>;
// Is no input given twice? Only then may a kernel write to several targets at once.
bool distinct(const Slots& slots);
// dy is contiguous and has the shape and dtype of y.
using Backward = std::function<void(Context& ctx, const Tensor& dy, Slots& in)>;

struct Node {
  Shape shape;
  DType dtype = DType::float32;
  std::uint64_t order = 0;                    // position on the tape; later ops have larger ones
  std::vector<std::shared_ptr<Node>> inputs;  // null where an input has no gradient
  Backward backward;                          // empty for leaves
  Tensor rows;                                // ids, where backward changes only these rows of the gradient of its one input
  Tensor grad;                                // what has arrived so far
  Tensor home;                                // leaves in training: where it is to lie, see train/arena.h
  Tensor low_precision;                       // leaves: the weight in the compute dtype, see in_precision
  std::uint64_t low_precision_version = 0;    // storage version the copy was made from
  ~Node();
};

// Makes a leaf of t: its gradient will be collected in gradient(t).
Tensor& require_grad(Tensor& t);
bool has_gradient(const Tensor& t);       // is t on the tape?
const Tensor& gradient(const Tensor& t);  // undefined until backward has reached it
void clear_gradient(Tensor& t);
// Room, float32, for a gradient of t that is computed before backward runs: where it is to lie, when that is free.
Tensor gradient_room(Context& ctx, const Tensor& t);

// Puts y on the tape as made from `inputs`, unless no input has a gradient or recording is off. Capture y
// and inputs in the closure by value; a captured y must be captured before this call (it then has no node,
// so there is no cycle).
Tensor record(Context& ctx, Tensor y, std::initializer_list<std::reference_wrapper<const Tensor>> inputs, Backward backward);
Tensor record(Context& ctx, Tensor y, const std::vector<Tensor>& inputs, Backward backward);
// Will record() record for these inputs? For ops that save more when it does.
bool records(Context& ctx, std::initializer_list<std::reference_wrapper<const Tensor>> inputs);

// Is told how far the gradients of leaves are while backward runs.
class GradientWatch {
 public:
  virtual ~GradientWatch() = default;
  // Nothing more will be added to the leaf's gradient but what lookups add to rows of it; ids: those of each lookup. A table of tokens
  // that is also the output matrix is nearly whole at once, since the loss comes first, and finished by the very last op.
  virtual void only_rows_left(Context& ctx, Node& leaf, const std::vector<Tensor>& ids) = 0;
  virtual void before_rows(Context& ctx, Node& leaf) = 0;  // a lookup is about to add its rows
  virtual void finished(Context& ctx, Node& leaf) = 0;     // nothing more will be added
};

// Runs the tape backwards from y with dy (default: 1, for a loss of one element).
void backward(Context& ctx, const Tensor& y, const Tensor& dy = {}, GradientWatch* watch = nullptr);

// w in the given dtype. The copy of a leaf is kept with it and made anew only when w has changed since.
Tensor in_precision(Context& ctx, const Tensor& w, DType dtype);

}  // namespace transformer
