#pragma once
// One training step of the original base model: 512/8/2048, 6+6 layers, vocabulary 32,000, one shared embedding,
// dropout 0.1, label smoothing 0.1, AdamW, clipping; 16 sentence pairs of 32 tokens.

#include <cstdint>
#include <memory>
#include <vector>

#include "measure.h"
#include "transformer/transformer.h"

namespace transformer::bench {

// The rate of large matrix products on this machine, in FLOP/s: the best over several shapes.
double matmul_rate(DType dtype, int threads);

class BaseStep {
 public:
  BaseStep(DType precision, int threads, std::shared_ptr<Communicator> processes = nullptr);
  float run();  // one step; the loss

  double flops() const;  // 6 per weight and token that passes through it; embedding look-ups excluded
  std::int64_t source_tokens() const { return batch_.source.total(); }
  std::int64_t target_tokens() const { return batch_.target.total(); }

  struct Memory {
    double weights, gradients, adam, activations, peak;
  };                // bytes
  Memory memory();  // runs a step
  Context& context() { return ctx_; }
  std::int64_t parameter_count() { return count_parameters(model_); }

 private:
  Context ctx_;
  Transformer model_;
  PairBatch batch_;
  std::unique_ptr<Adam> optimizer_;
  std::uint32_t step_ = 0;
};

}  // namespace transformer::bench
