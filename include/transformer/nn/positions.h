#pragma once
// How a Transformer knows the order of its tokens. Attention alone does not: without positions the outputs of a
// permuted sentence are the permuted outputs.

#include <span>

#include "transformer/core/lazy.h"
#include "transformer/core/sequences.h"
#include "transformer/nn/config.h"
#include "transformer/nn/parameter.h"
#include "transformer/ops/rope.h"

namespace transformer {

// The place of every packed token in its own sequence: int32 [total] = 0 1 2 … 0 1 2 …; with `starts`, one for each
// sequence, counted from there: the tokens go on after those in a cache. `offset` is added to all.
Tensor position_ids(Context& ctx, const Sequences& sequences, std::span<const std::int64_t> starts = {}, std::int64_t offset = 0);
// One more than the last of those places.
std::int64_t positions_needed(const Sequences& sequences, std::span<const std::int64_t> starts = {});

// PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(same): float32 [positions, d]. With `halves` the same columns
// in another order: all sines, then all cosines.
Tensor sinusoidal_table(Context& ctx, std::int64_t positions, std::int64_t d, bool halves = false);

// T5's bucket of a distance (key position − query position): exact when near, logarithmic up to max_distance.
std::int64_t relative_bucket(std::int64_t distance, bool bidirectional, std::int64_t buckets, std::int64_t max_distance);

// The angles by which RoPE turns each pair of dimensions from one position to the next, for sequences of up to `longest`.
std::vector<double> rope_frequencies(const StackConfig& resolved, std::int64_t longest);

// ALiBi's slope of each head: 2^(−8·(i+1)/n) where n heads are a power of two, interpolated otherwise.
std::vector<float> alibi_slopes(std::int64_t heads);

// Positions that are added to the embeddings: sinusoidal or learned (the other kinds act inside attention).
struct AddedPositions {
  PositionKind kind = PositionKind::none;
  std::int64_t positions = 0, d = 0;
  std::int64_t offset = 0;  // learned: position p is row p + offset; BART and RoBERTa leave the first rows unused
  Parameter table;          // learned: [offset + positions, d]; also sinusoidal, when a checkpoint brings its own
  Lazy<Tensor> computed;    // sinusoidal

  AddedPositions() = default;
  AddedPositions(PositionKind position_kind, std::int64_t max_positions, std::int64_t d_model, std::int64_t first_row = 0);
  // x [tokens, d] + PE; `starts` as for position_ids
  Tensor operator()(Context& ctx, const Tensor& x, const Sequences& sequences, std::span<const std::int64_t> starts = {},
                    const Tensor& given = {}) const;
  void visit(auto&& f) { f("table", table); }
};

// Positions that act inside attention, the same for all layers of a stack: a bias by distance (T5, ALiBi) or the
// angles of RoPE.
struct AttentionPositions {
  StackConfig config;
  Parameter relative;  // T5: [buckets, heads]
  struct SizedTable {
    RopeTable table;
    std::int64_t length = 0;  // what its frequencies depend on, when scaling is dynamic
  };
  Lazy<SizedTable> rope_table;  // grows with the longest sequence seen

  AttentionPositions() = default;
  explicit AttentionPositions(const StackConfig& resolved);
  // float32 [heads, 2·longest − 1], one value for each distance −(longest−1) … longest−1; undefined for other kinds.
  Tensor bias(Context& ctx, std::int64_t longest) const;
  std::optional<RopeTable> rope(Context& ctx, std::int64_t longest) const;  // none for other kinds
  void visit(auto&& f) { f("relative", relative); }
};

}  // namespace transformer
