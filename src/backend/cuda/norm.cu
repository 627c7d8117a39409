// Norms over the last dimension, alone or of x + dropout(sub). rms_norm is layer_norm whose mean is taken as 0:
//   y = (x - mean)·rstd·weight + bias,   rstd = 1/√(mean((x - mean)²) + eps)
// A team of threads holds a row in registers, eight elements a thread and turn.
#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/early.cuh"
#include "backend/cuda/random.cuh"

namespace transformer {
namespace {

// Which elements of a row are a thread's in turn `turn`: eight in a row, or, where dropout must be drawn, pairs of a group of 64
// (see dropout_pairs).
template <int team, bool pairs>
struct Turn {
  int column;
  __device__ Turn(int turn, int thread)
      : column(pairs ? (turn * (team / 8) + thread / 8) * 64 + thread % 8 * 2 : (turn * team + thread) * 8) {}
  __device__ bool in(int cols) const { return column < cols; }
  // As they lie in memory, so that many can be on their way at a time.
  template <class T>
  __device__ Pack<T, 8> fetch(const T* row) const {
    if constexpr (pairs) {
      Pack<T, 8> all;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const auto two = *reinterpret_cast<const Pack<T, 2>*>(row + column + 16 * i);
        all.values[2 * i] = two.values[0], all.values[2 * i + 1] = two.values[1];
      }
      return all;
    } else {
      return *reinterpret_cast<const Pack<T, 8>*>(row + column);
    }
  }
  template <class T>
  __device__ void get(const T* row, float (&v)[8]) const {
    unpack(fetch(row), v);
  }
  template <class T>
  __device__ void put(const float (&v)[8], T* row) const {
    if constexpr (pairs) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float two[2] = {v[2 * i], v[2 * i + 1]};
        store(two, row + column + 16 * i);
      }
    } else {
      store(v, row + column);
    }
  }
};

template <int team>
__device__ float over_team(float x) {
  if constexpr (team == 32) return over_warp<Sum>(x);
  else return over_block<Sum>(x);
}

constexpr std::int64_t few_norms = 16;  // rows that leave most of the card idle: they get more threads each, and wait for little

template <class T>
struct NormRows {
  Rows<const T> x, sub;
  Rows<T> sum, y;
  const float *weight, *bias;
  float *mean, *rstd;
  std::int64_t rows;
  int cols;
  bool rms;
  float eps;
  Dropout dropout;
};

template <class T, int team, int turns, bool pairs>
__global__ void norm_forward(const NormRows<T> a) {
  if (a.rows <= few_norms && threadIdx.x < 32) {
    const std::int64_t bytes = std::int64_t{a.cols} * std::int64_t{sizeof(float)};
    if (a.weight != nullptr) fetch_ahead(a.weight, bytes);
    if (a.bias != nullptr) fetch_ahead(a.bias, bytes);
  }
  wait_for_last();
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= a.rows) return;  // whole warps; a larger team is a block of its own
  const int thread = static_cast<int>(threadIdx.x);
  float v[turns][8];
  float total = 0.0F;
#pragma unroll
  for (int t = 0; t < turns; ++t) {
    const Turn<team, pairs> turn(t, thread);
    if (!turn.in(a.cols)) {
#pragma unroll
      for (int i = 0; i < 8; ++i) v[t][i] = 0.0F;
      continue;
    }
    turn.get(a.x.at(row, 0), v[t]);
    if (a.sub) {
      float s[8];
      turn.get(a.sub.at(row, 0), s);
      if constexpr (pairs) {
        const std::int64_t first = row * a.cols + turn.column;
        int at = 0;
        dropout_pairs(a.dropout, static_cast<std::uint64_t>(first / 64), static_cast<unsigned>(thread % 8),
                      [&](unsigned, float keep, float keep_next) { s[at] *= keep, s[at + 1] *= keep_next, at += 2; });
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) v[t][i] = to_float(from_float<T>(v[t][i] + s[i]));  // as stored: backward will see the same
      turn.put(v[t], a.sum.at(row, 0));
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) total += v[t][i];
  }
  let_next_begin();
  if (!a.y) return;
  const float count = static_cast<float>(a.cols);
  const float mean = a.rms ? 0.0F : over_team<team>(total) / count;
  float squares = 0.0F;
#pragma unroll
  for (int t = 0; t < turns; ++t)
    if (Turn<team, pairs>(t, thread).in(a.cols)) {
#pragma unroll
      for (int i = 0; i < 8; ++i) squares += (v[t][i] - mean) * (v[t][i] - mean);
    }
  const float rstd = 1.0F / sqrtf(over_team<team>(squares) / count + a.eps);
