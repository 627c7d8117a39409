#include "transformer/ops/pack.h"

#include "backend/kernels.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/check.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

Packing from_flags(Context& ctx, std::int64_t batch, std::int64_t longest, auto&& is_token) {
  std::vector<std::int64_t> lengths, index;
  for (std::int64_t b = 0; b < batch; ++b) {
    std::int64_t n = 0;
    for (std::int64_t i = b * longest; i < (b + 1) * longest; ++i)
      if (is_token(i)) index.push_back(i), ++n;
    lengths.push_back(n);
  }
  const auto tokens = static_cast<std::int64_t>(index.size());
  return {Sequences(lengths), Tensor::from<std::int64_t>(ctx, {tokens}, index), batch, longest};
}

// x [tokens, d] put back to its places: [batch, longest, d], zero elsewhere. The kernel adds in float32.
Tensor scatter(Context& ctx, const Tensor& x, const Packing& p) {
  Tensor rows = Tensor::empty(ctx, {p.batch * p.longest, x.dim(1)});
  kernels(ctx).embedding_backward(ctx, p.index, x, 1.0F, -1, rows, false);
  Tensor y = rows.view({p.batch, p.longest, x.dim(1)});
  if (x.dtype() == DType::float32) return y;
  Tensor narrow = Tensor::empty(ctx, y.shape(), x.dtype());
  kernels(ctx).copy(ctx, y, narrow);
  return narrow;
}

// Is the padding behind the tokens, and one sequence without any? Then packed and padded places in a sequence are the same.
bool in_place(const Packing& p) {
  const std::vector<std::int64_t> index = p.index.to_vector<std::int64_t>();
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t i = 0; i < p.sequences.length(b); ++i)
      if (index[static_cast<std::size_t>(p.sequences.begin(b) + i)] != b * p.longest + i) return false;
  return p.sequences.longest() == p.longest;
}

}  // namespace

Packing packing(Context& ctx, const Tensor& mask) {
  check_operand(ctx, "packing", "mask", mask);
  if (mask.rank() != 2) fail("packing", "mask {} must be [batch, longest]", mask.shape());
  auto with = [&]<class T>() {
    const std::vector<T> flags = mask.to_vector<T>();
    return from_flags(ctx, mask.dim(0), mask.dim(1), [&](std::int64_t i) { return flags[static_cast<std::size_t>(i)] != 0; });
  };
  switch (mask.dtype()) {
    case DType::int64: return with.operator()<std::int64_t>();
    case DType::int32: return with.operator()<std::int32_t>();
    case DType::uint8: return with.operator()<std::uint8_t>();
    default: fail("packing", "mask {} is {}, expected int64, int32 or uint8", mask.shape(), mask.dtype());
  }
}

Packing packing(Context& ctx, std::int64_t batch, std::int64_t longest) {
  return from_flags(ctx, batch, longest, [](std::int64_t) { return true; });
}

Tensor pack(Context& ctx, const Tensor& x, const Packing& p) {
  check_operand(ctx, "pack", "x", x);
  if (x.rank() < 2 || x.rank() > 3 || x.dim(0) != p.batch || x.dim(1) != p.longest)
    fail("pack", "x {} does not fit: expected [{}, {}] or [{}, {}, d]", x.shape(), p.batch, p.longest, p.batch, p.longest);
  if (x.rank() == 2) {
    return visit_index("pack", x.dtype(), [&]<class T>() {
      std::vector<T> ids;
      const std::vector<T> padded = x.to_vector<T>();
      for (std::int64_t i : p.index.to_vector<std::int64_t>()) ids.push_back(padded[static_cast<std::size_t>(i)]);
      return Tensor::from<T>(ctx, {p.sequences.total()}, ids);
    });
  }
  check_float(ctx, "pack", "x", x);
  Tensor y = Tensor::empty(ctx, {p.sequences.total(), x.dim(2)}, x.dtype());
  kernels(ctx).embedding(ctx, p.index, x.view({p.batch * p.longest, x.dim(2)}), 1.0F, y);
  return record(ctx, y, {x}, [p](Context& ctx, const Tensor& dy, Slots& in) { in[0].add(ctx, scatter(ctx, dy, p)); });
}

Tensor unpack(Context& ctx, const Tensor& x, const Packing& p) {
  check_float(ctx, "unpack", "x", x);
  if (x.rank() != 2 || x.dim(0) != p.sequences.total())
    fail("unpack", "x {} does not fit: expected [{}, d]", x.shape(), p.sequences.total());
  return record(ctx, scatter(ctx, x, p), {x}, [p](Context& ctx, const Tensor& dy, Slots& in) {
    Tensor dx = Tensor::empty(ctx, {p.sequences.total(), dy.dim(2)}, dy.dtype());
    kernels(ctx).embedding(ctx, p.index, dy.view({p.batch * p.longest, dy.dim(2)}), 1.0F, dx);
    in[0].add(ctx, dx);
  });
}

Tensor unpack_weights(Context& ctx, const Tensor& weights, const Packing& queries, const Packing& keys) {
  check_float(ctx, "unpack_weights", "weights", weights);
  const std::int64_t batch = queries.batch, q = queries.sequences.longest(), k = keys.sequences.longest();
  if (weights.rank() != 4 || weights.dim(0) != batch || keys.batch != batch || weights.dim(2) != q || weights.dim(3) != k)
    fail("unpack_weights", "weights {} do not fit: expected [{}, heads, {}, {}]", weights.shape(), batch, q, k);
  if (in_place(queries) && in_place(keys)) return weights.detach();
  const std::int64_t heads = weights.dim(1);
  // First the rows of the queries, then, with queries and keys exchanged, those of the keys.
  auto place = [&](const Tensor& x, const Packing& p, std::int64_t other) {  // [batch · heads · packed, other]
    std::vector<std::int64_t> from, to;
    const std::vector<std::int64_t> index = p.index.to_vector<std::int64_t>();
    const std::int64_t packed = p.sequences.longest();
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t i = 0; i < p.sequences.length(b); ++i) {
          from.push_back((b * heads + h) * packed + i);
          to.push_back((b * heads + h) * p.longest + index[static_cast<std::size_t>(p.sequences.begin(b) + i)] - b * p.longest);
        }
    Tensor y = Tensor::zeros(ctx, {batch * heads * p.longest, other}, x.dtype());
    kernels(ctx).copy_rows(ctx, x.view({batch * heads * packed, other}), from, y, to);
    return y.view({batch, heads, p.longest, other});
  };
  const NoGradients no_gradients(ctx);
  const Tensor rows = place(contiguous(ctx, weights.detach()), queries, k);
  return transpose(ctx, place(transpose(ctx, rows, 2, 3), keys, queries.longest), 2, 3);
}

}  // namespace transformer
