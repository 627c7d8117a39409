#include "transformer/nn/cache.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <numeric>
#include <utility>

#include "transformer/core/error.h"
#include "transformer/ops/copy.h"

namespace transformer {
namespace {

constexpr std::int64_t smallest_capacity = 64;
constexpr std::int64_t grain = 128;  // keys that a device takes at a time: recorded steps have room for whole ones

// Of a pool that is moved for so many tokens: at least as many free as used, so that this is rare; a power of two, so that batches of other
// sizes find the memory again.
std::int64_t room_for(std::int64_t tokens) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(smallest_capacity, 2 * tokens))));
}

// first, first + 1, … first + count - 1
std::vector<std::int64_t> range(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

}  // namespace

KVCache::KVCache(std::int64_t rows) {
  if (rows < 0) fail("KVCache", "{} rows asked for: expected 0 or more", rows);
  places_.resize(static_cast<std::size_t>(rows));
  lengths_.assign(static_cast<std::size_t>(rows), 0);
}

void KVCache::reorder(Context&, std::span<const std::int64_t> parents) {
  std::vector<std::vector<std::int64_t>> places;
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i < parents.size(); ++i) {
    if (parents[i] < 0 || parents[i] >= rows()) fail("KVCache", "row {} is to go on from row {} of {}", i, parents[i], rows());
    places.push_back(places_[static_cast<std::size_t>(parents[i])]);
    lengths.push_back(lengths_[static_cast<std::size_t>(parents[i])]);
  }
  places_ = std::move(places), lengths_ = std::move(lengths);
}

void KVCache::add_rows(std::int64_t count) {
  if (count < 0) fail("KVCache", "{} rows are to be added: expected 0 or more", count);
  places_.resize(places_.size() + static_cast<std::size_t>(count));
  lengths_.resize(places_.size(), 0);
}

void KVCache::share(std::int64_t row, std::int64_t like, std::int64_t length) {
  if (row < 0 || row >= rows() || like < 0 || like >= rows() || length < 0 || length > lengths_[static_cast<std::size_t>(like)])
    fail("KVCache", "row {} is to be the first {} tokens of row {}, of {} rows", row, length, like, rows());
  std::vector<std::int64_t> places = places_[static_cast<std::size_t>(like)];
  places.resize(static_cast<std::size_t>(length));
  places_[static_cast<std::size_t>(row)] = std::move(places);
  lengths_[static_cast<std::size_t>(row)] = length;
}

bool KVCache::make_memory_room(Context& ctx, std::int64_t tokens, std::span<const std::int64_t> read) {
  if (memory_used_ + tokens <= memory_capacity_) return false;
  const std::int64_t kept = std::ssize(read);
  // The first sources may be all there are.
  memory_capacity_ = has_memory() ? room_for(kept + tokens) : tokens;
  memory_used_ = kept;
  move_rows(ctx, &LayerCache::memory, read, memory_capacity_);
  return true;
}

void KVCache::append_memory(Context& ctx, LayerCache& layer, const Tensor& kv) {
  memory_new_ = kv.rows();
  if (!layer.memory.defined()) {
    layer.memory = kv;
    memory_capacity_ = kv.rows();
    return;
  }
  if (memory_used_ + memory_new_ > memory_capacity_)
    fail("KVCache", "{} tokens of memory are there, and {} come: room for {} was made", memory_used_, memory_new_, memory_capacity_);
  Tensor to = layer.memory.row_block(memory_used_, memory_new_);
  copy_into(ctx, kv, to);
}

// One pool of each layer gives way to one of so many rows, which begins with some of the old one's.
void KVCache::move_rows(Context& ctx, Tensor LayerCache::*pool, std::span<const std::int64_t> rows, std::int64_t capacity) {
  const std::vector<std::int64_t> from(rows.begin(), rows.end()), to = range(0, std::ssize(from));
  for (LayerCache& layer : layers_) {
    Tensor& old = layer.*pool;
    if (!old.defined()) continue;
    Tensor next = Tensor::empty(ctx, {capacity, old.cols()}, old.dtype());
    copy_rows(ctx, old, from, next, to);
    old = next;
  }
}

void KVCache::make_room(Context& ctx, std::int64_t tokens) {
  if (used_ + tokens <= capacity_) return;
  // Tokens that some row still has, in the order of the rows: what is read together then lies together.
  std::vector<std::int64_t> moved(static_cast<std::size_t>(capacity_), -1), live;
  for (auto& places : places_) {
    for (std::int64_t& place : places) {
      std::int64_t& to = moved[static_cast<std::size_t>(place)];
      if (to < 0) to = static_cast<std::int64_t>(live.size()), live.push_back(place);
      place = to;
    }
  }
  used_ = static_cast<std::int64_t>(live.size());
  ++pools_;
  capacity_ = room_for(used_ + tokens);
  move_rows(ctx, &LayerCache::self, live, capacity_);
}

