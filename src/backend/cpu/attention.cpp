// Attention, forward: out = softmax(scale · Q·Kᵀ + bias) · V for every head of every sequence. A work item is a block
// of rows; it walks over the keys block by block with a running maximum and sum of exponentials (online softmax),
// so that only one tile of scores exists at a time.

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention.cpp"
#include <hwy/foreach_target.h>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "backend/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {
namespace {

// One worker's memory, all in cache.
struct Scratch {
  std::int64_t width;  // of a head, padded
  Block q, k, v;       // [rows, width] scaled, [head_dim, keys], [keys, width]
  Block scores, out;   // [rows, keys], [rows, width]
  float *factors, *max, *sum;
  float* gathered;  // scattered keys or values [keys, head_dim], of any dtype

  static std::int64_t size(std::int64_t head_dim) {
    return (2 * kRowBlock + 3 * kKeyBlock) * Padded(head_dim) + 2 * kRowBlock * kKeyBlock + kPad + 2 * kRowBlock;
  }
  Scratch(float* at, std::int64_t head_dim) : width(Padded(head_dim)) {
    auto take = [&](std::int64_t n) { return std::exchange(at, at + n); };
    q = {take(kRowBlock * width), width};
    k = {take(width * kKeyBlock), kKeyBlock};
    v = {take(kKeyBlock * width), width};
    scores = {take(kRowBlock * kKeyBlock), kKeyBlock};
    out = {take(kRowBlock * width), width};
    factors = take(kRowBlock * kKeyBlock + kPad);
    max = take(kRowBlock);
    sum = take(kRowBlock);
    gathered = take(kKeyBlock * width);
  }
};

// scores [n] → exp(scores - max) with the new running maximum, times the dropout factors if any; returns by how much
// what was summed so far shrinks.
HWY_INLINE float OnlineSoftmax(float* HWY_RESTRICT scores, std::int64_t n, const float* factors, float& max, float& sum) {
  const DF d;
  const std::int64_t lanes = Lanes();
  VF top = Load(scores);
  for (std::int64_t j = lanes; j < n; j += lanes) top = hn::Max(top, Load(scores + j));
  const float before = max;
  max = std::max(before, hn::GetLane(hn::MaxOfLanes(d, top)));
  const VF shift = hn::Set(d, max == kMasked ? 0.0F : max);  // nothing seen yet: all weights are e^-inf
  VF total = hn::Zero(d);
  for (std::int64_t j = 0; j < n; j += lanes) {
    const VF p = ExpOf(hn::Sub(Load(scores + j), shift));
    total = hn::Add(total, p);
    Store(factors ? hn::Mul(p, Load(factors + j)) : p, scores + j);
  }
  const float shrink = before == max || before == kMasked ? 1.0F : hn::GetLane(ExpOf(hn::Set(d, before - max)));
  sum = sum * shrink + hn::GetLane(hn::SumOfLanes(d, total));
  return shrink;
}

// max → log of the sum of exponentials, sum → what the sums of values are multiplied with.
HWY_INLINE void Normalisation(std::int64_t rows, float* max, float* sum) {
  const DF d;
  for (std::int64_t r = 0; r < rows; r += Lanes()) {
    const VF total = Load(sum + r);
    const auto any = hn::Gt(total, hn::Zero(d));
    Store(hn::IfThenElse(any, hn::Add(Load(max + r), hn::Log(d, total)), hn::Set(d, kMasked)), max + r);
    Store(hn::IfThenElseZero(any, hn::Div(hn::Set(d, 1.0F), total)), sum + r);
  }
}

// A group of few rows, such as the one new token of a sequence with a cache, is not worth the packing of its keys and values:
// it reads them where they are.
constexpr std::int64_t kFewRows = 8;

// Rows of keys or values: one behind the other or, where there is a list, by their places in it.
template <class T>
struct Rows {
  const T* all;
  std::int64_t row, first;
  const std::int64_t* places;  // null: there is none
  HWY_INLINE const T* operator[](std::int64_t j) const { return all + (places != nullptr ? places[first + j] : first + j) * row; }
};

#if HWY_TARGET == HWY_SCALAR
constexpr std::int64_t kTogether = 1;
HWY_INLINE void StoreSums(const VF (&v)[1], float* to) { Store(v[0], to); }
#else
constexpr std::int64_t kTogether = 4;  // keys

// The sum of all blocks of four lanes.
template <class D>
HWY_INLINE auto SumOfBlocks(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return SumOfBlocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}
// to[i] = the sum of the lanes of v[i]: four at once take little longer than one.
HWY_INLINE void StoreSums(const VF (&v)[4], float* to) {
  const DF d;
  const hn::Repartition<std::uint64_t, DF> pairs;
  const auto low = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, v[0], v[1]), hn::InterleaveUpper(d, v[0], v[1])));
  const auto high = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, v[2], v[3]), hn::InterleaveUpper(d, v[2], v[3])));
  const VF sums = hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, low, high)), hn::BitCast(d, hn::InterleaveUpper(pairs, low, high)));
  hn::StoreU(SumOfBlocks(d, sums), hn::CappedTag<float, 4>(), to);
}
#endif

