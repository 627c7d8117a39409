#include "transformer/core/shape.h"

#include <algorithm>

namespace transformer {

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  if (dims.size() > max_rank) fail("Shape", "{} dimensions given, at most {} are supported", dims.size(), max_rank);
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

std::int64_t Shape::numel() const {
  std::int64_t n = 1;
  for (std::int64_t d : *this) n *= d;
  return n;
}

int Shape::index(int axis) const {
  const int i = axis < 0 ? axis + rank_ : axis;
  if (i < 0 || i >= rank_) fail("Shape", "axis {} is out of range for {}", axis, *this);
  return i;
}

Shape Shape::with_back(std::int64_t width) const {
  Shape s = *this;
  s[-1] = width;
  return s;
}

Shape Shape::broadcast(std::string_view where, const Shape& a, const Shape& b) {
  Shape out = a.rank_ >= b.rank_ ? a : b;
  const Shape& other = a.rank_ >= b.rank_ ? b : a;
  for (int i = 1; i <= other.rank_; ++i) {
    std::int64_t& size = out[-i];
    if (size == 1) size = other[-i];
    else if (other[-i] != 1 && other[-i] != size)
      fail(where, "shapes {} and {} do not broadcast: sizes {} and {} differ and neither is 1", a, b, a[-i], b[-i]);
  }
  return out;
}

bool Shape::broadcasts_to(const Shape& target) const {
  if (rank_ > target.rank_) return false;
  for (int i = 1; i <= rank_; ++i)
    if ((*this)[-i] != 1 && (*this)[-i] != target[-i]) return false;
  return true;
}

bool operator==(const Shape& a, const Shape& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

std::string Shape::str() const {
  std::string s = "[";
  for (int i = 0; i < rank_; ++i) s += (i != 0 ? ", " : "") + std::to_string(dims_[static_cast<std::size_t>(i)]);
  return s + "]";
}

}  // namespace transformer
