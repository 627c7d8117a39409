// Functions of one tensor, element by element, and their gradients; functions of two that broadcast.
#include <vector>

#include "backend/axes.h"
#include "backend/cuda/activations.cuh"
#include "backend/cuda/over_rows.cuh"

namespace transformer {
namespace {

struct TanhOf {
  __device__ static float apply(float x, float& slope) {
    const float y = tanhf(x);
    slope = 1.0F - y * y;
    return y;
  }
};
struct SigmoidOf {
  __device__ static float apply(float x, float& slope) { return ExactMath::sigmoid(x, slope); }
};
struct ExpOf {
  __device__ static float apply(float x, float& slope) { return slope = expf(x); }
};
struct LogOf {
  __device__ static float apply(float x, float& slope) {
    slope = 1.0F / x;
    return logf(x);
  }
};
struct SqrtOf {
  __device__ static float apply(float x, float& slope) {
    const float y = sqrtf(x);
    slope = 0.5F / y;
    return y;
  }
};
struct RsqrtOf {
  __device__ static float apply(float x, float& slope) {
    const float y = 1.0F / sqrtf(x);
    slope = -0.5F * (y / x);
    return y;
  }
};
struct SquareOf {
  __device__ static float apply(float x, float& slope) {
    slope = x + x;
    return x * x;
  }
};
struct AbsOf {  // slope 0 at 0
  __device__ static float apply(float x, float& slope) {
    slope = x == 0.0F ? 0.0F : copysignf(1.0F, x);
    return fabsf(x);
  }
};
struct NegOf {
  __device__ static float apply(float x, float& slope) {
    slope = -1.0F;
    return -x;
  }
};
struct SinOf {
  __device__ static float apply(float x, float& slope) {
    slope = cosf(x);
    return sinf(x);
  }
};
struct CosOf {
  __device__ static float apply(float x, float& slope) {
    slope = -sinf(x);
    return cosf(x);
  }
};

template <class Call>
void visit_unary(Unary kind, Call&& f) {
  switch (kind) {
    case Unary::relu: return f.template operator()<ReluOf>();
    case Unary::gelu: return f.template operator()<GeluOf<ExactMath>>();
    case Unary::gelu_tanh: return f.template operator()<GeluTanhOf<ExactMath>>();
    case Unary::silu: return f.template operator()<SiluOf<ExactMath>>();
    case Unary::tanh: return f.template operator()<TanhOf>();
    case Unary::sigmoid: return f.template operator()<SigmoidOf>();
    case Unary::exp: return f.template operator()<ExpOf>();
    case Unary::log: return f.template operator()<LogOf>();
    case Unary::sqrt: return f.template operator()<SqrtOf>();
    case Unary::rsqrt: return f.template operator()<RsqrtOf>();
    case Unary::square: return f.template operator()<SquareOf>();
    case Unary::abs: return f.template operator()<AbsOf>();
    case Unary::neg: return f.template operator()<NegOf>();
    case Unary::sin: return f.template operator()<SinOf>();
    case Unary::cos: return f.template operator()<CosOf>();
  }
}

template <class T, class F>
struct Each {
  Rows<const T> x;
  Rows<T> y;
  template <int N>
  __device__ void apply(std::int64_t row, std::int64_t column) const {
    float v[N];
    load(x.at(row, column), v);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float slope;
      v[i] = F::apply(v[i], slope);
    }
    store(v, y.at(row, column));
  }
};

// dx = factor · dy · f'(x)
template <class T, class F>
struct EachBackward {
  Rows<const T> x, dy;
  Rows<T> dx;
  float factor;
  template <int N>
  __device__ void apply(std::int64_t row, std::int64_t column) const {
    float v[N], g[N];
    load(x.at(row, column), v);
    load(dy.at(row, column), g);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float slope;
      F::apply(v[i], slope);
      g[i] *= slope * factor;
    }
    store(g, dx.at(row, column));
  }
};

template <class T, class F>
struct GatedEach {
  Rows<const T> x;
  Rows<T> y;
  std::int64_t h;
  template <int N>
  __device__ void apply(std::int64_t row, std::int64_t column) const {
    float gate[N], up[N];
    load(x.at(row, column), gate);
    load(x.at(row, column + h), up);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float slope;
      up[i] *= F::apply(gate[i], slope);
    }
    store(up, y.at(row, column));
  }
};

// d gate = dy · up · f'(gate), d up = dy · f(gate)
template <class T, class F>
struct GatedEachBackward {
  Rows<const T> x, dy;
  Rows<T> dx;
  std::int64_t h;
  template <int N>
  __device__ void apply(std::int64_t row, std::int64_t column) const {
    float gate[N], up[N], g[N];
    load(x.at(row, column), gate);
    load(x.at(row, column + h), up);
    load(dy.at(row, column), g);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float slope;
      const float value = F::apply(gate[i], slope);
      gate[i] = g[i] * up[i] * slope;
      up[i] = g[i] * value;
    }
    store(gate, dx.at(row, column));
    store(up, dx.at(row, column + h));
  }
};

template <class T>
struct ScaleEach {
  Rows<const T> x;
  Rows<T> y;
  float factor;
  const float* more;  // may be null
  template <int N>
  __device__ void apply(std::int64_t row, std::int64_t column) const {
    const float by = more != nullptr ? factor * *more : factor;
    if (by == 1.0F && x.data == y.data) return;
    float v[N];
    load(x.at(row, column), v);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] *= by;
    store(v, y.at(row, column));
  }
};

__device__ float combined(Binary kind, float a, float b) {
  switch (kind) {
    case Binary::add: return a + b;
    case Binary::sub: return a - b;
    case Binary::mul: return a * b;
    case Binary::div: return a / b;
    case Binary::max: return a > b || a != a ? a : b;
    case Binary::min: return a < b || a != a ? a : b;
  }
  return 0.0F;
}