#pragma unroll
  for (int t = 0; t < turns; ++t) {
    const Turn<team, pairs> turn(t, thread);
    if (!turn.in(a.cols)) continue;
    float w[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) v[t][i] = (v[t][i] - mean) * rstd;
    if (a.weight != nullptr) {
      turn.get(a.weight, w);
#pragma unroll
      for (int i = 0; i < 8; ++i) v[t][i] *= w[i];
    }
    if (a.bias != nullptr) {
      turn.get(a.bias, w);
#pragma unroll
      for (int i = 0; i < 8; ++i) v[t][i] += w[i];
    }
    turn.put(v[t], a.y.at(row, 0));
  }
  if (thread == 0) {
    if (a.mean != nullptr) a.mean[row] = mean;
    if (a.rstd != nullptr) a.rstd[row] = rstd;
  }
}

// Any number of columns at any address: a block for each row, which reads it from memory again.
template <class T>
__global__ void norm_forward_any(const NormRows<T> a) {
  const std::int64_t row = blockIdx.x;
  const T* in = a.x.at(row, 0);
  if (a.sub) {
    T* out = a.sum.at(row, 0);
    for (int i = static_cast<int>(threadIdx.x); i < a.cols; i += static_cast<int>(blockDim.x)) {
      const float keep = a.dropout.threshold == 0
          ? 1.0F
          : a.dropout.factor(random_bits(a.dropout.address(), static_cast<std::uint64_t>(row * a.cols + i)));
      out[i] = from_float<T>(to_float(in[i]) + to_float(*a.sub.at(row, i)) * keep);
    }
    in = out;  // each thread reads what it wrote
  }
  if (!a.y) return;
  float total = 0.0F, squares = 0.0F;
  const float count = static_cast<float>(a.cols);
  for (int i = static_cast<int>(threadIdx.x); i < a.cols; i += static_cast<int>(blockDim.x)) total += to_float(in[i]);
  const float mean = a.rms ? 0.0F : over_block<Sum>(total) / count;
  for (int i = static_cast<int>(threadIdx.x); i < a.cols; i += static_cast<int>(blockDim.x))
    squares += (to_float(in[i]) - mean) * (to_float(in[i]) - mean);
  const float rstd = 1.0F / sqrtf(over_block<Sum>(squares) / count + a.eps);
  for (int i = static_cast<int>(threadIdx.x); i < a.cols; i += static_cast<int>(blockDim.x)) {
    const float v = (to_float(in[i]) - mean) * rstd;
    *a.y.at(row, i) = from_float<T>(v * (a.weight != nullptr ? a.weight[i] : 1.0F) + (a.bias != nullptr ? a.bias[i] : 0.0F));
  }
  if (threadIdx.x == 0) {
    if (a.mean != nullptr) a.mean[row] = mean;
    if (a.rstd != nullptr) a.rstd[row] = rstd;
  }
}

template <class T>
struct NormBackwardRows {
  Rows<const T> x, dy;
  Rows<T> dx, dsub;  // dsub = dropout(dx), if wanted
  Dropout dropout;
  const float *weight, *mean, *rstd;
  std::int64_t rows;
  int cols;
  bool rms, accumulate;
  float* parts;  // [blocks, 2, cols]: dweight and dbias; null: not wanted
};

constexpr unsigned backward_teams(int team) { return team >= 128 ? 1 : 256 / static_cast<unsigned>(team); }

