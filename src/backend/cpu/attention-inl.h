// What attention's forward and backward share: how the work is cut into tiles of rows × keys, which keys a row sees,
// what is added to its scores, and its dropout.
#if defined(TRANSFORMER_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSFORMER_ATTENTION_INL_H_
#undef TRANSFORMER_ATTENTION_INL_H_
#else
#define TRANSFORMER_ATTENTION_INL_H_
#endif

#include <atomic>
#include <limits>

#include "backend/cpu/gemm-inl.h"
#include "backend/cpu/random-inl.h"
#include "transformer/core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr std::int64_t kRowBlock = 96;  // rows of a tile at most: whole register tiles
constexpr std::int64_t kKeyBlock = 64;  // keys of a tile: one panel of registers, one group of random numbers
constexpr std::int64_t kStrip = 2 * kTileRows;

struct Range {
  std::int64_t begin, end;
};

// One sequence and one of its key-value heads. The query heads that share it stand one below the other as one tall
// matrix: row r is query r % queries of head first_head + r / queries.
struct Group {
  const AttentionArgs* args;
  std::int64_t sequence, kv_head, first_head;
  std::int64_t q_begin, queries, k_begin, keys;  // tokens
  std::int64_t rows;

  Group(const AttentionArgs& a, std::int64_t s, std::int64_t kv) : args(&a), sequence(s), kv_head(kv) {
    const std::int64_t shared_by = a.heads / a.kv_heads;
    first_head = kv * shared_by;
    q_begin = a.queries.begin(s), queries = a.queries.length(s);
    k_begin = a.keys.begin(s), keys = a.keys.length(s);
    rows = shared_by * queries;
  }
  std::int64_t head(std::int64_t row) const { return first_head + row / queries; }
  std::int64_t query(std::int64_t row) const { return row % queries; }

  // The keys that a query sees, by causality and window; begin ≥ end when there are none.
  Range visible(std::int64_t query) const {
    const std::int64_t position = query + keys - queries;  // the queries are the last positions
    Range r{0, keys};
    if (args->window > 0) r.begin = std::max<std::int64_t>(0, position - args->window + 1);
    if (args->causal) r.end = std::min(keys, position + 1);
    else if (args->window > 0) r.end = std::min(keys, position + args->window);
    return r;
  }
  // The keys that any of some rows sees. Both ends of visible() grow with the query.
  Range visible_to_any(Range block) const {
    const std::int64_t first = query(block.begin), last = first + (block.end - block.begin) - 1;
    const bool one_head = last < queries;
    return {visible(one_head ? first : 0).begin, visible(one_head ? last : queries - 1).end};
  }

  // The rows are cut into blocks of about equal size.
  std::int64_t row_blocks() const { return (rows + kRowBlock - 1) / kRowBlock; }
  Range row_block(std::int64_t i) const {
    const std::int64_t size = (rows + row_blocks() - 1) / row_blocks();
    const std::int64_t whole = (size + kTileRows - 1) / kTileRows * kTileRows;
    return {std::min(rows, i * whole), std::min(rows, (i + 1) * whole)};
  }
  std::int64_t key_blocks() const { return (keys + kKeyBlock - 1) / kKeyBlock; }
  Range key_block(std::int64_t i) const { return {i * kKeyBlock, std::min(keys, (i + 1) * kKeyBlock)}; }

  // Calls f(head, query, first row, rows) for the pieces of a block that belong to one head.
  template <class F>
  void for_heads(Range block, F&& f) const {
    for (std::int64_t r = block.begin; r < block.end;) {
      const std::int64_t n = std::min(block.end - r, queries - query(r));
      f(head(r), query(r), r - block.begin, n);
      r += n;
    }
  }
};

// Calls f(first row, rows, keys) over the rows of a tile: all at once where they see all its keys, else in strips
// that see nothing beyond the first so many keys. A causal tile then costs little more than the half it needs.
template <class F>
HWY_INLINE void ForStrips(const Group& g, Range rows, Range keys, F&& f) {
  const std::int64_t m = rows.end - rows.begin, n = keys.end - keys.begin, first = g.query(rows.begin);
  if (!g.args->causal || (first + m <= g.queries && g.visible(first).end >= keys.end)) return f(0, m, n);
  for (std::int64_t r = 0; r < m; r += kStrip) {
    const std::int64_t count = std::min(kStrip, m - r);
    const Range seen = g.visible_to_any({rows.begin + r, rows.begin + r + count});
    f(r, count, std::clamp<std::int64_t>(seen.end - keys.begin, 0, n));
  }
}

// Strides of a bias over [sequence, head, query, key], 0 where it repeats.
struct BiasLayout {
  std::int64_t sequence = 0, head = 0, query = 0, key = 0;

  explicit BiasLayout(const Tensor& t) {
    if (!t.defined()) return;
    std::int64_t* strides[] = {&key, &query, &head, &sequence};
    std::int64_t step = 1;
    for (int i = 1; i <= t.rank(); ++i) {
      if (t.dim(-i) != 1) *strides[i - 1] = step;
      step = i == 1 ? t.row_stride() : step * t.dim(-i);
    }
  }
  std::int64_t offset(std::int64_t s, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return s * sequence + h * head + i * query + j * key;
  }
};

// What is added to scores: read only, shared by all threads.
struct ScoreBias {
  const float* bias = nullptr;
  BiasLayout layout;
  const float* relative = nullptr;  // [heads, 2·L-1]
  std::int64_t relative_row = 0, longest = 0;

