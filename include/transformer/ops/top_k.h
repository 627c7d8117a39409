#pragma once
// The largest of every row, found where the rows are: of logits a search needs no more.

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"

namespace transformer {

struct TopK {
  Tensor values;  // float32 [rows, k], the largest first
  Tensor ids;     // int32 [rows, k], their columns; of equal values the lower one first
  Tensor both;    // int32 [2·rows·k]: the bits of the values, then the ids; one copy brings them to the host
};

// NaN and -inf are never among them: where a row has fewer, the rest is -inf with id -1. log: of log_softmax(x). No gradients.
TopK top_k(Context& ctx, const Tensor& x, std::int64_t k, bool log = false);

}  // namespace transformer