// dx = rstd·(g - mean(g) - xhat·mean(g·xhat)), g = dy·weight; rms_norm, whose mean is fixed, has no mean(g).
// The bound: of a block of 512 threads no thread may have more than 128 registers, or it does not start.
template <class T, int team, int turns, bool pairs>
__global__ void __launch_bounds__(backward_teams(team) * team, 1) norm_backward_rows(const NormBackwardRows<T> a) {
  SHARED_OF_LAUNCH(shared, float);  // [teams, 2, cols]
  const int thread = static_cast<int>(threadIdx.x);
  float by_weight[turns][8] = {}, by_bias[turns][8] = {};
  const float count = static_cast<float>(a.cols);
  for (std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; row < a.rows; row += std::int64_t{gridDim.x} * blockDim.y) {
    const float mean = a.rms ? 0.0F : a.mean[row], rstd = a.rstd[row];
    float v[turns][8], g[turns][8];
    Pack<T, 8> xs[turns], dys[turns], before[turns];
#pragma unroll
    for (int t = 0; t < turns; ++t) {
      const Turn<team, pairs> turn(t, thread);
      if (!turn.in(a.cols)) continue;
      xs[t] = turn.fetch(a.x.at(row, 0)), dys[t] = turn.fetch(a.dy.at(row, 0));
      if (a.accumulate) before[t] = turn.fetch(static_cast<const T*>(a.dx.at(row, 0)));
    }
    float sum_g = 0.0F, sum_gx = 0.0F;
#pragma unroll
    for (int t = 0; t < turns; ++t) {
      const Turn<team, pairs> turn(t, thread);
      if (!turn.in(a.cols)) continue;
      unpack(xs[t], v[t]), unpack(dys[t], g[t]);
      float w[8];
      if (a.weight != nullptr) turn.get(a.weight, w);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        v[t][i] = (v[t][i] - mean) * rstd;
        by_weight[t][i] += g[t][i] * v[t][i];
        by_bias[t][i] += g[t][i];
        if (a.weight != nullptr) g[t][i] *= w[i];
        sum_g += g[t][i];
        sum_gx += g[t][i] * v[t][i];
      }
    }
    if (!a.dx) continue;
    const float mean_g = a.rms ? 0.0F : over_team<team>(sum_g) / count, mean_gx = over_team<team>(sum_gx) / count;
#pragma unroll
    for (int t = 0; t < turns; ++t) {
      const Turn<team, pairs> turn(t, thread);
      if (!turn.in(a.cols)) continue;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        g[t][i] = rstd * (g[t][i] - mean_g - v[t][i] * mean_gx);
        if (a.accumulate) g[t][i] += to_float(before[t].values[i]);
      }
      turn.put(g[t], a.dx.at(row, 0));
      if constexpr (pairs) {
        const std::int64_t first = row * a.cols + turn.column;
        int at = 0;
        dropout_pairs(a.dropout, static_cast<std::uint64_t>(first / 64), static_cast<unsigned>(thread % 8),
                      [&](unsigned, float keep, float keep_next) {
          g[t][at] = to_float(from_float<T>(g[t][at])) * keep;
          g[t][at + 1] = to_float(from_float<T>(g[t][at + 1])) * keep_next;
          at += 2;
        });
        turn.put(g[t], a.dsub.at(row, 0));
      }
    }
  }
  if (a.parts == nullptr) return;
  float* mine = shared + static_cast<int>(threadIdx.y) * 2 * a.cols;
#pragma unroll
  for (int t = 0; t < turns; ++t) {
    const Turn<team, pairs> turn(t, thread);
    if (!turn.in(a.cols)) continue;
    turn.put(by_weight[t], mine);
    turn.put(by_bias[t], mine + a.cols);
  }
  __syncthreads();
  const int all = static_cast<int>(blockDim.x * blockDim.y);
  for (int i = static_cast<int>(threadIdx.y * blockDim.x) + thread; i < 2 * a.cols; i += all) {
    float sum = shared[i];
    for (unsigned other = 1; other < blockDim.y; ++other) sum += shared[static_cast<int>(other) * 2 * a.cols + i];
    a.parts[std::int64_t{blockIdx.x} * 2 * a.cols + i] = sum;
  }
}

template <class T>
__global__ void norm_backward_any(const NormBackwardRows<T> a) {
  const std::int64_t row = blockIdx.x;
  const float mean = a.rms ? 0.0F : a.mean[row], rstd = a.rstd[row], count = static_cast<float>(a.cols);
  float sum_g = 0.0F, sum_gx = 0.0F;
  const auto normed = [&](int i) { return (to_float(*a.x.at(row, i)) - mean) * rstd; };
  const auto weighted = [&](int i) { return to_float(*a.dy.at(row, i)) * (a.weight != nullptr ? a.weight[i] : 1.0F); };
  for (int i = static_cast<int>(threadIdx.x); i < a.cols; i += static_cast<int>(blockDim.x))
    sum_g += weighted(i), sum_gx += weighted(i) * normed(i);
  const float mean_g = a.rms ? 0.0F : over_block<Sum>(sum_g) / count, mean_gx = over_block<Sum>(sum_gx) / count;
  for (int i = static_cast<int>(threadIdx.x); i < a.cols; i += static_cast<int>(blockDim.x)) {
    const float v = rstd * (weighted(i) - mean_g - normed(i) * mean_gx);
    T* to = a.dx.at(row, i);
    *to = from_float<T>(a.accumulate ? v + to_float(*to) : v);
  }
}