void KVCache::begin(Context& ctx, const Sequences& tokens, std::int64_t layers) {
  if (repeats_) return;
  if (tokens.count() != rows())
    fail("KVCache", "{} sequences of tokens given to a cache of {} rows: expected equal counts", tokens.count(), rows());
  if (layers_.empty()) layers_.resize(static_cast<std::size_t>(layers));
  if (layers != static_cast<std::int64_t>(layers_.size()))
    fail("KVCache", "a stack of {} layers uses a cache of {}: one cache belongs to one stack", layers, layers_.size());
  make_room(ctx, tokens.total());
  std::vector<std::int64_t> all, lengths;
  for (std::int64_t row = 0; row < rows(); ++row) {
    const auto& places = places_[static_cast<std::size_t>(row)];
    if (tokens.length(row) == 0) {
      lengths.push_back(0);
      continue;
    }
    all.insert(all.end(), places.begin(), places.end());
    for (std::int64_t i = 0; i < tokens.length(row); ++i) all.push_back(used_ + tokens.begin(row) + i);
    lengths.push_back(static_cast<std::int64_t>(places.size()) + tokens.length(row));
  }
  keys_ = Sequences::scattered(std::move(all), std::move(lengths), capacity_);
}

void KVCache::append(Context& ctx, LayerCache& layer, const Tensor& kv) {
  if (repeats_) return put_rows(ctx, kv, step_.places, layer.self);
  if (!layer.self.defined()) layer.self = Tensor::empty(ctx, {capacity_, kv.cols()}, kv.dtype());
  Tensor to = layer.self.row_block(used_, kv.rows());
  copy_into(ctx, kv, to);
}

std::uint64_t KVCache::prepare(Context& ctx, std::span<const std::int32_t> ids, std::int64_t first_position) {
  if (std::ssize(ids) != rows()) fail("KVCache", "{} tokens given to a cache of {} rows: expected one for each", ids.size(), rows());
  if (rows() == 0 || layers_.empty() || !layers_.front().self.defined()) return 0;
  make_room(ctx, rows());
  const std::int64_t n = rows(), longest = *std::max_element(lengths_.begin(), lengths_.end()) + 1;
  const std::int64_t most = (longest + grain - 1) / grain * grain;
  if (number_ == 0 || step_.rows != n || step_.most != most || step_pools_ != pools_) {
    static std::atomic<std::uint64_t> numbers = 0;
    number_ = ++numbers;
    step_pools_ = pools_;
    step_.rows = n, step_.most = most;
    // ids, positions and places of the new tokens, then the keys as Sequences::on has them
    step_.block = Tensor::empty(ctx, {n * (6 + most)}, DType::int32);
    step_.ids = step_.block.row_block(0, n), step_.positions = step_.block.row_block(n, n), step_.places = step_.block.row_block(2 * n, n);
    step_.keys = Sequences::in_place(step_.block.row_block(3 * n, n * (3 + most)), n, most, capacity_);
    written_.assign(static_cast<std::size_t>(n * (6 + most)), 0);
  }
  step_.last = first_position + longest - 1;
  const auto put = [&](std::int64_t column, std::int64_t row, std::int64_t value) {
    written_[static_cast<std::size_t>(column * n + row)] = static_cast<std::int32_t>(value);
  };
  for (std::int64_t row = 0; row < n; ++row) {
    auto& places = places_[static_cast<std::size_t>(row)];
    std::int64_t& length = lengths_[static_cast<std::size_t>(row)];
    put(0, row, ids[static_cast<std::size_t>(row)]), put(1, row, first_position + length), put(2, row, used_ + row);
    places.push_back(used_ + row);
    put(3, row, row * most), put(4, row, ++length), put(5, row, row);  // begins, lengths, order: the blocks of a step are all alike
    const auto at = written_.begin() + 6 * n + row * most;
    std::transform(places.begin(), places.end(), at, [](std::int64_t place) { return static_cast<std::int32_t>(place); });
    step_.keys.set(row, places);
  }
  used_ += n;
  ctx.backend().to_device(written_.data(), step_.block.mutable_raw(), written_.size() * sizeof(std::int32_t));
  return number_;
}

void KVCache::commit() {
  if (repeats_) return;
  memory_used_ += std::exchange(memory_new_, 0);
  for (std::int64_t row = 0; row < rows(); ++row) {
    auto& places = places_[static_cast<std::size_t>(row)];
    std::int64_t& length = lengths_[static_cast<std::size_t>(row)];
    if (keys_.length(row) == 0) continue;  // it was given no token
    const auto added = keys_.rows().subspan(static_cast<std::size_t>(keys_.begin(row) + length),
                                            static_cast<std::size_t>(keys_.length(row) - length));
    places.insert(places.end(), added.begin(), added.end());
    length = keys_.length(row);
    used_ += static_cast<std::int64_t>(added.size());
  }
}

}  // namespace transformer
