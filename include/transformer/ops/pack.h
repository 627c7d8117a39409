#pragma once
// Between padded batches [batch, longest] with a mask, as other tools have them, and packed tokens. Padding is
// dropped on entry and put back (as zeros) on exit; the mask disappears into the Sequences.

#include "transformer/core/context.h"
#include "transformer/core/sequences.h"
#include "transformer/core/tensor.h"

namespace transformer {

struct Packing {
  Sequences sequences;
  Tensor index;  // int64 [tokens]: row of the padded batch each packed token comes from
  std::int64_t batch = 0, longest = 0;
};

// mask [batch, longest], int64, int32 or uint8; 1 (any non-zero) marks real tokens, wherever the padding is.
Packing packing(Context& ctx, const Tensor& mask);
// All tokens are real.
Packing packing(Context& ctx, std::int64_t batch, std::int64_t longest);

// x [batch, longest, d] → [tokens, d], or ids [batch, longest] → [tokens].
Tensor pack(Context& ctx, const Tensor& x, const Packing& packing);
// x [tokens, d] → [batch, longest, d], zero where there is no token.
Tensor unpack(Context& ctx, const Tensor& x, const Packing& packing);
// Weights of attention [sequences, heads, longest queries, longest keys] in the packed order → float32 [batch, heads, queries,
// keys] at the places of the padded batches, zero elsewhere. No gradient.
Tensor unpack_weights(Context& ctx, const Tensor& weights, const Packing& queries, const Packing& keys);

}  // namespace transformer
