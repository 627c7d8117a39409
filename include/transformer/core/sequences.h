#pragma once
// A ragged batch: packed tokens [total, d] and where each sequence begins. No padding is ever computed.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transformer/core/lazy.h"
#include "transformer/core/tensor.h"

namespace transformer {

class Sequences {
 public:
  Sequences() : Sequences(std::span<const std::int64_t>{}) {}
  explicit Sequences(std::span<const std::int64_t> lengths);  // one after the other; empty sequences are allowed
  static Sequences uniform(std::int64_t count, std::int64_t length);
  // For the keys of attention only. Sequence i is rows begins[i] … begins[i] + lengths[i] - 1 of `total`, rows between may
  // belong to none: the memory of those sentences that are still being translated.
  static Sequences with_gaps(std::vector<std::int64_t> begins, std::vector<std::int64_t> lengths, std::int64_t total);
  // For the keys of attention only. The tokens of all sequences, one after the other, are these rows of `total`, in any order
  // and also several times: hypotheses with a common beginning share it.
  static Sequences scattered(std::vector<std::int64_t> rows, std::vector<std::int64_t> lengths, std::int64_t total);

  // Scattered ones that change in place, so that work which was recorded with them (Backend::record) finds them as they are when it runs.
  // Each has room for `most` rows, and longest() is that many. `block`: as on() has it, int32 [3·count + count·most] on the device; its
  // owner writes it, and says the same to the host with set().
  static Sequences in_place(Tensor block, std::int64_t count, std::int64_t most, std::int64_t total);
  void set(std::int64_t i, std::span<const std::int64_t> rows);

  std::int64_t count() const { return static_cast<std::int64_t>(data_->lengths.size()); }
  std::int64_t total() const { return data_->total; }  // rows of the tensor: tokens of all sequences, and what is none's
  std::int64_t longest() const { return data_->longest; }
  std::int64_t begin(std::int64_t i) const { return data_->begins[static_cast<std::size_t>(i)]; }
  std::int64_t length(std::int64_t i) const { return data_->lengths[static_cast<std::size_t>(i)]; }
  bool packed() const { return data_->packed; }  // one after the other, without gaps
  std::span<const std::int64_t> rows() const {
    return {data_->rows.data(), data_->rows.size()};
  }  // scattered: of token begin(i) + j; else empty
  // For kernels, in the context's memory: int32 begins [count], lengths [count], the sequences from the longest to the shortest [count],
  // then the rows of those that are scattered, or the positions of those that are packed. Copied there at first use and shared by all
  // copies of these sequences.
  Tensor on(Context& ctx) const;
  Tensor positions(Context& ctx) const;  // of packed ones: int32 [total], the place of each token in its sequence, 0 1 2 … 0 1 2 …

 private:
  struct Data {
    std::vector<std::int64_t> begins, lengths, rows;
    std::int64_t total = 0, longest = 0;
    bool packed = true;
    Lazy<Tensor> device;
  };
  std::shared_ptr<Data> data_;  // shared by copies: changed by set() alone
};

}  // namespace transformer
