// Rows of a table by id, and the gradient: rows added back to the table.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/embedding.cpp"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/simd-inl.h"
#include "transformer/core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {
namespace {

void GatherRows(Context& ctx, std::span<const std::int64_t> ids, const Tensor& table, float scale, Tensor& y) {
  visit_float("embedding", table.dtype(), [&]<class From>() {
    visit_float("embedding", y.dtype(), [&]<class To>() {
      const std::int64_t cols = table.cols(), table_stride = table.row_stride(), y_stride = y.row_stride();
      const From* from = table.data<From>();
      To* to = y.mutable_data<To>();
      const auto n = static_cast<std::int64_t>(ids.size());
      parallel_for(ctx.threads(), n, 1 + 16384 / std::max<std::int64_t>(cols, 1), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
        const VF factor = hn::Set(DF(), scale);
        for (std::int64_t row = begin; row < end; ++row) {
          const From* HWY_RESTRICT x = from + ids[static_cast<std::size_t>(row)] * table_stride;
          To* HWY_RESTRICT out = to + row * y_stride;
          if (std::is_same_v<From, To> && scale == 1.0F) {
            std::memcpy(static_cast<void*>(out), x, static_cast<std::size_t>(cols) * sizeof(To));
            continue;
          }
          ForVectors(cols, [&](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
            StoreSome(whole, hn::Mul(LoadSome(whole, x + i, m), factor), out + i, m);
          });
        }
      });
    });
  });
}

// table[ids[i]] += scale · dy[i] for i in order. Each thread has its own columns of every row, so that no two meet
// at a repeated id and the order of the additions does not depend on the number of threads. Rows with the id `padding` are left out.
void ScatterRows(Context& ctx, std::span<const std::int64_t> ids, const Tensor& dy, float scale, std::int64_t padding, Tensor& table) {
  constexpr std::int64_t strip = 16;  // columns: a cache line of float32
  visit_float("embedding_backward", dy.dtype(), [&]<class T>() {
    const std::int64_t cols = table.cols(), table_stride = table.row_stride(), dy_stride = dy.row_stride();
    const T* from = dy.data<T>();
    float* to = table.mutable_data<float>();
    const auto n = static_cast<std::int64_t>(ids.size());
    const std::int64_t strips = (cols + strip - 1) / strip, grain = 1 + 16384 / std::max<std::int64_t>(n * strip, 1);
    parallel_for(ctx.threads(), strips, grain, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      const std::int64_t first = begin * strip, count = std::min(cols, end * strip) - first;
      const VF factor = hn::Set(DF(), scale);
      for (std::int64_t row = 0; row < n; ++row) {
        if (row + 2 < n) {  // the table is large and its rows come in no order: ask for them ahead
          const float* next = to + ids[static_cast<std::size_t>(row + 2)] * table_stride + first;
          for (std::int64_t i = 0; i < count; i += strip) hwy::Prefetch(next + i);
        }
        if (ids[static_cast<std::size_t>(row)] == padding) continue;
        const T* HWY_RESTRICT x = from + row * dy_stride + first;
        float* HWY_RESTRICT sum = to + ids[static_cast<std::size_t>(row)] * table_stride + first;
        ForVectors(count, [&](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
          StoreSome(whole, hn::MulAdd(LoadSome(whole, x + i, m), factor, LoadSome(whole, sum + i, m)), sum + i, m);
        });
      }
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {
HWY_EXPORT(GatherRows);
HWY_EXPORT(ScatterRows);

namespace {

std::vector<std::int64_t> checked_ids(const Tensor& ids, std::int64_t table_rows) {
  std::vector<std::int64_t> out;
  out.reserve(static_cast<std::size_t>(ids.numel()));
  visit_index("embedding", ids.dtype(), [&]<class T>() {
    const T* from = ids.data<T>();
    for (std::int64_t row = 0; row < ids.rows(); ++row)
      for (std::int64_t i = 0; i < ids.cols(); ++i) {
        const std::int64_t id = from[row * ids.row_stride() + i];
        if (id < 0 || id >= table_rows)
          fail("embedding", "id {} at position {} of {} is out of range: the table has {} rows", id, out.size(), ids.shape(), table_rows);
        out.push_back(id);
      }
  });
  return out;
}

}  // namespace

void CpuKernels::embedding(Context& ctx, const Tensor& ids, const Tensor& table, float scale, Tensor& y) {
  HWY_DYNAMIC_DISPATCH(GatherRows)(ctx, checked_ids(ids, table.dim(0)), table, scale, y);
}

// dtable is float32: sums over repeated ids need the precision.
void CpuKernels::embedding_backward(Context& ctx, const Tensor& ids, const Tensor& dy, float scale, std::int64_t padding, Tensor& dtable,
                                    bool accumulate) {
  const std::vector<std::int64_t> rows = checked_ids(ids, dtable.dim(0));
  if (!accumulate) fill(ctx, 0.0F, dtable);
  HWY_DYNAMIC_DISPATCH(ScatterRows)(ctx, rows, dy, scale, padding, dtable);
}

}  // namespace transformer
#endif
