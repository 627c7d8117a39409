#pragma once
// The keys and values of the tokens a decoder has already seen, so that each new token costs one step and not the whole
// sequence again.
//
//   KVCache cache(rows);                                                                       // empty sequences
//   stack(ctx, {.x = prompts, .sequences = prompt_lengths, .cache = &cache});                  // any number of tokens a row
//   stack(ctx, {.x = next, .sequences = Sequences::uniform(rows, 1), .cache = &cache});        // they go on where they ended
//   cache.reorder(ctx, parents);                                                               // beam search
//
// A sequence (row) lies in a slot of `capacity` tokens, with room to grow: when it is full all capacities double, so that
// appending costs the same however long the sequence is.

#include <cstdint>
#include <span>
#include <vector>

#include "transformer/core/context.h"
#include "transformer/core/sequences.h"
#include "transformer/core/tensor.h"

namespace transformer {

// One layer's part: keys and values side by side, [rows, 2·kv_heads·head_dim].
struct LayerCache {
  Tensor self;    // of the tokens seen, by slot; made at the first use
  Tensor memory;  // of the encoder's output, computed once
};

class KVCache {
 public:
  explicit KVCache(std::int64_t rows);

  std::int64_t rows() const { return static_cast<std::int64_t>(slots_.size()); }
  std::span<const std::int64_t> lengths() const { return lengths_; }  // tokens seen, by row
  bool has_memory() const { return !layers_.empty() && layers_.front().memory.defined(); }

  // Row i becomes what row parents[i] is now; there may be fewer or more rows than before. Nothing is copied but for the
  // second and further children of one parent. The encoder's keys and values stay as they are.
  void reorder(Context& ctx, std::span<const std::int64_t> parents);

  // --- for the stack: one call that appends tokens is begin, append in every layer, commit -------------------------------
  void begin(Context& ctx, const Sequences& tokens, std::int64_t layers);  // makes room for new tokens, tokens.count() == rows()
  LayerCache& layer(std::int64_t i) { return layers_[static_cast<std::size_t>(i)]; }
  const Sequences& keys() const { return keys_; }                  // old and new tokens of each row, in LayerCache::self
  void append(Context& ctx, LayerCache& layer, const Tensor& kv);  // kv [new tokens, 2·kv_heads·head_dim]
  void commit();                                                   // the new tokens count as seen

 private:
  std::int64_t slot_begin(std::int64_t row) const { return slots_[static_cast<std::size_t>(row)] * capacity_; }
  void resize(Context& ctx, std::int64_t slots, std::int64_t capacity);

  std::int64_t slot_count_ = 0, capacity_ = 0;
  std::vector<std::int64_t> slots_, lengths_;  // by row
  std::vector<LayerCache> layers_;
  Sequences keys_;
  std::vector<std::int64_t> new_rows_;  // of LayerCache::self, for each new token
};

}  // namespace transformer
