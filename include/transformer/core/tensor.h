#pragma once
// Tensor: a value that shares its storage. Row-major; the last dimension is dense, and rows (all other
// dimensions flattened) may be further apart than they are long, so that a column block of a matrix (Q of a
// fused QKV) is a view and needs no copy.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transformer/core/device.h"
#include "transformer/core/dtype.h"
#include "transformer/core/shape.h"

namespace transformer {

class Backend;
class Context;
struct Node;  // the tape's entry for a tensor, see autograd/autograd.h

struct Storage {
  std::shared_ptr<std::byte> data;
  std::int64_t bytes = 0;
  Device device;
  Backend* backend = nullptr;  // whose memory it is; null: the host's. `data` keeps it alive
  std::uint64_t version = 0;   // goes up with every write access, so that copies derived from it can tell they are old
  // Integers and single values that came from the host stay known there: ids, labels and masks need no wait. Of that version.
  std::shared_ptr<const std::vector<std::byte>> known = nullptr;
  std::uint64_t known_version = 0;
};

class Tensor {
 public:
  Tensor() = default;  // undefined: stands for "absent"

  // New tensors. `empty` leaves the values unset.
  static Tensor empty(Context& ctx, const Shape& shape, DType dtype = DType::float32);
  static Tensor zeros(Context& ctx, const Shape& shape, DType dtype = DType::float32);
  static Tensor full(Context& ctx, const Shape& shape, float value, DType dtype = DType::float32);
  static Tensor like(Context& ctx, const Tensor& x) { return empty(ctx, x.shape(), x.dtype()); }
  template <class T>
  static Tensor from(Context& ctx, const Shape& shape, std::span<const T> values) {
    Tensor t = empty(ctx, shape, dtype_of<T>);
    t.fill_from(values.data(), values.size() * sizeof(T));
    return t;
  }
  template <class T>
  static Tensor from(Context& ctx, const Shape& shape, const std::vector<T>& values) {
    return from(ctx, shape, std::span<const T>(values));
  }
  // All of a storage, as a vector.
  static Tensor of(std::shared_ptr<Storage> storage, DType dtype);
  // Wraps memory that someone else owns (a mapped file): `owner` keeps it alive.
  static Tensor wrap(std::shared_ptr<std::byte> owner, const Shape& shape, DType dtype, Device device = Device::cpu());

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  std::int64_t dim(int axis) const { return shape_[axis]; }
  int rank() const { return shape_.rank(); }
  std::int64_t numel() const { return shape_.numel(); }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_ ? storage_->device : Device::cpu(); }

  // As a matrix: all dimensions but the last flattened into rows.
  std::int64_t cols() const { return shape_.back(); }
  std::int64_t rows() const { return cols() == 0 ? 0 : numel() / cols(); }
  std::int64_t row_stride() const { return row_stride_; }  // elements from one row to the next
  bool is_contiguous() const { return row_stride_ == cols() || rows() <= 1; }

  // Typed access to the elements; Error when T is not the dtype, or when the host cannot reach the device's memory. Read with data,
  // write with mutable_data.
  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes_at(dtype_of<T>));
  }
  template <class T>
  T* mutable_data() {
    ++storage_->version;
    return reinterpret_cast<T*>(bytes_at(dtype_of<T>));
  }
  const std::byte* raw() const { return storage_ ? storage_->data.get() + offset_ * size_of(dtype_) : nullptr; }
  std::byte* mutable_raw() {
    ++storage_->version;
    return storage_->data.get() + offset_ * size_of(dtype_);
  }
  // Where the host cannot reach the memory, these wait for the device, but for integers and single values that came from the host.
  template <class T>
  std::vector<T> to_vector() const;  // copy of all elements, row after row
  float item() const;                // the one value of a one-element float32 tensor

  // On the context's device, or in the host's memory, there contiguous: the tensor itself when it is so. No gradient passes.
  Tensor to(Context& ctx) const;
  Tensor to_host() const;

  // Views: no copy, no gradient (ops/shape.h has the ones that pass gradients on).
  Tensor view(const Shape& shape) const;                              // same elements, other sizes; one size may be -1
  Tensor row_block(std::int64_t begin, std::int64_t count) const;     // along the first dimension
  Tensor column_block(std::int64_t begin, std::int64_t count) const;  // along the last dimension
  Tensor detach() const {
    Tensor t = *this;
    t.node_.reset();
    return t;
  }

  const std::shared_ptr<Storage>& storage() const { return storage_; }
  std::int64_t offset() const { return offset_; }  // of the first element, in elements
  bool same_memory(const Tensor& other) const { return raw() == other.raw() && shape_ == other.shape_; }

  // Gradients: a leaf made by require_grad() collects its gradient; see autograd/autograd.h.
  const std::shared_ptr<Node>& node() const { return node_; }
  void set_node(std::shared_ptr<Node> node) { node_ = std::move(node); }

 private:
  std::byte* bytes_at(DType asked) const;
  void fill_from(const void* values, std::size_t bytes);
  void copy_out(void* to) const;  // all elements, row after row
  std::shared_ptr<Storage> storage_;
  std::shared_ptr<Node> node_;
  std::int64_t offset_ = 0;
  std::int64_t row_stride_ = 1;
  Shape shape_;
  DType dtype_ = DType::float32;
};

}  // namespace transformer
