#include "transformer/nn/cache.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "transformer/core/error.h"
#include "transformer/ops/copy.h"

namespace transformer {
namespace {

constexpr std::int64_t smallest_capacity = 16;

// Rows of the tensor that holds the slots: a power of two, so that batches of other sizes find its memory again. What lies
// behind the last slot is never touched.
std::int64_t tensor_rows(std::int64_t slots, std::int64_t capacity) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(slots * capacity)));
}

// Appends begin, begin + 1, … begin + count - 1.
void push_range(std::vector<std::int64_t>& rows, std::int64_t begin, std::int64_t count) {
  rows.resize(rows.size() + static_cast<std::size_t>(count));
  std::iota(rows.end() - count, rows.end(), begin);
}

}  // namespace

KVCache::KVCache(std::int64_t rows) : slot_count_(rows) {
  if (rows < 0) fail("KVCache", "{} rows asked for: expected 0 or more", rows);
  push_range(slots_, 0, rows);
  lengths_.assign(static_cast<std::size_t>(rows), 0);
}

void KVCache::resize(Context& ctx, std::int64_t slots, std::int64_t capacity) {
  std::vector<std::int64_t> from, to;
  for (std::int64_t row = 0; row < rows(); ++row) {
    const std::int64_t slot = slots_[static_cast<std::size_t>(row)], length = lengths_[static_cast<std::size_t>(row)];
    push_range(from, slot * capacity_, length);
    push_range(to, slot * capacity, length);
  }
  for (LayerCache& layer : layers_) {
    if (!layer.self.defined()) continue;
    Tensor larger = Tensor::empty(ctx, {tensor_rows(slots, capacity), layer.self.cols()}, layer.self.dtype());
    copy_rows(ctx, layer.self, from, larger, to);
    layer.self = larger;
  }
  slot_count_ = slots, capacity_ = capacity;
}

void KVCache::reorder(Context& ctx, std::span<const std::int64_t> parents) {
  const auto count = static_cast<std::int64_t>(parents.size());
  std::vector<char> taken(static_cast<std::size_t>(std::max(slot_count_, count)), 0);
  std::vector<std::int64_t> slots(parents.size(), -1), lengths;
  // The first child of a parent goes on in its slot.
  for (std::size_t i = 0; i < parents.size(); ++i) {
    if (parents[i] < 0 || parents[i] >= rows()) fail("KVCache", "row {} is to go on from row {} of {}", i, parents[i], rows());
    const auto parent = static_cast<std::size_t>(parents[i]);
    lengths.push_back(lengths_[parent]);
    char& slot = taken[static_cast<std::size_t>(slots_[parent])];
    if (!slot) slots[i] = slots_[parent];
    slot = 1;
  }
  if (count > slot_count_) resize(ctx, count, capacity_);
  // The others get a free slot and a copy.
  std::vector<std::int64_t> from, to;
  std::int64_t free = 0;
  for (std::size_t i = 0; i < parents.size(); ++i) {
    if (slots[i] >= 0) continue;
    while (taken[static_cast<std::size_t>(free)]) ++free;
    slots[i] = free++;
    push_range(from, slot_begin(parents[i]), lengths[i]);
    push_range(to, slots[i] * capacity_, lengths[i]);
  }
  for (LayerCache& layer : layers_)
    if (layer.self.defined() && !from.empty()) copy_rows(ctx, layer.self, from, layer.self, to);
  slots_ = std::move(slots), lengths_ = std::move(lengths);
}

void KVCache::begin(Context& ctx, const Sequences& tokens, std::int64_t layers) {
  if (tokens.count() != rows())
    fail("KVCache", "{} sequences of tokens given to a cache of {} rows: expected as many", tokens.count(), rows());
  if (layers_.empty()) layers_.resize(static_cast<std::size_t>(layers));
  if (layers != static_cast<std::int64_t>(layers_.size()))
    fail("KVCache", "a stack of {} layers uses a cache of {}: one cache belongs to one stack", layers, layers_.size());
  std::vector<std::int64_t> after = lengths_, begins;
  std::int64_t longest = 0;
  for (std::int64_t row = 0; row < rows(); ++row) longest = std::max(longest, after[static_cast<std::size_t>(row)] += tokens.length(row));
  if (longest > capacity_) {
    std::int64_t capacity = std::max(capacity_, smallest_capacity);
    while (capacity < longest) capacity *= 2;
    resize(ctx, slot_count_, capacity);
  }
  new_rows_.clear();
  for (std::int64_t row = 0; row < rows(); ++row) {
    begins.push_back(slot_begin(row));
    push_range(new_rows_, begins.back() + lengths_[static_cast<std::size_t>(row)], tokens.length(row));
  }
  keys_ = Sequences::with_gaps(std::move(begins), std::move(after), tensor_rows(slot_count_, capacity_));
}

void KVCache::append(Context& ctx, LayerCache& layer, const Tensor& kv) {
  if (!layer.self.defined()) layer.self = Tensor::empty(ctx, {tensor_rows(slot_count_, capacity_), kv.cols()}, kv.dtype());
  std::vector<std::int64_t> from;
  push_range(from, 0, kv.rows());
  copy_rows(ctx, kv, from, layer.self, new_rows_);
}

void KVCache::commit() {
  for (std::int64_t row = 0; row < rows(); ++row) lengths_[static_cast<std::size_t>(row)] = keys_.length(row);
}

}  // namespace transformer