  explicit ScoreBias(const AttentionArgs& a) : layout(a.bias) {
    if (a.bias.defined()) bias = a.bias.data<float>();
    if (!a.relative_bias.defined()) return;
    relative = a.relative_bias.data<float>();
    relative_row = a.relative_bias.row_stride();
    longest = (a.relative_bias.dim(1) + 1) / 2;
  }
  // The column of the relative bias for a query and key 0.
  std::int64_t relative_column(const Group& g, std::int64_t query) const { return longest - 1 - (query + g.keys - g.queries); }
};

// scores[j] += bias[j · step], step 0 or 1, to whole vectors of scores.
HWY_INLINE void AddBias(const float* HWY_RESTRICT bias, std::int64_t step, std::int64_t n, float* HWY_RESTRICT scores) {
  if (step == 0) {
    const VF same = hn::Set(DF(), *bias);
    for (std::int64_t j = 0; j < n; j += Lanes()) Store(hn::Add(Load(scores + j), same), scores + j);
  } else {
    ForVectors(n, [&](std::int64_t j, auto whole, std::int64_t m) HWY_ATTR {
      Store(hn::Add(Load(scores + j), LoadSome(whole, bias + j, m)), scores + j);
    });
  }
}

// Adds the biases to the scores of a tile, and masks what a row does not see with -inf, up to the padded end.
HWY_INLINE void FinishScores(const Group& g, const ScoreBias& add, Range rows, Range keys, float* scores) {
  const DF d;
  const VF masked = hn::Set(d, kMasked);
  const std::int64_t lanes = Lanes(), n = keys.end - keys.begin, padded = Padded(n);
  g.for_heads(rows, [&](std::int64_t head, std::int64_t query, std::int64_t first, std::int64_t count) HWY_ATTR {
    float* HWY_RESTRICT row = scores + first * kKeyBlock;
    for (std::int64_t i = query; i < query + count; ++i, row += kKeyBlock) {
      Range seen = g.visible(i);
      seen = {std::clamp<std::int64_t>(seen.begin - keys.begin, 0, n), std::clamp<std::int64_t>(seen.end - keys.begin, 0, n)};
      if (add.bias) AddBias(add.bias + add.layout.offset(g.sequence, head, i, keys.begin), add.layout.key, seen.end, row);
      if (add.relative) AddBias(add.relative + head * add.relative_row + add.relative_column(g, i) + keys.begin, 1, seen.end, row);
      for (std::int64_t j = 0; j < seen.begin; j += lanes)
        Store(hn::IfThenElse(hn::FirstN(d, static_cast<std::size_t>(seen.begin - j)), masked, Load(row + j)), row + j);
      for (std::int64_t j = seen.end / lanes * lanes; j < padded; j += lanes)
        Store(hn::IfThenElse(hn::FirstN(d, static_cast<std::size_t>(std::max<std::int64_t>(0, seen.end - j))), Load(row + j), masked),
              row + j);
    }
  });
}

// Dropout factors [rows, kKeyBlock] of the weights of a tile: a row's are one group of random numbers.
HWY_INLINE void TileDropout(const Group& g, Range rows, Range keys, float* factors) {
  const AttentionArgs& a = *g.args;
  g.for_heads(rows, [&](std::int64_t head, std::int64_t query, std::int64_t first, std::int64_t count) HWY_ATTR {
    const std::int64_t row = (g.sequence * a.heads + head) * a.queries.longest() + query;
    for (std::int64_t i = 0; i < count; ++i)
      DropoutFactors(a.dropout, static_cast<std::uint64_t>((row + i) * a.dropout_row() + keys.begin), kKeyBlock,
                     factors + (first + i) * kKeyBlock);
  });
}

// eˣ for x ≤ 0 or little more, 0 below -87 (so for -inf). Relative error about 1e-7.
HWY_INLINE VF ExpOf(VF x) {
  const DF d;
  const hn::RebindToSigned<DF> di;
  // x = n·ln 2 + r, |r| ≤ ln 2 / 2. Adding 1.5·2²³ rounds to the integer n and leaves it in the low bits.
  const VF magic = hn::Set(d, 12582912.0F);
  const VF shifted = hn::MulAdd(x, hn::Set(d, 1.44269504F), magic);
  const VF n = hn::Sub(shifted, magic);
  const VF r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), hn::NegMulAdd(n, hn::Set(d, 0.693359375F), x));
  VF p = hn::Set(d, 1.98756912e-4F);
  p = hn::MulAdd(p, r, hn::Set(d, 1.39819994e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 8.33345205e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 4.16657962e-2F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.66666657e-1F));
  p = hn::MulAdd(p, r, hn::Set(d, 5.00000012e-1F));
  p = hn::MulAdd(hn::Mul(r, r), p, hn::Add(r, hn::Set(d, 1.0F)));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  const VF y = hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
  return hn::IfThenElseZero(hn::Ge(x, hn::Set(d, -87.0F)), y);
}

// Calls f(worker, item) for every item; a free worker takes the next one, so items must not depend on each other.
template <class F>
void ForItems(std::int64_t workers, std::int64_t items, F&& f) {
  std::atomic<std::int64_t> next{0};
  parallel_for(static_cast<int>(workers), workers, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t worker = first; worker < last; ++worker)
      for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < items;) f(worker, i);
  });
}

// How many threads a call is worth.
inline std::int64_t Workers(Context& ctx, const AttentionArgs& a) {
  std::int64_t products = 0;
  for (std::int64_t s = 0; s < a.queries.count(); ++s) products += a.queries.length(s) * a.keys.length(s) * a.heads * a.head_dim;
  return products < (1 << 15) ? 1 : ctx.threads();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();
#endif
