#include "transformer/nn/linear.h"

#include <cmath>

#include "transformer/ops/activation.h"
#include "transformer/ops/dropout.h"

namespace transformer {

LowRank::LowRank(std::int64_t in, std::int64_t first_row, std::int64_t rows, std::int64_t rank) : row(first_row) {
  // Kaiming's bound for a = √5, 1/√in, as a gain of Xavier's, √(6 / (in + rank)).
  const auto n = static_cast<float>(in);
  a = {.shape = {rank, in}, .init = Init::xavier_uniform, .gain = std::sqrt((n + static_cast<float>(rank)) / (6.0F * n))};
  b = {.shape = {rows, rank}};
}

Tensor Linear::adapted(Context& ctx, const Tensor& x, Activation activation, float dropout) const {
  Tensor y = linear(ctx, x, weight, bias);
  for (const LowRank& part : adapters)
    y = add_linear(ctx, y, linear(ctx, transformer::dropout(ctx, x, part.dropout), part.a), part.b, part.scale, part.row);
  return transformer::dropout(ctx, activate(ctx, activation, y), dropout);
}

}  // namespace transformer
