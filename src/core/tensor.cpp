#include "transformer/core/tensor.h"

#include <cstring>

#include "transformer/core/context.h"

namespace transformer {

Tensor Tensor::empty(Context& ctx, const Shape& shape, DType dtype) {
  std::int64_t bytes = size_of(dtype);
  bool empty = false;
  for (std::int64_t d : shape) {
    if (d < 0) fail("Tensor", "shape {} has a negative size", shape);
    empty |= d == 0;
    if (d > 0 && __builtin_mul_overflow(bytes, d, &bytes)) fail("Tensor", "shape {} is larger than memory can be", shape);
  }
  if (empty) bytes = 0;
  Tensor t;
  std::shared_ptr<std::byte> data = ctx.allocator().allocate(static_cast<std::size_t>(bytes));
  Backend* backend = data ? &ctx.backend() : nullptr;  // nothing would keep it alive
  t.storage_ = std::make_shared<Storage>(Storage{std::move(data), bytes, ctx.device(), backend});
  t.shape_ = shape;
  t.row_stride_ = shape.back();
  t.dtype_ = dtype;
  return t;
}

Tensor Tensor::of(std::shared_ptr<Storage> storage, DType dtype) {
  Tensor t;
  t.shape_ = {storage->bytes / size_of(dtype)};
  t.row_stride_ = t.shape_.back();
  t.dtype_ = dtype;
  t.storage_ = std::move(storage);
  return t;
}

Tensor Tensor::wrap(std::shared_ptr<std::byte> owner, const Shape& shape, DType dtype, Device device) {
  return of(std::make_shared<Storage>(Storage{std::move(owner), shape.numel() * size_of(dtype), device}), dtype).view(shape);
}

void Tensor::fill_from(const void* values, std::size_t bytes) {
  if (static_cast<std::int64_t>(bytes) != storage_->bytes)
    fail("Tensor", "{} bytes of values given for {} {}: expected {}", bytes, shape_, dtype_, storage_->bytes);
  if (bytes == 0) return;
  if (storage_->backend == nullptr) {
    std::memcpy(mutable_raw(), values, bytes);
    return;
  }
  storage_->backend->to_device(values, mutable_raw(), bytes);
  if ((is_float(dtype_) && numel() != 1) || storage_->backend->host_access()) return;
  const auto* from = static_cast<const std::byte*>(values);
  storage_->known = std::make_shared<const std::vector<std::byte>>(from, from + bytes);
  storage_->known_version = storage_->version;
}

std::byte* Tensor::bytes_at(DType asked) const {
  if (!defined()) fail("Tensor", "data of an undefined tensor asked for");
  if (asked != dtype_) fail("Tensor", "data asked for as {}, but the tensor {} holds {}", asked, shape_, dtype_);
  if (storage_->backend != nullptr && !storage_->backend->host_access())
    fail("Tensor", "the tensor {} is on {}, whose memory the host cannot reach: copy it with to_vector() or to_host()", shape_, device());
  if (!storage_->data && numel() > 0)
    fail("Tensor", "the tensor {} is a weight of which this process keeps a piece: it is there while its layer computes only", shape_);
  return storage_->data ? storage_->data.get() + offset_ * size_of(dtype_) : nullptr;
}

void Tensor::copy_out(void* to) const {
  if (numel() == 0) return;
  const auto size = static_cast<std::size_t>(size_of(dtype_)), row = static_cast<std::size_t>(cols()) * size;
  const auto stride = static_cast<std::size_t>(row_stride_) * size, count = static_cast<std::size_t>(rows());
  bool far = storage_->backend != nullptr && !storage_->backend->host_access();
  const std::byte* from = raw();
  if (far && storage_->known && storage_->known_version == storage_->version)
    far = false, from = storage_->known->data() + offset_ * size_of(dtype_);
  if (is_contiguous()) {
    if (far) storage_->backend->to_host(from, to, count * row);
    else std::memcpy(to, from, count * row);
    return;
  }
  std::vector<std::byte> near;  // the rows with what lies between them: one copy instead of many
  if (far) {
    near.resize((count - 1) * stride + row);
    storage_->backend->to_host(from, near.data(), near.size());
    from = near.data();
  }
  for (std::size_t r = 0; r < count; ++r) std::memcpy(static_cast<std::byte*>(to) + r * row, from + r * stride, row);
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  if (!defined()) fail("Tensor", "data of an undefined tensor asked for");
  if (dtype_of<T> != dtype_) fail("Tensor", "data asked for as {}, but the tensor {} holds {}", dtype_of<T>, shape_, dtype_);
  std::vector<T> out(static_cast<std::size_t>(numel()));
  copy_out(out.data());
  return out;
}
template std::vector<float> Tensor::to_vector() const;
template std::vector<bfloat16> Tensor::to_vector() const;
template std::vector<float16> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;
template std::vector<std::uint8_t> Tensor::to_vector() const;
template std::vector<std::int8_t> Tensor::to_vector() const;

float Tensor::item() const {
  if (!defined() || numel() != 1) fail("Tensor", "item() needs exactly one element, got shape {}", shape_);
  return to_vector<float>().front();
}

Tensor Tensor::to(Context& ctx) const {
  if (!defined() || device() == ctx.device()) return detach();
  const Tensor here = to_host();
  if (here.device() == ctx.device()) return here;
  Tensor there = empty(ctx, shape_, dtype_);
  there.fill_from(here.raw(), static_cast<std::size_t>(numel() * size_of(dtype_)));
  return there;
}

Tensor Tensor::to_host() const {
  const bool near = storage_ == nullptr || storage_->backend == nullptr || storage_->backend->host_access();
  if (near && (!defined() || is_contiguous())) return detach();
  const auto bytes = static_cast<std::size_t>(numel() * size_of(dtype_));
  const std::shared_ptr<std::byte[]> memory = std::make_shared_for_overwrite<std::byte[]>(bytes);
  copy_out(memory.get());
  return wrap(std::shared_ptr<std::byte>(memory, memory.get()), shape_, dtype_);
}

Tensor Tensor::view(const Shape& shape) const {
  Shape to = shape;
  std::int64_t known = 1;
  int open = -1;
  for (int i = 0; i < to.rank(); ++i) {
    if (to[i] == -1 && open < 0) open = i;
    else if (to[i] < 0) fail("view", "{} has a negative size: only one may be -1, for what is left", shape);
    else known *= to[i];
  }
  if (open >= 0) to[open] = known == 0 ? 0 : numel() / known;
  if (to.numel() != numel()) fail("view", "{} does not hold as many elements as {}", shape, shape_);
  Tensor t = detach();
  t.shape_ = to;
  if (is_contiguous()) t.row_stride_ = to.back();
  else if (to.back() != cols()) fail("view", "a column block {} keeps its last size, {} changes it; copy it first", shape_, shape);
  return t;
}

Tensor Tensor::row_block(std::int64_t begin, std::int64_t count) const {
  if (rank() == 0 || begin < 0 || count < 0 || begin + count > shape_[0])
    fail("row_block", "rows {}…{} asked of {}", begin, begin + count, shape_);
  Tensor t = detach();
  t.shape_[0] = count;
  const std::int64_t step = rank() == 1 ? 1 : (shape_[0] == 0 ? 0 : rows() / shape_[0] * row_stride_);
  t.offset_ += begin * step;
  if (rank() == 1) t.row_stride_ = count;
  return t;
}

Tensor Tensor::column_block(std::int64_t begin, std::int64_t count) const {
  if (rank() == 0 || begin < 0 || count < 0 || begin + count > cols())
    fail("column_block", "columns {}…{} asked of {}", begin, begin + count, shape_);
  Tensor t = detach();
  t.shape_[-1] = count;
  t.offset_ += begin;
  return t;
}

}  // namespace transformer
