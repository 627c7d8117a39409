#pragma once
// Attention as its formula says it, one number at a time, and the cases it is tried with.

#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "support/op_check.h"
#include "transformer/ops/attention.h"

namespace transformer::test {

enum class Form { self, cross, separate };
using Lengths = std::vector<std::int64_t>;

struct AttentionCase {
  std::string name = {};
  Form form = Form::self;
  Lengths queries = {}, keys = {};  // keys: empty for self
  std::int64_t heads = 1, kv_heads = 0, head_dim = 3;
  bool causal = false;
  std::int64_t window = 0;
  std::optional<Shape> bias = {};  // a learned bias of this shape
  std::int64_t relative = 0;       // L of a learned relative bias
  float dropout = 0.0F;
  bool differences = false;
  float scale = 0.0F;
  double tolerance = 1e-5;

  std::int64_t kv() const { return kv_heads == 0 ? heads : kv_heads; }
  Sequences q() const { return Sequences(queries); }
  Sequences k() const { return Sequences(form == Form::self ? queries : keys); }
  AttentionOptions options() const {
    return {.queries = q(),
            .keys = k(),
            .heads = heads,
            .kv_heads = kv_heads,
            .head_dim = head_dim,
            .scale = scale,
            .causal = causal,
            .window = window,
            .dropout = dropout};
  }
};

// Element [s, h, i, j] of an array that broadcasts to four dimensions.
template <class S>
S bias_at(const Array<S>& a, const std::array<std::int64_t, 4>& index) {
  std::int64_t offset = 0, step = 1;
  for (int i = 1; i <= a.shape.rank(); ++i) {
    if (a.shape[-i] != 1) offset += index[static_cast<std::size_t>(4 - i)] * step;
    step *= a.shape[-i];
  }
  return a[offset];
}

// Is key j hidden from query i of sequence s and head h?
using Hidden = std::function<bool(std::int64_t s, std::int64_t h, std::int64_t i, std::int64_t j)>;

// The plain formula. `weights`, if given, receives the weights after dropout.
template <class S>
Array<S> plain_attention(const AttentionCase& c, const Arrays<S>& in, const Hidden& hidden = {}, std::vector<double>* weights = nullptr) {
  using std::exp, ::reference::exp, ::reference::value_of;
  const Sequences qs = c.q(), ks = c.k();
  const std::int64_t d = c.head_dim;
  const double scale = c.scale != 0.0F ? c.scale : 1.0 / std::sqrt(static_cast<double>(d));
  const std::size_t tensors = c.form == Form::self ? 1 : c.form == Form::cross ? 2 : 3;
  auto q = [&](std::int64_t t, std::int64_t h, std::int64_t x) { return in[0].at(t, h * d + x); };
  auto k = [&](std::int64_t t, std::int64_t h, std::int64_t x) {
    return tensors == 1 ? in[0].at(t, (c.heads + h) * d + x) : in[1].at(t, h * d + x);
  };
  auto v = [&](std::int64_t t, std::int64_t h, std::int64_t x) {
    return tensors == 1 ? in[0].at(t, (c.heads + c.kv() + h) * d + x)
        : tensors == 2  ? in[1].at(t, (c.kv() + h) * d + x)
                        : in[2].at(t, h * d + x);
  };
  const RandomStream stream{c.dropout > 0.0F ? 5U : 0U, 0, 0};  // the first op of a context with seed 5
  if (weights) weights->assign(static_cast<std::size_t>(qs.count() * c.heads * qs.longest() * ks.longest()), 0.0);
  Array<S> out({qs.total(), c.heads * d});
  for (std::int64_t s = 0; s < qs.count(); ++s) {
    for (std::int64_t h = 0; h < c.heads; ++h) {
      const std::int64_t g = h / (c.heads / c.kv()), nq = qs.length(s), nk = ks.length(s);
      for (std::int64_t i = 0; i < nq; ++i) {
        const std::int64_t position = i + nk - nq;
        std::vector<std::pair<std::int64_t, S>> scores;
        for (std::int64_t j = 0; j < nk; ++j) {
          if (c.causal && j > position) continue;
          if (c.window > 0 && std::abs(j - position) >= c.window) continue;
          if (hidden && hidden(s, h, i, j)) continue;
          S score(0.0);
          for (std::int64_t x = 0; x < d; ++x) score += q(qs.begin(s) + i, h, x) * k(ks.begin(s) + j, g, x);
          score *= S(scale);
          if (c.bias) score += bias_at(in[tensors], {s, h, i, j});
          if (c.relative > 0) score += in[tensors + (c.bias ? 1 : 0)].at(h, j - position + c.relative - 1);
          scores.emplace_back(j, score);
        }
        double top = -INFINITY;
        for (auto& [j, score] : scores) top = std::max(top, value_of(score));
        S sum(0.0);
        for (auto& [j, score] : scores) sum += score = exp(score - S(top));
        for (auto& [j, score] : scores) {
          S p = score / sum;
          const std::int64_t row = (s * c.heads + h) * qs.longest() + i;
          if (c.dropout > 0.0F) {
            const std::int64_t e = row * ((ks.longest() + 63) / 64 * 64) + j;
            const bool dropped = stream.bits(static_cast<std::uint64_t>(e)) <
                static_cast<std::uint32_t>(static_cast<double>(c.dropout) * 0x1p32);
            p *= S(dropped ? 0.0 : 1.0 / (1.0 - c.dropout));
          }
          if (weights) (*weights)[static_cast<std::size_t>(row * ks.longest() + j)] = value_of(p);
          for (std::int64_t x = 0; x < d; ++x) out.at(qs.begin(s) + i, h * d + x) += p * v(ks.begin(s) + j, g, x);
        }
      }
    }
  }
  return out;
}

}  // namespace transformer::test