// scores [m, n] = q [m, d] · k [n, d]ᵀ, and something in up to three columns behind them.
template <class T>
HWY_INLINE void DotRows(Block q, std::int64_t m, const Rows<T>& keys, std::int64_t n, std::int64_t d, Block scores) {
  for (std::int64_t j = 0; j < n; j += kTogether) {
    const T* k[kTogether];
    for (std::int64_t i = 0; i < kTogether; ++i) k[i] = keys[std::min(j + i, n - 1)];
    for (std::int64_t r = 0; r < m; ++r) {
      VF sums[kTogether];
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < kTogether; ++i) sums[i] = hn::Zero(DF());
      ForVectors(d, [&](std::int64_t c, auto whole, std::int64_t some) HWY_ATTR {
        const VF left = Load(q.data + r * q.row + c);
#pragma GCC unroll 4
        for (std::int64_t i = 0; i < kTogether; ++i) sums[i] = hn::MulAdd(left, LoadSome(whole, k[i] + c, some), sums[i]);
      });
      StoreSums(sums, scores.data + r * scores.row + j);
    }
  }
}

// out [m, d] (+)= weights [m, n] · v [n, d]
template <class T>
HWY_INLINE void SumRows(Block weights, std::int64_t m, const Rows<T>& v, std::int64_t n, std::int64_t d, Block out, bool accumulate) {
  for (std::int64_t r = 0; r < m; ++r) {
    const float* HWY_RESTRICT p = weights.data + r * weights.row;
    ForVectors(d, [&](std::int64_t c, auto whole, std::int64_t some) HWY_ATTR {
      float* to = out.data + r * out.row + c;
      VF even = accumulate ? Load(to) : hn::Zero(DF()), odd = hn::Zero(DF());  // two chains of additions hide their latency
      std::int64_t j = 0;
      for (; j + 2 <= n; j += 2) {
        even = hn::MulAdd(hn::Set(DF(), p[j]), LoadSome(whole, v[j] + c, some), even);
        odd = hn::MulAdd(hn::Set(DF(), p[j + 1]), LoadSome(whole, v[j + 1] + c, some), odd);
      }
      if (j < n) even = hn::MulAdd(hn::Set(DF(), p[j]), LoadSome(whole, v[j] + c, some), even);
      Store(hn::Add(even, odd), to);
    });
  }
}