// dy·xhat, with a mean and an rstd for each row.
template <class T>
struct TimesNormedRow {
  NormBackwardRows<T> a;
  template <int N>
  __device__ void get(std::int64_t row, std::int64_t column, float (&v)[N]) const {
    const float mean = a.rms ? 0.0F : a.mean[row], rstd = a.rstd[row];
    float g[N];
    load(a.x.at(row, column), v);
    load(a.dy.at(row, column), g);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = (v[i] - mean) * rstd * g[i];
  }
};

constexpr std::int64_t most_cols = 16384;  // of a row that a team holds
// And of one that it holds backward, with the sums for its weight and bias.
std::int64_t most_cols_backward(Context& ctx) {
  constexpr std::int64_t beside = 1 << 10, sums = 2 * sizeof(float);
  return std::min(most_cols, (static_cast<std::int64_t>(cuda(ctx).most_shared_memory()) - beside) / sums);
}

// Calls f(team, turns) with the smallest team that holds a row, for few rows a larger one; false: none does.
template <class F>
bool with_team(std::int64_t rows, std::int64_t cols, F&& f) {
  const auto call = [&]<int team>() {
    const std::int64_t turns = blocks_of(cols, team * 8);
    constexpr std::integral_constant<int, team> t{};
    if (turns <= 1) f(t, std::integral_constant<int, 1>{});
    else if (turns <= 2) f(t, std::integral_constant<int, 2>{});
    else if (turns <= 3) f(t, std::integral_constant<int, 3>{});
    else f(t, std::integral_constant<int, 4>{});
    return true;
  };
  if (cols <= 1024 && rows > few_norms) return call.template operator()<32>();
  if (cols <= 4096) return call.template operator()<128>();
  if (cols <= most_cols) return call.template operator()<512>();
  return false;
}

// The parameters in float32: they are a row long, a copy costs nothing.
Kernels::NormArgs with_float32_parameters(Kernels& k, Context& ctx, Kernels::NormArgs args) {
  for (Tensor* t : {&args.weight, &args.bias}) {
    if (!t->defined() || t->dtype() == DType::float32) continue;
    Tensor copy = Tensor::empty(ctx, t->shape(), DType::float32);
    k.copy(ctx, *t, copy);
    *t = copy;
  }
  return args;
}

bool all_wide(std::initializer_list<const Tensor*> tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor* t) { return !t->defined() || is_wide(*t); });
}

// dsub, if defined, is dropout(dx) and all are wide.
void backward_of_norm(Kernels& k, Context& ctx, const Tensor& x, const Kernels::NormArgs& given, const Tensor& mean, const Tensor& rstd,
                      const Tensor& dy, Kernels::NormGradients& out, Tensor& dsub) {
  const std::int64_t n = x.rows(), cols = x.cols();
  const Kernels::NormArgs args = with_float32_parameters(k, ctx, given);
  visit_device_float("norm_backward", x.dtype(), [&]<class T>() {
    NormBackwardRows<T> rows{rows_of<T>(x),
                             rows_of<T>(dy),
                             mutable_rows_of<T>(out.dx),
                             mutable_rows_of<T>(dsub),
                             dsub.defined() ? Dropout(ctx, args.dropout) : Dropout(),
                             values_of<float>(args.weight),
                             values_of<float>(mean),
                             values_of<float>(rstd),
                             n,
                             static_cast<int>(cols),
                             args.kind == NormKind::rms_norm,
                             out.accumulate_dx,
                             nullptr};
    float *dweight = mutable_values_of<float>(out.dweight), *dbias = mutable_values_of<float>(out.dbias);
    if (n == 0) {
      if (dweight != nullptr && !out.accumulate_dweight) k.fill(ctx, 0.0F, out.dweight);
      if (dbias != nullptr && !out.accumulate_dbias) k.fill(ctx, 0.0F, out.dbias);
      return;
    }
    const bool wide = all_wide({&x, &dy, &out.dx, &args.weight}) && cols % 8 == 0 && cols <= most_cols_backward(ctx);
    const auto with = [&](auto team, auto turns) {
      constexpr int threads = decltype(team)::value, each = decltype(turns)::value;
      constexpr unsigned teams = backward_teams(threads);
      const std::int64_t blocks = std::min<std::int64_t>(blocks_of(n, teams * 4), teams > 1 ? 264 : 528);
      Tensor parts;
      if (dweight != nullptr || dbias != nullptr) {
        parts = Tensor::empty(ctx, {blocks, 2, cols});
        rows.parts = mutable_values_of<float>(parts);
      }
      const std::size_t shared = parts.defined() ? static_cast<std::size_t>(teams * 2 * cols) * sizeof(float) : 0;
      const dim3 grid(static_cast<unsigned>(blocks)), block(threads, teams);
      if (dsub.defined()) launch(ctx, "norm_backward", norm_backward_rows<T, threads, each, true>, grid, block, shared, rows);
      else launch(ctx, "norm_backward", norm_backward_rows<T, threads, each, false>, grid, block, shared, rows);
      if (parts.defined())
        add_parts<Sum>(ctx, "norm_backward_sums", values_of<float>(parts), blocks, cols, 2 * cols,
                       ColumnSums<float>{dweight, out.accumulate_dweight}, {dbias, out.accumulate_dbias}, 1.0F);
    };
    if (wide && with_team(n, cols, with)) return;
    if (out.dx.defined()) launch(ctx, "norm_backward", norm_backward_any<T>, dim3(static_cast<unsigned>(n)), dim3(256), 0, rows);
    if (dweight != nullptr)
      reduce_columns<Sum>(ctx, "norm_backward", TimesNormedRow<T>{rows}, n, cols, false, dweight, 1.0F, out.accumulate_dweight);
    if (dbias != nullptr)
      reduce_columns<Sum>(ctx, "norm_backward", ElementsOf<T>{rows_of<T>(dy)}, n, cols, false, dbias, 1.0F, out.accumulate_dbias);
  });
}

}  // namespace

