#pragma once
// Weights that are not always there. Processes that train together may each keep a piece of every layer (train/layer_pieces.h): the whole
// of a layer is put together just before it computes, forward and backward, and let go after it.
//
// What computes layer after layer says where it is with between_layers(); what reads or writes weights elsewhere, as when a model is saved
// or loaded, does so through read_layer() and write_weight(). Where all weights are there, which is usual, these do nothing.

#include <functional>

#include "transformer/autograd/autograd.h"

namespace transformer {

// A layer is known by its address; null stands for none, and so does one that is not kept in pieces.
class LayerWeights {
 public:
  virtual ~LayerWeights() = default;
  // A pass is through with one layer and comes to the next.
  virtual void pass_on(Context& ctx, const void* done, const void* next, bool backward) = 0;
  // This layer's weights are there, those of the one that was read before are not any more.
  virtual void read(Context& ctx, const void* layer) = 0;
  // The weight is there while fill() runs; what is written to this process's pieces of it stays.
  virtual void write(Context& ctx, const Tensor& weight, const std::function<void()>& fill) = 0;
};

// x on its way from one layer to the next: itself. Weights come and go as it passes, forward and backward.
Tensor between_layers(Context& ctx, const Tensor& x, const void* before, const void* after);

void read_layer(Context& ctx, const void* layer);
void write_weight(Context& ctx, const Tensor& weight, const std::function<void()>& fill);

}  // namespace transformer
