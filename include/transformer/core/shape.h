#pragma once
// The sizes of a tensor, kept inline (no heap) for up to eight dimensions.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "transformer/core/error.h"

namespace transformer {

class Shape {
 public:
  static constexpr int max_rank = 8;

  Shape() = default;  // rank 0: one element
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  std::int64_t numel() const;                                             // product of the sizes; 1 for rank 0
  std::int64_t operator[](int axis) const { return dims_[index(axis)]; }  // negative counts from the end
  std::int64_t& operator[](int axis) { return dims_[index(axis)]; }
  std::int64_t back() const { return rank_ == 0 ? 1 : dims_[rank_ - 1]; }
  const std::int64_t* begin() const { return dims_.data(); }
  const std::int64_t* end() const { return dims_.data() + rank_; }

  // Axis in [0, rank), from one that may be negative; Error if out of range.
  int index(int axis) const;
  // The same sizes with the last one replaced: [tokens, d] → [tokens, width].
  Shape with_back(std::int64_t width) const;
  // The shape that both broadcast to (right-aligned, sizes equal or 1); Error names `where` otherwise.
  static Shape broadcast(std::string_view where, const Shape& a, const Shape& b);
  bool broadcasts_to(const Shape& target) const;

  friend bool operator==(const Shape& a, const Shape& b);
  std::string str() const;  // "[2, 16, 512]"

 private:
  std::array<std::int64_t, max_rank> dims_{};
  int rank_ = 0;
};

}  // namespace transformer

template <>
struct fmt::formatter<transformer::Shape> : transformer::detail::PlainFormatter {
  auto format(const transformer::Shape& s, fmt::format_context& ctx) const { return write(s.str(), ctx); }
};
