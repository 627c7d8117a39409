#pragma once
// A ragged batch: packed tokens [total, d] and where each sequence begins. No padding is ever computed.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace transformer {

class Sequences {
 public:
  Sequences() : Sequences(std::span<const std::int64_t>{}) {}
  explicit Sequences(std::span<const std::int64_t> lengths);  // empty sequences are allowed
  static Sequences uniform(std::int64_t count, std::int64_t length);

  std::int64_t count() const { return static_cast<std::int64_t>(data_->offsets.size()) - 1; }
  std::int64_t total() const { return data_->offsets.back(); }  // tokens of all sequences
  std::int64_t longest() const { return data_->longest; }
  std::int64_t begin(std::int64_t i) const { return data_->offsets[static_cast<std::size_t>(i)]; }
  std::int64_t length(std::int64_t i) const { return begin(i + 1) - begin(i); }
  std::span<const std::int64_t> offsets() const { return data_->offsets; }  // count + 1 values

 private:
  struct Data {
    std::vector<std::int64_t> offsets;
    std::int64_t longest = 0;
  };
  std::shared_ptr<const Data> data_;
};

}  // namespace transformer
