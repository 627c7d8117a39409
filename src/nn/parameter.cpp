#include "transformer/nn/parameter.h"

#include <cmath>

#include "transformer/autograd/autograd.h"
#include "transformer/nn/positions.h"
#include "transformer/ops/random.h"

namespace transformer {
namespace {

Tensor sincos_table(Context& ctx, std::int64_t positions, std::int64_t d) {
  std::vector<float> values = sinusoidal_table(ctx, positions, d).to_vector<float>();
  const auto n = static_cast<double>(values.size());
  double mean = 0.0, squares = 0.0;
  for (float v : values) mean += v / n;
  for (float v : values) squares += (v - mean) * (v - mean);
  const double deviation = std::sqrt(squares / (n - 1.0));
  for (float& v : values) v = static_cast<float>((v - mean) / (10.0 * deviation));
  return Tensor::from<float>(ctx, {positions, d}, values);
}

Tensor fresh(Context& ctx, const Parameter& p) {
  switch (p.init) {
    case Init::zeros: return Tensor::zeros(ctx, p.shape);
    case Init::ones: return Tensor::full(ctx, p.shape, 1.0F);
    case Init::sincos: return sincos_table(ctx, p.shape[0], p.shape[1]);
    case Init::normal: return random_normal(ctx, p.shape, 0.0F, p.deviation);
    case Init::xavier_uniform: {
      // Each part of a fused matrix [out, in] is a matrix of its own.
      Tensor t = Tensor::empty(ctx, p.shape);
      const std::vector<std::int64_t> whole{p.shape[0]};
      std::int64_t row = 0;
      for (std::int64_t rows : p.parts.empty() ? whole : p.parts) {
        const float bound = p.gain * std::sqrt(6.0F / static_cast<float>(rows + p.shape.back()));
        Tensor part = t.row_block(row, rows);
        fill_uniform(ctx, part, -bound, bound);
        row += rows;
      }
      return t;
    }
  }
  return {};
}

}  // namespace

void initialize(Context& ctx, const std::vector<NamedParameter>& parameters) {
  for (const auto& [name, p] : parameters) {
    p->tensor = fresh(ctx, *p);
    if (p->trained) require_grad(p->tensor);
  }
}

std::int64_t count(const std::vector<NamedParameter>& parameters) {
  std::int64_t n = 0;
  for (const auto& [name, p] : parameters) n += p->trained ? p->shape.numel() : 0;
  return n;
}

}  // namespace transformer
