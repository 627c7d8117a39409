#pragma once
// The blocks of an arena, shared out among processes (ZeRO): each keeps the optimizer's state of its pieces alone, and updates those.
//
// A block is cut into buckets, and each bucket into one piece a process. The gradients of a bucket are summed (reduce-scatter) as soon as
// backward has finished them, while it goes on with others; updated weights are put together again (all-gather).
//
// A table of tokens that is also the output matrix, often the largest of all leaves, is finished by the last op of backward, though nearly
// all of its gradient is there when backward begins: lookups change the rows of a batch's tokens alone. It is exchanged when nothing but
// these is missing, and the rows that lookups of any process have changed since are exchanged again, whole, at the end: every sum is taken
// of the same numbers in the same order as if the table had been exchanged at the end.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "train/arena.h"
#include "transformer/core/communicator.h"

namespace transformer {

class Shards final : public GradientWatch {
 public:
  // Elements begin … begin + size of a block are `local` … of this process's pieces laid one after the other.
  struct Piece {
    std::int64_t begin = 0, size = 0, local = 0;
  };

  Shards(Context& ctx, Arena& arena);

  std::int64_t size() const { return size_; }  // elements of all pieces
  Tensor block(Context& ctx) const;            // zero, [size()]
  // This process's pieces within elements begin … end of a block.
  std::vector<Piece> pieces(std::int64_t begin, std::int64_t end) const;

  // An update: the last backward() tells what is finished, then reduce(), which does not return before gradients() are the sums of all
  // processes. The leaves that have a gradient in any process.
  void only_rows_left(Context& ctx, Node& leaf, const std::vector<Tensor>& ids) override;
  void before_rows(Context& ctx, Node& leaf) override;
  void finished(Context& ctx, Node& leaf) override;
  std::vector<bool> reduce(Context& ctx);
  const Tensor& gradients() const { return gradients_; }
  void gather(Context& ctx, Tensor& block) const;  // every process's pieces of a block

  // The whole of what the processes have pieces of, bucket by bucket: use(begin, elements), on the first process alone.
  void collect(Context& ctx, const Tensor& pieces, const std::function<void(std::int64_t begin, std::span<const float>)>& use) const;

 private:
  struct Bucket {
    std::int64_t begin = 0, each = 0, local = 0;
    std::int64_t open = 0;  // leaves that are
    std::int64_t leaves = 0;
    ExchangePtr under_way = nullptr;
  };
  struct Row {
    std::uint32_t leaf, row;
  };
  using Rows = std::vector<std::vector<bool>>;  // by leaf, those that are marked; empty: none
  // A leaf is closed when its gradient may be exchanged: it is finished, or lacks only rows that will be exchanged again.
  struct Closing {
    std::uint32_t leaf, rows_left;
  };
  void close(Context& ctx, const Closing& closing);
  void begin_ready(Context& ctx);
  void mark(Rows& rows, const Row& row) const;
  Rows rows_of_all(Context& ctx) const;
  void learn(Context& ctx, const Rows& rows);
  void exchange_rows(Context& ctx, const Rows& rows);

  Arena& arena_;
  std::int64_t rank_, size_ = 0;
  Tensor gradients_;  // is there as long as an exchange may be under way
  std::vector<Bucket> buckets_;
  std::vector<std::vector<std::size_t>> of_leaf_;  // the buckets that a leaf lies in
  std::vector<bool> closed_;                       // leaves, of the update under way
  Rows rows_;                                      // that lookups of this process change after their leaves were closed
  // Known after the first update, which exchanges everything at its end: the leaves that are closed before lookups add their rows, and the
  // order of the exchanges, that in which backward comes to the ends of the buckets.
  bool learned_ = false;
  std::vector<bool> early_;
  std::vector<std::size_t> order_;
  std::vector<Closing> closings_;  // of the first update
  std::size_t next_ = 0;           // in order_
};

}  // namespace transformer