// Up to four loops around lines along which a and b go on (step 1) or stay (step 0); y is dense.
template <class T>
struct Combine {
  Binary kind;
  const T *a, *b;
  T* y;
  std::int64_t cols, a_step, b_step;
  std::int64_t n[7], a_by[7], b_by[7];
  int loops;
  template <int N>
  __device__ void apply(std::int64_t row, std::int64_t column) const {
    std::int64_t a_at = column * a_step, b_at = column * b_step, index = row;
    for (int i = loops - 1; i >= 0; --i) {
      const std::int64_t rest = index / n[i], k = index - rest * n[i];
      a_at += k * a_by[i], b_at += k * b_by[i];
      index = rest;
    }
    float u[N], v[N];
    if (N > 1 && a_step == 1) {
      load(a + a_at, u);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) u[i] = to_float(a[a_at + i * a_step]);
    }
    if (N > 1 && b_step == 1) {
      load(b + b_at, v);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = to_float(b[b_at + i * b_step]);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) u[i] = combined(kind, u[i], v[i]);
    store(u, y + row * cols + column);
  }
};

}  // namespace

void CudaKernels::unary(Context& ctx, Unary kind, const Tensor& x, Tensor& y) {
  visit_unary(kind, [&]<class F>() {
    visit_device_float("unary", x.dtype(), [&]<class T>() {
      over_rows(ctx, "unary", extent_of(x, y), Each<T, F>{rows_of<T>(x), mutable_rows_of<T>(y)});
    });
  });
}

void CudaKernels::unary_backward(Context& ctx, Unary kind, const Tensor& x, const Tensor& dy, Tensor& dx) {
  visit_unary(kind, [&]<class F>() {
    visit_device_float("unary_backward", x.dtype(), [&]<class T>() {
      over_rows(ctx, "unary_backward", extent_of(x, dy, dx),
                EachBackward<T, F>{rows_of<T>(x), rows_of<T>(dy), mutable_rows_of<T>(dx), 1.0F});
    });
  });
}

void CudaKernels::activation_backward(Context& ctx, Activation kind, const Tensor& x, const Tensor& dy, float factor, Tensor& dx) {
  if (kind == Activation::none) return scale(ctx, factor, dy, dx);
  visit_device_float("activation_backward", x.dtype(), [&]<class T>() {
    visit_activation<T>(kind, [&]<class F>() {
      over_rows(ctx, "activation_backward", extent_of(x, dy, dx),
                EachBackward<T, F>{rows_of<T>(x), rows_of<T>(dy), mutable_rows_of<T>(dx), factor});
    });
  });
}

void CudaKernels::gated(Context& ctx, Activation kind, const Tensor& x, Tensor& y) {
  visit_device_float("gated", x.dtype(), [&]<class T>() {
    visit_activation<T>(kind, [&]<class F>() {
      over_rows(ctx, "gated", {y.rows(), y.cols(), is_wide(x) && is_wide(y)},
                GatedEach<T, F>{rows_of<T>(x), mutable_rows_of<T>(y), y.cols()});
    });
  });
}

void CudaKernels::gated_backward(Context& ctx, Activation kind, const Tensor& x, const Tensor& dy, Tensor& dx) {
  visit_device_float("gated_backward", x.dtype(), [&]<class T>() {
    visit_activation<T>(kind, [&]<class F>() {
      over_rows(ctx, "gated_backward", {dy.rows(), dy.cols(), is_wide(x) && is_wide(dy) && is_wide(dx)},
                GatedEachBackward<T, F>{rows_of<T>(x), rows_of<T>(dy), mutable_rows_of<T>(dx), dy.cols()});
    });
  });
}

void CudaKernels::binary(Context& ctx, Binary kind, const Tensor& a, const Tensor& b, Tensor& y) {
  if (y.numel() == 0) return;
  std::vector<Loop> nest = broadcast_nest(a, b, y);
  Loop line{1, 1, 1};
  if (!nest.empty()) line = nest.back(), nest.pop_back();
  visit_device_float("binary", y.dtype(), [&]<class T>() {
    Combine<T> f{kind, values_of<T>(a), values_of<T>(b), mutable_values_of<T>(y), line.n, line.x, line.y, {}, {}, {}, 0};
    bool wide = line.n % 8 == 0 || nest.empty();
    for (const Loop& l : nest) {
      f.n[f.loops] = l.n, f.a_by[f.loops] = l.x, f.b_by[f.loops] = l.y, ++f.loops;
      wide &= (line.x == 0 || l.x % 8 == 0) && (line.y == 0 || l.y % 8 == 0);
    }
    for (const void* p : {static_cast<const void*>(f.a), static_cast<const void*>(f.b), static_cast<const void*>(f.y)})
      wide &= reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
    over_rows(ctx, "binary", {y.numel() / line.n, line.n, wide}, f);
  });
}

void CudaKernels::scale(Context& ctx, float factor, const Tensor& x, Tensor& y) {
  visit_device_float("scale", x.dtype(), [&]<class T>() {
    over_rows(ctx, "scale", extent_of(x, y), ScaleEach<T>{rows_of<T>(x), mutable_rows_of<T>(y), factor, nullptr});
  });
}

void CudaKernels::scale_by(Context& ctx, const Tensor& factor, Tensor& x) {
  visit_device_float("scale_by", x.dtype(), [&]<class T>() {
    const Rows<T> rows = mutable_rows_of<T>(x);
    over_rows(ctx, "scale_by", extent_of(x), ScaleEach<T>{{rows.data, rows.stride}, rows, 1.0F, values_of<float>(factor)});
  });
}

}  // namespace transformer
