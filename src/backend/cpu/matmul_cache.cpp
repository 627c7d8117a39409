#include "backend/cpu/matmul_cache.h"

#include <omp.h>

#include <dnnl.hpp>
#include <list>
#include <unordered_map>

namespace transformer {
namespace {

using Dims = dnnl::memory::dims;

dnnl::memory::data_type type_of(DType t) {
  switch (t) {
    case DType::float32: return dnnl::memory::data_type::f32;
    case DType::bfloat16: return dnnl::memory::data_type::bf16;
    default: fail("matmul", "the cpu multiplies float32 and bfloat16 matrices, got {}", t);
  }
}

void append_activation(dnnl::post_ops& ops, Activation activation) {
  using dnnl::algorithm;
#if DNNL_VERSION_MAJOR >= 3
  auto append = [&](algorithm a, float alpha) { ops.append_eltwise(a, alpha, 0.0F); };
#else
  auto append = [&](algorithm a, float alpha) { ops.append_eltwise(1.0F, a, alpha, 0.0F); };
#endif
  switch (activation) {
    case Activation::none: break;
    case Activation::relu: append(algorithm::eltwise_relu, 0.0F); break;
    case Activation::gelu: append(algorithm::eltwise_gelu_erf, 0.0F); break;
    case Activation::gelu_tanh: append(algorithm::eltwise_gelu_tanh, 0.0F); break;
    case Activation::silu: append(algorithm::eltwise_swish, 1.0F); break;
  }
}

struct Hash {
  std::size_t operator()(const MatmulCache::Problem& p) const {
    std::size_t h = 0;
    auto mix = [&](std::int64_t v) { h = (h ^ static_cast<std::size_t>(v)) * 0x9E3779B97F4A7C15ULL, h ^= h >> 29; };
    for (std::int64_t v : {p.batch, p.m, p.n, p.k, p.a_row, p.a_col, p.a_batch, p.b_row, p.b_col, p.b_batch, p.c_row, p.c_batch}) mix(v);
    mix(static_cast<std::int64_t>(p.in) | static_cast<std::int64_t>(p.out) << 4 | static_cast<std::int64_t>(p.bias) << 8 |
        static_cast<std::int64_t>(p.activation) << 12 | std::int64_t{p.has_bias} << 16 | std::int64_t{p.accumulate} << 17);
    mix(std::bit_cast<std::int32_t>(p.alpha));
    return h;
  }
};

}  // namespace

struct MatmulCache::Impl {
  struct Entry {
    Problem problem;
    dnnl::matmul primitive;
    dnnl::memory a, b, bias, c, scratch;
    std::unordered_map<int, dnnl::memory> args;
    std::size_t scratch_bytes = 0;
  };
  static constexpr std::size_t capacity = 4096;  // ragged batches bring new sizes all the time

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::list<Entry> entries;  // most recently used first
  std::unordered_map<Problem, std::list<Entry>::iterator, Hash> index;

  Entry make(const Problem& p) {
    const auto in = type_of(p.in);
    const bool batched = p.batch != 1;
    auto desc = [&](std::int64_t batch, std::int64_t rows, std::int64_t cols, dnnl::memory::data_type type, std::int64_t batch_stride,
                    std::int64_t row_stride, std::int64_t col_stride) {
      return batched ? dnnl::memory::desc(Dims{batch, rows, cols}, type, Dims{batch_stride, row_stride, col_stride})
                     : dnnl::memory::desc(Dims{rows, cols}, type, Dims{row_stride, col_stride});
    };
    const auto a = desc(p.batch, p.m, p.k, in, p.a_batch, p.a_row, p.a_col);
    const auto b = desc(p.b_batch == 0 ? 1 : p.batch, p.k, p.n, in, p.b_batch == 0 ? p.k * p.n : p.b_batch, p.b_row, p.b_col);
    const auto c = desc(p.batch, p.m, p.n, type_of(p.out), p.c_batch, p.c_row, 1);
    const auto bias = p.has_bias ? desc(1, 1, p.n, type_of(p.bias), p.n, p.n, 1) : dnnl::memory::desc();

    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::post_ops ops;
    // alpha must scale the product alone, so a bias may not come before it: see CpuKernels::matmul.
#if DNNL_VERSION_MAJOR >= 3
    if (p.alpha != 1.0F) ops.append_eltwise(dnnl::algorithm::eltwise_linear, p.alpha, 0.0F);
#else
    if (p.alpha != 1.0F) attr.set_output_scales(0, {p.alpha});
#endif
    if (p.accumulate) ops.append_sum(1.0F);
    append_activation(ops, p.activation);
    attr.set_post_ops(ops);

#if DNNL_VERSION_MAJOR >= 3
    const auto pd = p.has_bias ? dnnl::matmul::primitive_desc(engine, a, b, bias, c, attr)
                               : dnnl::matmul::primitive_desc(engine, a, b, c, attr);
#else
    const auto pd = dnnl::matmul::primitive_desc(p.has_bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c), attr,
                                                 engine);
#endif
    Entry e{p,
            dnnl::matmul(pd),
            {a, engine, nullptr},
            {b, engine, nullptr},
            {},
            {c, engine, nullptr},
            {pd.scratchpad_desc(), engine, nullptr},
            {},
            pd.scratchpad_desc().get_size()};
    e.args = {{DNNL_ARG_SRC, e.a}, {DNNL_ARG_WEIGHTS, e.b}, {DNNL_ARG_DST, e.c}, {DNNL_ARG_SCRATCHPAD, e.scratch}};
    if (p.has_bias) {
      e.bias = dnnl::memory(bias, engine, nullptr);
      e.args.emplace(DNNL_ARG_BIAS, e.bias);
    }
    return e;
  }

  Entry& find(const Problem& p) {
    if (auto it = index.find(p); it != index.end()) {
      entries.splice(entries.begin(), entries, it->second);
      return *it->second;
    }
    entries.push_front(make(p));
    index.emplace(p, entries.begin());
    if (entries.size() > capacity) {
      index.erase(entries.back().problem);
      entries.pop_back();
    }
    return entries.front();
  }
};

MatmulCache::MatmulCache() : impl_(std::make_unique<Impl>()) {}
MatmulCache::~MatmulCache() = default;

void MatmulCache::run(Context& ctx, const Problem& p, const void* a, const void* b, const void* bias, void* c) {
  try {
    if (omp_get_max_threads() != ctx.threads()) omp_set_num_threads(ctx.threads());
    Impl::Entry& e = impl_->find(p);
    const auto scratch = ctx.allocator().allocate(e.scratch_bytes);
    e.a.set_data_handle(const_cast<void*>(a));
    e.b.set_data_handle(const_cast<void*>(b));
    e.c.set_data_handle(c);
    if (p.has_bias) e.bias.set_data_handle(const_cast<void*>(bias));
    e.scratch.set_data_handle(scratch.get());
    e.primitive.execute(impl_->stream, e.args);
    impl_->stream.wait();
  } catch (const dnnl::error& error) {
    fail("matmul", "oneDNN refused [{}, {}, {}] · [{}, {}] in {}: {}", p.batch, p.m, p.k, p.k, p.n, p.in, error.what());
  }
}

}  // namespace transformer
