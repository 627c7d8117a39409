#include "train/shards.h"

#include <algorithm>
#include <numeric>

#include "backend/kernels.h"

namespace transformer {
namespace {

float* floats(Tensor& t) { return reinterpret_cast<float*>(t.mutable_raw()); }

// Elements of a bucket: large enough for the network, small enough that the first is sent early.
std::int64_t bucket_size(std::int64_t block, std::int64_t unit) {
  const std::int64_t wanted = std::clamp<std::int64_t>(block / 64, 1 << 14, 25 << 18);
  return (wanted + unit - 1) / unit * unit;
}

}  // namespace

Shards::Shards(Context& ctx, Arena& arena) : arena_(arena), rank_(ctx.communicator().rank()), done_(arena.leaves().size(), false) {
  const std::int64_t processes = ctx.communicator().size(), unit = Arena::alignment * processes;
  const std::int64_t each = bucket_size(arena.size(), unit) / processes;
  for (std::int64_t begin = 0; begin < arena.size(); begin += each * processes) {
    const std::int64_t share = std::min(each, (arena.size() - begin) / processes);
    buckets_.push_back({.begin = begin, .each = share, .local = size_});
    size_ += share;
  }
  of_leaf_.resize(arena.leaves().size());
  for (std::size_t i = 0; i < of_leaf_.size(); ++i) {
    const auto [begin, end] = arena.place(i);
    if (begin == end) continue;
    for (std::int64_t b = begin / (each * processes); b <= (end - 1) / (each * processes); ++b) {
      of_leaf_[i].push_back(static_cast<std::size_t>(b));
      ++buckets_[static_cast<std::size_t>(b)].leaves;
    }
  }
  for (Bucket& bucket : buckets_) bucket.open = bucket.leaves;
  order_.resize(buckets_.size());
  std::iota(order_.rbegin(), order_.rend(), std::size_t{0});
  gradients_ = block(ctx);
}

Tensor Shards::block(Context& ctx) const { return Tensor::zeros(ctx, {size_}); }

std::vector<Shards::Piece> Shards::pieces(std::int64_t begin, std::int64_t end) const {
  std::vector<Piece> out;
  for (const Bucket& bucket : buckets_) {
    const std::int64_t first = bucket.begin + bucket.each * rank_;
    const std::int64_t from = std::max(begin, first), to = std::min(end, first + bucket.each);
    if (from < to) out.push_back({.begin = from, .size = to - from, .local = bucket.local + from - first});
  }
  return out;
}

void Shards::finished(Context& ctx, std::size_t leaf) {
  if (done_[leaf]) return;
  done_[leaf] = true;
  arena_.bring_home(ctx, leaf);
  for (const std::size_t b : of_leaf_[leaf])
    if (--buckets_[b].open == 0) ended_.push_back(b);
  if (learned_) begin_ready(ctx);
}

// In the same order in every process, whatever it has to compute.
void Shards::begin_ready(Context& ctx) {
  for (; next_ < order_.size() && buckets_[order_[next_]].open == 0; ++next_) {
    const Bucket& bucket = buckets_[order_[next_]];
    Tensor all = arena_.stretch(arena_.gradients(), bucket.begin, bucket.begin + bucket.each * ctx.communicator().size());
    Tensor mine = arena_.stretch(gradients_, bucket.local, bucket.local + bucket.each);
    under_way_.push_back(ctx.communicator().reduce_scatter(ctx.backend(), floats(all), floats(mine), bucket.each));
  }
}

// Every process computes the same ops: the order in which the first one came to the ends of its buckets will be that of all.
void Shards::learn_order(Context& ctx) {
  if (learned_) return;
  std::vector<std::size_t> order = ended_;
  for (const std::size_t b : order_)
    if (std::find(order.begin(), order.end(), b) == order.end()) order.push_back(b);
  ctx.communicator().broadcast(order.data(), order.size() * sizeof order.front(), 0);
  order_ = order;
  learned_ = true;
}

std::vector<bool> Shards::reduce(Context& ctx) {
  const std::size_t leaves = of_leaf_.size();
  learn_order(ctx);
  std::vector<std::uint8_t> mine(leaves), all(leaves * static_cast<std::size_t>(ctx.communicator().size()));
  for (std::size_t i = 0; i < leaves; ++i) {
    mine[i] = gradient(arena_.leaves()[i]).defined() ? 1 : 0;
    if (mine[i] == 0) {  // another process may have one
      Tensor nothing = arena_.part(arena_.gradients(), i);
      kernels(ctx).fill(ctx, 0.0F, nothing);
    }
    finished(ctx, i);
  }
  begin_ready(ctx);
  ctx.communicator().all_gather(mine.data(), mine.size(), all.data());
  for (const ExchangePtr& exchange : under_way_) exchange->wait();
  under_way_.clear(), ended_.clear();
  next_ = 0;
  done_.assign(leaves, false);
  for (Bucket& bucket : buckets_) bucket.open = bucket.leaves;
  std::vector<bool> any(leaves, false);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != 0) any[i % leaves] = true;
  return any;
}

void Shards::gather(Context& ctx, Tensor& block) const {
  std::vector<ExchangePtr> under_way;
  for (const Bucket& bucket : buckets_)
    under_way.push_back(ctx.communicator().all_gather(ctx.backend(), floats(block) + bucket.begin, bucket.each));
  for (const ExchangePtr& exchange : under_way) exchange->wait();
}

void Shards::collect(Context& ctx, const Tensor& pieces, const std::function<void(std::int64_t, std::span<const float>)>& use) const {
  const std::int64_t processes = ctx.communicator().size();
  for (const Bucket& bucket : buckets_) {
    Tensor whole = Tensor::empty(ctx, {bucket.each * processes});
    Tensor mine = arena_.stretch(whole, bucket.each * rank_, bucket.each * (rank_ + 1));
    kernels(ctx).copy(ctx, arena_.stretch(pieces, bucket.local, bucket.local + bucket.each), mine);
    ctx.communicator().all_gather(ctx.backend(), floats(whole), bucket.each)->wait();
    if (ctx.communicator().first()) use(bucket.begin, whole.to_vector<float>());
  }
}

}  // namespace transformer
