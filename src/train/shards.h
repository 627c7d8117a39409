#pragma once
// The blocks of an arena, shared out among processes (ZeRO): each keeps the optimizer's state of its pieces alone, and updates those.
//
// A block is cut into buckets, and each bucket into one piece a process. The gradients of a bucket are summed (reduce-scatter) as soon as
// backward has finished them, while it goes on with others; updated weights are put together again (all-gather).

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "train/arena.h"
#include "transformer/core/communicator.h"

namespace transformer {

class Shards {
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

  // An update: finished() for each leaf whose gradient will not change any more, then reduce(), which does not return before gradients()
  // are the sums of all processes. The leaves that have a gradient in any process.
  void finished(Context& ctx, std::size_t leaf);
  std::vector<bool> reduce(Context& ctx);
  const Tensor& gradients() const { return gradients_; }
  void gather(Context& ctx, Tensor& block) const;  // every process's pieces of a block

  // The whole of what the processes have pieces of, bucket by bucket: use(begin, elements), on the first process alone.
  void collect(Context& ctx, const Tensor& pieces, const std::function<void(std::int64_t begin, std::span<const float>)>& use) const;

 private:
  struct Bucket {
    std::int64_t begin = 0, each = 0, local = 0;
    std::int64_t open = 0;  // leaves whose gradients are not finished
    std::int64_t leaves = 0;
  };
  void begin_ready(Context& ctx);
  void learn_order(Context& ctx);

  Arena& arena_;
  std::int64_t rank_;
  std::vector<Bucket> buckets_;
  std::vector<std::vector<std::size_t>> of_leaf_;  // the buckets that a leaf lies in
  std::vector<bool> done_;                         // leaves, of the update under way
  std::vector<std::size_t> order_, ended_;         // in which they are exchanged: that in which backward ends them, once it is known
  bool learned_ = false;
  std::size_t next_ = 0;
  std::vector<ExchangePtr> under_way_;
  std::int64_t size_ = 0;
  Tensor gradients_;
};

}  // namespace transformer
