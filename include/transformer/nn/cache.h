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
#include <initializer_list>
#include <span>
#include <vector>

#include "transformer/core/context.h"
#include "transformer/core/sequences.h"
#include "transformer/core/tensor.h"

namespace transformer {

// One layer's part: keys and values side by side, [tokens, 2·kv_heads·head_dim].
struct LayerCache {
  Tensor self;    // the pool; made at the first use
  Tensor memory;  // of the encoder's output, computed once: a pool, too
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
  void add_rows(std::int64_t count);                                     // empty ones, behind the others
  void share(std::int64_t row, std::int64_t like, std::int64_t length);  // the row becomes the first tokens of another, or of itself

  // --- the encoder's keys and values: those of sources that come are written behind the others' --------------------------
  // Makes room for so many tokens, from memory_end() on. When the pool is full, the rows that are still read move to the beginning of a
  // larger one, in their order, and all others are gone: true then.
  bool make_memory_room(Context& ctx, std::int64_t tokens, std::span<const std::int64_t> read);
  std::int64_t memory_end() const { return memory_used_; }
  std::int64_t memory_rows() const { return memory_capacity_; }  // of LayerCache::memory

  // --- for the stack: one call that appends tokens is begin, append in every layer, commit -------------------------------
  // A row that is given no token in a call stays as it is, and has no keys in it.
  void begin(Context& ctx, const Sequences& tokens, std::int64_t layers);  // makes room for new tokens, tokens.count() == rows()
  LayerCache& layer(std::int64_t i) { return layers_[static_cast<std::size_t>(i)]; }
  const Sequences& keys() const { return repeats_ ? step_.keys : keys_; }  // old and new tokens of each row, in LayerCache::self
  void append(Context& ctx, LayerCache& layer, const Tensor& kv);          // kv [new tokens, 2·kv_heads·head_dim]
  void append_memory(Context& ctx, LayerCache& layer, const Tensor& kv);   // kv [tokens of new sources, 2·kv_heads·head_dim]
  void commit();                                                           // the new tokens count as seen

  // --- steps that are recorded (Backend::record): one new token for each row, in memory that stays where it is ----------
  // Writes the step and counts its tokens as seen. Gives a number that stays the same while work recorded while Repeating may be run
  // for it, and never comes again; 0: nothing was done, as before the first call of the stack.
  std::uint64_t prepare(Context& ctx, std::span<const std::int32_t> ids, std::int64_t first_position);
  const Tensor& ids() const { return step_.ids; }              // int32 [rows]
  const Tensor& positions() const { return step_.positions; }  // int32 [rows], counted from first_position
  std::int64_t last_position() const { return step_.last; }    // the largest of them
  bool repeats() const { return repeats_; }
  void keep(std::initializer_list<Tensor> tables) { step_.tables = tables; }  // that recorded work reads, and others could let go of
  // While alive, what is asked of the cache is about the step that was prepared.
  class Repeating {
   public:
    explicit Repeating(KVCache& cache) : cache_(cache) { cache.repeats_ = true; }
    ~Repeating() { cache_.repeats_ = false; }
    Repeating(const Repeating&) = delete;
    Repeating& operator=(const Repeating&) = delete;

   private:
    KVCache& cache_;
  };

 private:
  void make_room(Context& ctx, std::int64_t tokens);
  void move_rows(Context& ctx, Tensor LayerCache::*pool, std::span<const std::int64_t> rows, std::int64_t capacity);

  std::int64_t used_ = 0, capacity_ = 0;  // tokens of the pool
  std::int64_t memory_used_ = 0, memory_capacity_ = 0, memory_new_ = 0;
  std::vector<std::vector<std::int64_t>> places_;  // in the pool, of each row's tokens
  std::vector<std::int64_t> lengths_;              // by row
  std::vector<LayerCache> layers_;
  Sequences keys_;

  struct Step {
    Tensor block, ids, positions, places;
    Sequences keys;
    std::vector<Tensor> tables;
    std::int64_t rows = 0, most = 0, last = 0;
  };
  Step step_;
  std::vector<std::int32_t> written_;  // what was copied to step_.block
  std::uint64_t pools_ = 0;            // how often the pool has moved
  std::uint64_t number_ = 0;           // of step_'s memory
  std::uint64_t step_pools_ = 0;
  bool repeats_ = false;
};

}  // namespace transformer