template <class T>
class Forward {
 public:
  Forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args, Tensor& out, Tensor& lse, Tensor& weights)
      : args_(args), add_(args), q_(q.data<T>()), k_(k.data<T>()), v_(v.data<T>()), out_(out.mutable_data<T>()),
        lse_(lse.mutable_data<float>()), weights_(weights.defined() ? weights.mutable_data<float>() : nullptr), q_row_(q.row_stride()),
        k_row_(k.row_stride()), v_row_(v.row_stride()), out_row_(out.row_stride()) {}

  void run(const Group& g, Range rows, Scratch& s) const {
    const std::int64_t d = args_.head_dim, m = rows.end - rows.begin;
    g.for_heads(rows, [&](std::int64_t head, std::int64_t query, std::int64_t first, std::int64_t n) HWY_ATTR {
      Pack(q_ + (g.q_begin + query) * q_row_ + head * d, q_row_, n, d, args_.scale, s.q.from(first));
    });
    std::fill_n(s.max, m, kMasked);
    std::fill_n(s.sum, m, 0.0F);
    bool any = false;
    for_scores(g, rows, s, [&](Range keys, const float* factors) HWY_ATTR {
      const std::int64_t n = keys.end - keys.begin;
      for (std::int64_t r = 0; r < m; ++r) {
        const float shrink = OnlineSoftmax(s.scores.data + r * kKeyBlock, Padded(n), factors ? factors + r * kKeyBlock : nullptr, s.max[r],
                                           s.sum[r]);
        if (!any || shrink == 1.0F) continue;
        float* o = s.out.data + r * s.width;
        for (std::int64_t c = 0; c < s.width; c += Lanes()) Store(hn::Mul(Load(o + c), hn::Set(DF(), shrink)), o + c);
      }
      if (m <= kFewRows) {
        SumRows(s.scores, m, rows_at(v_, v_row_, g, keys), n, d, s.out, any);
      } else {
        const auto [v, v_row] = rows_of(v_, v_row_, g, keys, s);
        Pack(v, v_row, n, d, 1.0F, s.v);
        ForStrips(g, rows, keys, [&](std::int64_t first, std::int64_t count, std::int64_t seen) HWY_ATTR {
          Gemm(count, d, seen, s.scores.from(first).scalars(), s.v, s.out.from(first), any);
        });
      }
      any = true;
    });
    if (!any) std::fill_n(s.out.data, m * s.width, 0.0F);
    Normalisation(m, s.max, s.sum);
    g.for_heads(rows, [&](std::int64_t head, std::int64_t query, std::int64_t first, std::int64_t n) HWY_ATTR {
      const std::int64_t token = g.q_begin + query;
      std::copy_n(s.max + first, n, lse_ + head * args_.queries.total() + token);
      for (std::int64_t i = 0; i < n; ++i)
        Unpack(s.out.from(first + i), 1, d, s.sum[first + i], out_ + (token + i) * out_row_ + head * d, out_row_);
    });
    if (weights_) write_weights(g, rows, s);
  }

 private:
  // A block of keys or values of a group's head, where they are.
  Rows<T> rows_at(const T* all, std::int64_t row, const Group& g, Range keys) const {
    const bool scattered = !args_.keys.rows().empty();
    return {all + g.kv_head * args_.head_dim, row, g.k_begin + keys.begin, scattered ? args_.keys.rows().data() : nullptr};
  }

  // The same, and the distance of its rows: where they are, or gathered.
  std::pair<const T*, std::int64_t> rows_of(const T* all, std::int64_t row, const Group& g, Range keys, Scratch& s) const {
    const std::int64_t d = args_.head_dim, first = g.k_begin + keys.begin;
    all += g.kv_head * d;
    if (args_.keys.rows().empty()) return {all + first * row, row};
    const std::int64_t* from = args_.keys.rows().data() + first;
    T* to = reinterpret_cast<T*>(s.gathered);
    for (std::int64_t j = 0; j < keys.end - keys.begin; ++j) std::copy_n(all + from[j] * row, d, to + j * d);
    return {to, d};
  }

  // Calls f(keys, dropout factors) for every block of keys that the rows see, with the finished scores in s.scores.
  template <class F>
  void for_scores(const Group& g, Range rows, Scratch& s, F&& f) const {
    const std::int64_t d = args_.head_dim;
    const Range seen = g.visible_to_any(rows);
    for (std::int64_t b = seen.begin / kKeyBlock; b * kKeyBlock < seen.end; ++b) {
      const Range keys{b * kKeyBlock, std::min(seen.end, (b + 1) * kKeyBlock)};
      const std::int64_t n = keys.end - keys.begin;
      if (rows.end - rows.begin <= kFewRows) {
        DotRows(s.q, rows.end - rows.begin, rows_at(k_, k_row_, g, keys), n, d, s.scores);
      } else {
        const auto [k, k_row] = rows_of(k_, k_row_, g, keys, s);
        PackTransposed(k, k_row, n, d, s.k);
        ForStrips(g, rows, keys, [&](std::int64_t first, std::int64_t count, std::int64_t seen) HWY_ATTR {
          Gemm(count, seen, d, s.q.from(first).scalars(), s.k, s.scores.from(first), false);
        });
      }
      FinishScores(g, add_, rows, keys, s.scores.data);
      const bool dropout = args_.dropout.p > 0.0F;
      if (dropout) TileDropout(g, rows, keys, s.factors);
      f(keys, dropout ? s.factors : nullptr);
    }
  }

  // A second walk, now that the normalisation is known (s.max holds it): exp(score - lse) · dropout.
  void write_weights(const Group& g, Range rows, Scratch& s) const {
    const std::int64_t longest_q = args_.queries.longest(), longest_k = args_.keys.longest();
    for_scores(g, rows, s, [&](Range keys, const float* factors) HWY_ATTR {
      g.for_heads(rows, [&](std::int64_t head, std::int64_t query, std::int64_t first, std::int64_t count) HWY_ATTR {
        for (std::int64_t r = first; r < first + count; ++r) {
          if (s.max[r] == kMasked) continue;
          float* to = weights_ + ((g.sequence * args_.heads + head) * longest_q + query + r - first) * longest_k + keys.begin;
          ForVectors(keys.end - keys.begin, [&](std::int64_t j, auto whole, std::int64_t n) HWY_ATTR {
            VF p = ExpOf(hn::Sub(Load(s.scores.data + r * kKeyBlock + j), hn::Set(DF(), s.max[r])));
            if (factors) p = hn::Mul(p, LoadSome(whole, factors + r * kKeyBlock + j, n));
            StoreSome(whole, p, to + j, n);
          });
        }
      });
    });
  }

  const AttentionArgs& args_;
  ScoreBias add_;
  const T *q_, *k_, *v_;
  T* out_;
  float *lse_, *weights_;
  std::int64_t q_row_, k_row_, v_row_, out_row_;
};