void CudaKernels::norm(Context& ctx, const Tensor& x, const NormArgs& given, Tensor& sum, Tensor& y, Tensor& mean, Tensor& rstd) {
  if (x.numel() == 0) return;
  const NormArgs args = with_float32_parameters(*this, ctx, given);
  visit_device_float("norm", x.dtype(), [&]<class T>() {
    const bool drops = args.sub.defined() && args.dropout.p > 0.0F;
    const NormRows<T> rows{rows_of<T>(x),
                           rows_of<T>(args.sub),
                           args.sub.defined() ? mutable_rows_of<T>(sum) : Rows<T>{},
                           mutable_rows_of<T>(y),
                           values_of<float>(args.weight),
                           values_of<float>(args.bias),
                           mutable_values_of<float>(mean),
                           mutable_values_of<float>(rstd),
                           x.rows(),
                           static_cast<int>(x.cols()),
                           args.kind == NormKind::rms_norm,
                           args.eps,
                           drops ? Dropout(ctx, args.dropout) : Dropout()};
    const bool wide = all_wide({&x, &args.sub, &sum, &y, &args.weight, &args.bias}) && x.cols() % (drops ? 64 : 8) == 0;
    const auto with = [&](auto team, auto turns) {
      constexpr int threads = decltype(team)::value, n = decltype(turns)::value;
      constexpr unsigned teams = threads >= 128 ? 1 : 128 / threads;
      const dim3 grid(static_cast<unsigned>(blocks_of(rows.rows, teams))), block(threads, teams);
      if (drops) launch(ctx, "norm", norm_forward<T, threads, n, true>, grid, block, 0, rows);
      else launch_early(ctx, "norm", norm_forward<T, threads, n, false>, grid, block, 0, rows);
    };
    if (!wide || !with_team(x.rows(), x.cols(), with))
      launch(ctx, "norm", norm_forward_any<T>, dim3(static_cast<unsigned>(rows.rows)), dim3(256), 0, rows);
  });
}

void CudaKernels::norm_backward(Context& ctx, const Tensor& x, const NormArgs& args, const Tensor& mean, const Tensor& rstd,
                                const Tensor& dy, NormGradients& out) {
  Tensor none;
  backward_of_norm(*this, ctx, x, args, mean, rstd, dy, out, none);
}

void CudaKernels::add_norm_backward(Context& ctx, const Tensor& sum, const NormArgs& args, const Tensor& mean, const Tensor& rstd,
                                    const Tensor& dy, NormGradients& out, Tensor& dsub) {
  const bool together = args.dropout.p > 0.0F && sum.cols() % 64 == 0 && sum.cols() <= most_cols_backward(ctx) &&
      all_wide({&sum, &dy, &out.dx, &dsub, &args.weight});
  if (!together) return Kernels::add_norm_backward(ctx, sum, args, mean, rstd, dy, out, dsub);
  backward_of_norm(*this, ctx, sum, args, mean, rstd, dy, out, dsub);
}

}  // namespace transformer
