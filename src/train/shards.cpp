#include "train/shards.h"

#include <algorithm>
#include <cstring>
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

// A block as lines of as many elements as everything in it is aligned to: leaves and pieces begin with one.
constexpr std::int64_t line = BlockLayout::alignment;
Tensor lines_of(const Tensor& block) { return block.view({block.numel() / line, line}); }

std::vector<std::int64_t> ids_of(const Tensor& t) {
  if (t.dtype() == DType::int64) return t.to_vector<std::int64_t>();
  const std::vector<std::int32_t> ids = t.to_vector<std::int32_t>();
  return {ids.begin(), ids.end()};
}

}  // namespace

Shards::Shards(Context& ctx, Arena& arena) : arena_(arena), rank_(ctx.communicator().rank()) {
  const std::int64_t processes = ctx.communicator().size(), unit = Arena::alignment * processes;
  const std::int64_t each = bucket_size(arena.size(), unit) / processes;
  for (std::int64_t begin = 0; begin < arena.size(); begin += each * processes) {
    const std::int64_t share = std::min(each, (arena.size() - begin) / processes);
    buckets_.push_back({.begin = begin, .each = share, .local = size_});
    size_ += share;
  }
  of_leaf_.resize(arena.leaves().size());
  closed_.resize(of_leaf_.size(), false), early_.resize(of_leaf_.size(), false), rows_.resize(of_leaf_.size());
  for (std::size_t i = 0; i < of_leaf_.size(); ++i) {
    const auto [begin, end] = arena.place(i);
    if (begin == end) continue;
    for (std::int64_t b = begin / (each * processes); b <= (end - 1) / (each * processes); ++b) {
      of_leaf_[i].push_back(static_cast<std::size_t>(b));
      ++buckets_[static_cast<std::size_t>(b)].leaves;
    }
  }
  for (Bucket& bucket : buckets_) bucket.open = bucket.leaves;
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

void Shards::only_rows_left(Context& ctx, Node& node, const std::vector<Tensor>& ids) {
  const std::size_t* leaf = arena_.find(node);
  if (leaf == nullptr || !node.grad.defined() || (learned_ && !early_[*leaf])) return;
  for (const Tensor& some : ids)
    for (const std::int64_t id : ids_of(some)) mark(rows_, {static_cast<std::uint32_t>(*leaf), static_cast<std::uint32_t>(id)});
  close(ctx, {static_cast<std::uint32_t>(*leaf), 1});
}

// What is exchanged is read until it is there.
void Shards::before_rows(Context&, Node& node) {
  if (const std::size_t* leaf = arena_.find(node))
    for (const std::size_t b : of_leaf_[*leaf])
      if (ExchangePtr& exchange = buckets_[b].under_way) exchange->wait(), exchange = nullptr;
}

void Shards::finished(Context& ctx, Node& node) {
  if (const std::size_t* leaf = arena_.find(node)) close(ctx, {static_cast<std::uint32_t>(*leaf), 0});
}

void Shards::close(Context& ctx, const Closing& closing) {
  if (!learned_) closings_.push_back(closing);
  const std::size_t leaf = closing.leaf;
  if (closed_[leaf]) return;
  closed_[leaf] = true;
  if (gradient(arena_.leaves()[leaf]).defined()) {
    arena_.bring_home(ctx, leaf);
  } else {  // another process may have one
    Tensor nothing = arena_.part(arena_.gradients(), leaf);
    kernels(ctx).fill(ctx, 0.0F, nothing);
  }
  for (const std::size_t b : of_leaf_[leaf]) --buckets_[b].open;
  if (learned_) begin_ready(ctx);
}

// In the same order in every process, whatever it has to compute.
void Shards::begin_ready(Context& ctx) {
  for (; next_ < order_.size() && buckets_[order_[next_]].open == 0; ++next_) {
    Bucket& bucket = buckets_[order_[next_]];
    Tensor all = arena_.stretch(arena_.gradients(), bucket.begin, bucket.begin + bucket.each * ctx.communicator().size());
    Tensor mine = arena_.stretch(gradients_, bucket.local, bucket.local + bucket.each);
    bucket.under_way = ctx.communicator().reduce_scatter(ctx.backend(), floats(all), floats(mine), bucket.each);
  }
}

void Shards::mark(Rows& rows, const Row& row) const {
  rows[row.leaf].resize(static_cast<std::size_t>(arena_.leaves()[row.leaf].dim(0)), false);
  rows[row.leaf][row.row] = true;
}

Shards::Rows Shards::rows_of_all(Context& ctx) const {
  std::vector<Row> mine;
  for (std::uint32_t leaf = 0; leaf < rows_.size(); ++leaf)
    for (std::uint32_t row = 0; row < rows_[leaf].size(); ++row)
      if (rows_[leaf][row]) mine.push_back({leaf, row});
  Rows out(rows_.size());
  for (const std::string& some :
       ctx.communicator().all_gather(std::string(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(Row)))) {
    std::vector<Row> rows(some.size() / sizeof(Row));
    std::memcpy(rows.data(), some.data(), some.size());
    for (const Row& row : rows) mark(out, row);
  }
  return out;
}

// Every process computes the same ops: the order in which the first one came to the ends of its buckets will be that of all. To exchange
// most rows of a table twice would not pay.
void Shards::learn(Context& ctx, const Rows& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    early_[i] = !rows[i].empty() && 2 * std::count(rows[i].begin(), rows[i].end(), true) <= std::ssize(rows[i]);
  std::uint64_t count = closings_.size();
  ctx.communicator().broadcast(&count, sizeof count, 0);
  closings_.resize(count);
  ctx.communicator().broadcast(closings_.data(), count * sizeof(Closing), 0);
  std::vector<std::int64_t> open;
  for (const Bucket& bucket : buckets_) open.push_back(bucket.leaves);
  std::vector<bool> closed(of_leaf_.size(), false);
  for (const Closing& c : closings_) {
    if (closed[c.leaf] || (c.rows_left != 0 && !early_[c.leaf])) continue;
    closed[c.leaf] = true;
    for (const std::size_t b : of_leaf_[c.leaf])
      if (--open[b] == 0) order_.push_back(b);
  }
  closings_.clear();
  learned_ = true;
}

// The lines that these rows lie in, those of one process's pieces after those of another's, from the block and into the pieces.
void Shards::exchange_rows(Context& ctx, const Rows& rows) {
  std::vector<std::int64_t> lines;
  for (std::size_t leaf = 0; leaf < rows.size(); ++leaf) {
    const std::int64_t first = arena_.place(leaf).first, cols = arena_.leaves()[leaf].cols();
    for (std::size_t row = 0; row < rows[leaf].size(); ++row)
      if (const std::int64_t begin = first + static_cast<std::int64_t>(row) * cols; rows[leaf][row])
        for (std::int64_t i = begin / line; i * line < begin + cols; ++i) lines.push_back(i);
  }
  if (lines.empty()) return;
  std::sort(lines.begin(), lines.end());  // neighbouring rows may have one in common
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());

  const auto processes = static_cast<std::size_t>(ctx.communicator().size());
  std::vector<std::vector<std::int64_t>> by_process(processes);
  std::vector<std::int64_t> own;  // where this process's are in its pieces
  auto bucket = buckets_.begin();
  for (const std::int64_t i : lines) {
    while (i * line >= bucket->begin + bucket->each * static_cast<std::int64_t>(processes)) ++bucket;
    const std::int64_t at = i * line - bucket->begin, process = at / bucket->each;
    by_process[static_cast<std::size_t>(process)].push_back(i);
    if (process == rank_) own.push_back((bucket->local + at % bucket->each) / line);
  }
  std::size_t most = 0;
  for (const auto& some : by_process) most = std::max(most, some.size());
  std::vector<std::int64_t> from, to(most * processes);
  for (auto& some : by_process) {
    some.resize(most, 0);  // any will do
    from.insert(from.end(), some.begin(), some.end());
  }
  std::iota(to.begin(), to.end(), 0);
  const auto each = static_cast<std::int64_t>(most);
  Tensor all = Tensor::empty(ctx, {std::ssize(to), line}), mine = Tensor::empty(ctx, {each, line}), pieces = lines_of(gradients_);
  kernels(ctx).copy_rows(ctx, lines_of(arena_.gradients()), from, all, to);
  ctx.communicator().reduce_scatter(ctx.backend(), floats(all), floats(mine), each * line)->wait();
  to.resize(own.size());
  kernels(ctx).copy_rows(ctx, mine, to, pieces, own);
}

std::vector<bool> Shards::reduce(Context& ctx) {
  const std::size_t leaves = of_leaf_.size();
  std::vector<std::uint8_t> mine(leaves), all(leaves * static_cast<std::size_t>(ctx.communicator().size()));
  for (std::uint32_t i = 0; i < leaves; ++i) {
    mine[i] = gradient(arena_.leaves()[i]).defined() ? 1 : 0;
    close(ctx, {i, 0});
  }
  ctx.communicator().all_gather(mine.data(), mine.size(), all.data());
  const Rows rows = rows_of_all(ctx);
  const bool again = learned_;  // otherwise all leaves are finished before anything is exchanged
  if (!learned_) learn(ctx, rows);
  begin_ready(ctx);
  for (Bucket& bucket : buckets_) {
    if (bucket.under_way) bucket.under_way->wait(), bucket.under_way = nullptr;
    bucket.open = bucket.leaves;
  }
  if (again) exchange_rows(ctx, rows);
  next_ = 0;
  closed_.assign(leaves, false);
  rows_.assign(leaves, {});
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
