#pragma once
// The keys and values of the tokens a decoder has already seen, so that each new token costs one step and not the whole
// sequence again.
//
//   KVCache cache(rows);                                                                       // empty sequences
//   stack(ctx, {.x = prompts, .sequences = prompt_lengths, .cache = &cache});                  // any number of tokens per row
//   stack(ctx, {.x = next, .sequences = Sequences::uniform(rows, 1), .cache = &cache});        // they go on where they ended
//   cache.reorder(ctx, parents);                                                               // beam search
//
// All tokens lie in one pool, and a sequence (row) is the list of its tokens' places. So appending costs the same however long
// a sequence is, reordering copies no keys or values, and the hypotheses of a beam share their common beginning. When the
// pool is full, the tokens that are still in use move to one twice their size.

#include <cstdint>
#include <span>
#include <vector>

#include "transformer/core/context.h"
#include "transformer/core/sequences.h"
#include "transformer/core/tensor.h"

namespace transformer {

// One layer's part: keys and values side by side, [tokens, 2·kv_heads·head_dim].
struct LayerCache {
  Tensor self;    // the pool; made at the first use
  Tensor memory;  // of the encoder's output, computed once
};

class KVCache {
 public:
  explicit KVCache(std::int64_t rows);

  std::int64_t rows() const { return static_cast<std::int64_t>(places_.size()); }
  std::span<const std::int64_t> lengths() const { return lengths_; }  // tokens seen, by row
  bool has_memory() const { return !layers_.empty() && layers_.front().memory.defined(); }

  // Row i becomes what row parents[i] is now; there may be fewer or more rows than before. The encoder's keys and values
  // stay as they are.
  void reorder(Context& ctx, std::span<const std::int64_t> parents);
  void add_rows(std::int64_t count);                                          // empty ones, behind the others
  void share(std::int64_t row, std::int64_t like, std::int64_t length);       // the row becomes the first tokens of another, or of itself
  void keep_memory(Context& ctx, std::span<const std::int64_t> memory_rows);  // of the encoder's keys and values these alone, in this order

  // --- for the stack: one call that appends tokens is begin, append in every layer, commit -------------------------------
  // A row that is given no token in a call stays as it is, and has no keys in it.
  void begin(Context& ctx, const Sequences& tokens, std::int64_t layers);  // makes room for new tokens, tokens.count() == rows()
  LayerCache& layer(std::int64_t i) { return layers_[static_cast<std::size_t>(i)]; }
  const Sequences& keys() const { return keys_; }                  // old and new tokens of each row, in LayerCache::self
  void append(Context& ctx, LayerCache& layer, const Tensor& kv);  // kv [new tokens, 2·kv_heads·head_dim]
  void commit();                                                   // the new tokens count as seen

 private:
  void make_room(Context& ctx, std::int64_t tokens);

  std::int64_t used_ = 0, capacity_ = 0;           // tokens of the pool
  std::vector<std::vector<std::int64_t>> places_;  // in the pool, of each row's tokens
  std::vector<std::int64_t> lengths_;              // by row
  std::vector<LayerCache> layers_;
  Sequences keys_;
};

}  // namespace transformer
