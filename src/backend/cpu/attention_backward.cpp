// Attention, backward. The weights are computed again, tile by tile, from q, k and the log of the sums that forward
// kept:
//   P  = exp(S - lse),  S = scale · Q·Kᵀ + bias         D  = rowsum(dO ∘ O)
//   dV = (P∘F)ᵀ · dO                                    F: dropout factors
//   dS = P ∘ (F ∘ dP - D),  dP = dO·Vᵀ
//   dQ = scale · dS · K,  dK = scale · dSᵀ · Q,  dbias = dS

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_backward.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {
namespace {

// One worker's memory. All but dq stays in cache.
struct Scratch {
  std::int64_t width;           // of a head, padded
  Block q, dout;                // a block of rows: [rows, width], q scaled
  Block k, k_turned, v_turned;  // a block of keys: [keys, width], [head_dim, keys]
  Block p, ds;                  // the tile: [rows, keys], P∘F and dS
  Block dk, dv;                 // [keys, width]
  Block dq;                     // [rows of the group, width]
  float *factors, *lse, *delta;

  static std::int64_t size(std::int64_t head_dim, std::int64_t dq_rows) {
    return (2 * kRowBlock + 5 * kKeyBlock + dq_rows) * Padded(head_dim) + 3 * kRowBlock * kKeyBlock + kPad + 2 * kRowBlock;
  }
  Scratch(float* at, std::int64_t head_dim, std::int64_t dq_rows) : width(Padded(head_dim)) {
    auto take = [&](std::int64_t n) { return std::exchange(at, at + n); };
    for (Block* b : {&q, &dout}) *b = {take(kRowBlock * width), width};
    for (Block* b : {&k, &dk, &dv}) *b = {take(kKeyBlock * width), width};
    for (Block* b : {&k_turned, &v_turned}) *b = {take(width * kKeyBlock), kKeyBlock};
    for (Block* b : {&p, &ds}) *b = {take(kRowBlock * kKeyBlock), kKeyBlock};
    factors = take(kRowBlock * kKeyBlock + kPad);
    lse = take(kRowBlock);
    delta = take(kRowBlock);
    dq = {take(dq_rows * width), width};
  }
};

// Where the gradients of the biases go; null where not wanted.
struct BiasGradients {
  float* bias = nullptr;      // laid out as `layout`
  float* relative = nullptr;  // [heads, relative_row]
  BiasLayout layout;
  std::int64_t relative_row = 0;
};

// p = scores → P∘F, ds = dP → dS, for one row of n (padded) keys.
HWY_INLINE void RowGradient(float* HWY_RESTRICT p, float* HWY_RESTRICT ds, std::int64_t n, const float* factors, float lse, float delta) {
  const DF d;
  const VF shift = hn::Set(d, lse == kMasked ? 0.0F : lse), minus = hn::Set(d, delta);  // all masked: all weights are e^-inf
  for (std::int64_t j = 0; j < n; j += Lanes()) {
    const VF weight = ExpOf(hn::Sub(Load(p + j), shift));
    const VF dropped = factors ? hn::Mul(weight, Load(factors + j)) : weight;
    Store(dropped, p + j);
    Store(hn::NegMulAdd(weight, minus, hn::Mul(dropped, Load(ds + j))), ds + j);
  }
}

// to[j · step] += x[j]
HWY_INLINE void AddRow(const float* HWY_RESTRICT x, std::int64_t n, float* HWY_RESTRICT to, std::int64_t step) {
  if (step == 0) {
    for (std::int64_t j = 0; j < n; ++j) *to += x[j];
    return;
  }
  ForVectors(n, [&](std::int64_t j, auto whole, std::int64_t m) HWY_ATTR {
    StoreSome(whole, hn::Add(LoadSome(whole, to + j, m), Load(x + j)), to + j, m);
  });
}

template <class T>
class Backward {
 public:
  Backward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args, const Tensor& out, const Tensor& lse,
           const Tensor& dout, Tensor& dq, Tensor& dk, Tensor& dv)
      : args_(args), add_(args), q_(q), k_(k), v_(v), out_(out), dout_(dout), lse_(lse.data<float>()), dq_(dq), dk_(dk), dv_(dv) {}

  // All gradients of one group.
  void run(const Group& g, const BiasGradients& db, Scratch& s) const {
    std::fill_n(s.dq.data, g.rows * s.width, 0.0F);
    for (std::int64_t b = 0; b < g.key_blocks(); ++b)
      key_block(g, b, db, s, [&](Range rows, Range keys) HWY_ATTR { add_dq(g, rows, keys, s.dq.from(rows.begin), s); });
    write_dq(g, {0, g.rows}, s);
  }
  // The same in independent parts, for when there are fewer groups than threads: dk and dv of a block of keys, …
  void run_keys(const Group& g, std::int64_t b, Scratch& s) const {
    key_block(g, b, BiasGradients{.layout = BiasLayout({})}, s, [](Range, Range) {});
  }
  // … and dq of a block of rows. Every number is summed in the same order as in run().
  void run_rows(const Group& g, std::int64_t b, Scratch& s) const {
    const Range rows = g.row_block(b), seen = g.visible_to_any(rows);
    std::fill_n(s.dq.data, (rows.end - rows.begin) * s.width, 0.0F);
    pack_rows(g, rows, s);
    for (std::int64_t i = seen.begin / kKeyBlock; i * kKeyBlock < seen.end; ++i) {
      Range keys = g.key_block(i);
      pack_keys(g, keys, s);
      keys.end = std::min(keys.end, seen.end);
      tile(g, rows, keys, BiasGradients{.layout = BiasLayout({})}, s);
      add_dq(g, rows, keys, s.dq, s);
    }
    write_dq(g, rows, s);
  }

 private:
  // A matrix of tokens with the heads side by side.
  template <class E>
  struct Tokens {
    E* data;
    std::int64_t row;
    explicit Tokens(const Tensor& t) : data(t.data<T>()), row(t.row_stride()) {}
    explicit Tokens(Tensor& t) : data(t.defined() ? t.mutable_data<T>() : nullptr), row(t.defined() ? t.row_stride() : 0) {}
    E* at(std::int64_t token, std::int64_t column) const { return data + token * row + column; }
  };

  // dk and dv of one block of keys; calls f(rows, keys) after each of its tiles.
  template <class F>
  void key_block(const Group& g, std::int64_t b, const BiasGradients& db, Scratch& s, F&& f) const {
    const std::int64_t d = args_.head_dim, column = g.kv_head * d;
    const Range all = g.key_block(b);
    pack_keys(g, all, s);
    std::fill_n(s.dk.data, (all.end - all.begin) * s.width, 0.0F);
    std::fill_n(s.dv.data, (all.end - all.begin) * s.width, 0.0F);
    for (std::int64_t i = 0; i < g.row_blocks(); ++i) {
      const Range rows = g.row_block(i), seen = g.visible_to_any(rows);
      const Range keys{all.begin, std::min(all.end, seen.end)};
      if (keys.end <= std::max(keys.begin, seen.begin)) continue;
      pack_rows(g, rows, s);
      tile(g, rows, keys, db, s);
      ForStrips(g, rows, keys, [&](std::int64_t first, std::int64_t count, std::int64_t n) HWY_ATTR {
        Gemm(n, d, count, s.p.from(first).transposed(), s.dout.from(first), s.dv, true);
        Gemm(n, d, count, s.ds.from(first).transposed(), s.q.from(first), s.dk, true);
      });
      f(rows, keys);
    }
    if (dk_.data) Unpack(s.dk, all.end - all.begin, d, 1.0F, dk_.at(g.k_begin + all.begin, column), dk_.row);  // q was scaled
    if (dv_.data) Unpack(s.dv, all.end - all.begin, d, 1.0F, dv_.at(g.k_begin + all.begin, column), dv_.row);
  }

  void pack_keys(const Group& g, Range keys, Scratch& s) const {
    const std::int64_t d = args_.head_dim, n = keys.end - keys.begin, token = g.k_begin + keys.begin, column = g.kv_head * d;
    Pack(k_.at(token, column), k_.row, n, d, 1.0F, s.k);
    PackTransposed(k_.at(token, column), k_.row, n, d, s.k_turned);
    PackTransposed(v_.at(token, column), v_.row, n, d, s.v_turned);
  }

  // q, dout, lse and D of a block of rows.
  void pack_rows(const Group& g, Range rows, Scratch& s) const {
    const std::int64_t d = args_.head_dim;
    g.for_heads(rows, [&](std::int64_t head, std::int64_t query, std::int64_t first, std::int64_t n) HWY_ATTR {
      const std::int64_t token = g.q_begin + query, column = head * d;
      const Block dout = s.dout.from(first);
      Pack(q_.at(token, column), q_.row, n, d, args_.scale, s.q.from(first));
      Pack(dout_.at(token, column), dout_.row, n, d, 1.0F, dout);
      std::copy_n(lse_ + head * args_.queries.total() + token, n, s.lse + first);
      for (std::int64_t i = 0; i < n; ++i) {
        VF sum = hn::Zero(DF());
        const T* o = out_.at(token + i, column);
        ForVectors(d, [&](std::int64_t c, auto whole, std::int64_t m) HWY_ATTR {
          sum = hn::MulAdd(LoadSome(whole, o + c, m), Load(dout.data + i * s.width + c), sum);
        });
        s.delta[first + i] = hn::GetLane(hn::SumOfLanes(DF(), sum));
      }
    });
  }

  // s.p = P∘F and s.ds = dS of packed rows and keys; adds dS to the gradients of the biases.
  void tile(const Group& g, Range rows, Range keys, const BiasGradients& db, Scratch& s) const {
    const std::int64_t d = args_.head_dim, n = keys.end - keys.begin;
    ForStrips(g, rows, keys, [&](std::int64_t first, std::int64_t count, std::int64_t seen) HWY_ATTR {
      Gemm(count, seen, d, s.q.from(first).scalars(), s.k_turned, s.p.from(first), false);
      Gemm(count, seen, d, s.dout.from(first).scalars(), s.v_turned, s.ds.from(first), false);
    });
    FinishScores(g, add_, rows, keys, s.p.data);
    const bool dropout = args_.dropout.p > 0.0F;
    if (dropout) TileDropout(g, rows, keys, s.factors);
    g.for_heads(rows, [&](std::int64_t head, std::int64_t query, std::int64_t first, std::int64_t count) HWY_ATTR {
      for (std::int64_t r = first; r < first + count; ++r) {
        float *p = s.p.data + r * kKeyBlock, *ds = s.ds.data + r * kKeyBlock;
        const std::int64_t i = query + r - first;
        RowGradient(p, ds, Padded(n), dropout ? s.factors + r * kKeyBlock : nullptr, s.lse[r], s.delta[r]);
        if (!db.bias && !db.relative) continue;
        const std::int64_t seen = std::clamp<std::int64_t>(g.visible(i).end - keys.begin, 0, n);
        if (db.bias) AddRow(ds, seen, db.bias + db.layout.offset(g.sequence, head, i, keys.begin), db.layout.key);
        if (db.relative) AddRow(ds, seen, db.relative + head * db.relative_row + add_.relative_column(g, i) + keys.begin, 1);
      }
    });
  }

  void add_dq(const Group& g, Range rows, Range keys, Block dq, Scratch& s) const {
    ForStrips(g, rows, keys, [&](std::int64_t first, std::int64_t count, std::int64_t n) HWY_ATTR {
      Gemm(count, args_.head_dim, n, s.ds.from(first).scalars(), s.k, dq.from(first), true);
    });
  }
  void write_dq(const Group& g, Range rows, Scratch& s) const {
    if (!dq_.data) return;
    g.for_heads(rows, [&](std::int64_t head, std::int64_t query, std::int64_t first, std::int64_t n) HWY_ATTR {
      Unpack(s.dq.from(first), n, args_.head_dim, args_.scale, dq_.at(g.q_begin + query, head * args_.head_dim), dq_.row);
    });
  }

  const AttentionArgs& args_;
  ScoreBias add_;
  Tokens<const T> q_, k_, v_, out_, dout_;
  const float* lse_;
  Tokens<T> dq_, dk_, dv_;
};

// Where several groups add to the same elements of a bias' gradient they form a chain, which one worker goes along
// in order: the same sums whatever the number of threads.
struct Chains {
  std::int64_t sequences, kv_heads;
  bool over_sequences = false, over_heads = false;

  std::int64_t count() const { return (over_sequences ? 1 : sequences) * (over_heads ? 1 : kv_heads); }
  template <class F>
  void for_groups(std::int64_t chain, F&& f) const {
    const std::int64_t h = over_heads ? 0 : chain % kv_heads, s = over_sequences ? 0 : over_heads ? chain : chain / kv_heads;
    for (std::int64_t i = s; i < (over_sequences ? sequences : s + 1); ++i)
      for (std::int64_t j = h; j < (over_heads ? kv_heads : h + 1); ++j) f(i, j);
  }
};

void AttentionBackward(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args, const Tensor& out,
                       const Tensor& lse, const Tensor& dout, Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias, Tensor& drelative) {
  Chains chains{args.queries.count(), args.kv_heads};
  BiasGradients db{.layout = BiasLayout(dbias)};
  if (dbias.defined()) db.bias = dbias.mutable_data<float>();
  if (drelative.defined()) db.relative = drelative.mutable_data<float>(), db.relative_row = drelative.row_stride();
  chains.over_sequences = chains.sequences > 1 && (db.relative || (db.bias && db.layout.sequence == 0));
  chains.over_heads = chains.kv_heads > 1 && db.bias && db.layout.head == 0;
  // A bias that everything shares: every head sums into its own copy, so that the heads still run in parallel.
  Tensor copies;
  if (chains.over_sequences && chains.over_heads) {
    chains.over_heads = false;
    copies = Tensor::zeros(ctx, {chains.kv_heads, dbias.numel()});
  }
  float* const copy = copies.defined() ? copies.mutable_data<float>() : nullptr;

  const std::int64_t threads = Workers(ctx, args);
  struct Item {
    std::int64_t sequence, kv_head, block;
    bool keys;
  };
  std::vector<Item> parts;  // for run_keys and run_rows
  std::int64_t total = 0, largest = 0, rows = 0;
  for (std::int64_t s = 0; s < chains.sequences; ++s) {
    const Group g(args, s, 0);
    total += g.rows * g.keys * args.kv_heads;
    largest = std::max(largest, g.rows * g.keys);
    rows = std::max(rows, g.rows);
  }
  // In parts the scores are computed twice, 7 products instead of 5: only where whole groups leave threads idle.
  if (!db.bias && !db.relative && 5 * largest * threads > 7 * total) {
    for (std::int64_t s = 0; s < chains.sequences; ++s) {
      for (std::int64_t h = 0; h < chains.kv_heads; ++h) {
        const Group g(args, s, h);
        for (std::int64_t b = 0; b < g.key_blocks(); ++b) parts.push_back({s, h, b, true});
        for (std::int64_t b = g.row_blocks(); b-- > 0;) parts.push_back({s, h, b, false});
      }
    }
    rows = kRowBlock;
  }
  const std::int64_t items = parts.empty() ? chains.count() : static_cast<std::int64_t>(parts.size());
  if (items == 0) return;
  const std::int64_t workers = std::min(threads, items);
  const std::int64_t size = Scratch::size(args.head_dim, rows);
  const auto memory = ctx.allocator().allocate(static_cast<std::size_t>(workers * size) * sizeof(float));

  visit_float("attention_backward", q.dtype(), [&]<class T>() HWY_ATTR {
    const Backward<T> backward(q, k, v, args, out, lse, dout, dq, dk, dv);
    ForItems(workers, items, [&](std::int64_t worker, std::int64_t i) HWY_ATTR {
      Scratch scratch(reinterpret_cast<float*>(memory.get()) + worker * size, args.head_dim, rows);
      if (!parts.empty()) {
        const Item& part = parts[static_cast<std::size_t>(i)];
        const Group g(args, part.sequence, part.kv_head);
        return part.keys ? backward.run_keys(g, part.block, scratch) : backward.run_rows(g, part.block, scratch);
      }
      chains.for_groups(i, [&](std::int64_t s, std::int64_t h) HWY_ATTR {
        BiasGradients own = db;
        if (copy) own.bias = copy + h * dbias.numel();
        backward.run(Group(args, s, h), own, scratch);
      });
    });
  });
  if (!copy) return;
  parallel_for(ctx.threads(), dbias.numel(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = 0; h < chains.kv_heads; ++h)
      for (std::int64_t e = begin; e < end; ++e) db.bias[e] += copy[h * dbias.numel() + e];
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {
HWY_EXPORT(AttentionBackward);

void CpuKernels::attention_backward(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args,
                                    const Tensor& out, const Tensor& lse, const Tensor& dout, Tensor& dq, Tensor& dk, Tensor& dv,
                                    Tensor& dbias, Tensor& drelative_bias) {
  HWY_DYNAMIC_DISPATCH(AttentionBackward)(ctx, q, k, v, args, out, lse, dout, dq, dk, dv, dbias, drelative_bias);
}

}  // namespace transformer
#endif