void AttentionForward(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args, Tensor& out, Tensor& lse,
                      Tensor& weights) {
  struct Item {
    std::int64_t sequence, kv_head, block;
  };
  std::vector<Item> items;
  for (std::int64_t s = 0; s < args.queries.count(); ++s)
    for (std::int64_t h = 0; h < args.kv_heads; ++h)
      for (std::int64_t b = Group(args, s, h).row_blocks(); b-- > 0;) items.push_back({s, h, b});
  // Causal: the long ones first.
  if (args.causal) std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.block > b.block; });
  if (items.empty()) return;
  const std::int64_t count = static_cast<std::int64_t>(items.size()), workers = std::min(Workers(ctx, args), count);
  const std::int64_t size = Scratch::size(args.head_dim);
  const auto memory = ctx.allocator().allocate(static_cast<std::size_t>(workers * size) * sizeof(float));
  visit_float("attention", q.dtype(), [&]<class T>() HWY_ATTR {
    const Forward<T> forward(q, k, v, args, out, lse, weights);
    ForItems(workers, count, [&](std::int64_t worker, std::int64_t i) HWY_ATTR {
      const Item& item = items[static_cast<std::size_t>(i)];
      const Group g(args, item.sequence, item.kv_head);
      Scratch scratch(reinterpret_cast<float*>(memory.get()) + worker * size, args.head_dim);
      forward.run(g, g.row_block(item.block), scratch);
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {
HWY_EXPORT(AttentionForward);

void CpuKernels::attention(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args, Tensor& out,
                           Tensor& lse, Tensor& weights) {
  if (weights.defined()) fill(ctx, 0.0F, weights);
  HWY_DYNAMIC_DISPATCH(AttentionForward)(ctx, q, k, v, args, out, lse, weights);
}

}  // namespace transformer
#endif
