#include "backend/cpu/matmul_cache.h"

#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>
#include <list>
#include <unordered_map>
#include <vector>

#include "transformer/core/parallel.h"

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
    for (std::int64_t v :
         {p.batch, p.m, p.n, p.k, p.a_row, p.a_col, p.a_batch, p.b_row, p.b_col, p.b_batch, p.c_row, p.c_batch, std::int64_t{p.threads}})
      mix(v);
    mix(static_cast<std::int64_t>(p.in) | static_cast<std::int64_t>(p.out) << 4 | static_cast<std::int64_t>(p.bias) << 8 |
        static_cast<std::int64_t>(p.activation) << 12 | std::int64_t{p.has_bias} << 16 | std::int64_t{p.accumulate} << 17);
    mix(std::bit_cast<std::int32_t>(p.alpha));
    return h;
  }
};

// How we cut a product among the threads ourselves, where that beats oneDNN's own way (measured: 3 to 12 %).
enum class Cut { none, rows, columns };
constexpr std::int64_t block = 64;  // pieces begin at multiples of this: the tiles inside oneDNN's kernels stay whole

Cut cut_of(const MatmulCache::Problem& p) {
  if (p.threads < 2 || p.batch != 1 || p.m * p.n * p.k < std::int64_t{1} << 25) return Cut::none;
  const bool transposed = p.a_col != 1;  // a weight's gradient: each thread should transpose its own part of a only
  if (transposed) return p.n > 2 * p.m ? Cut::columns : Cut::rows;
  if (p.k > 8 * std::max(p.m, p.n)) return p.n >= 256 ? Cut::columns : Cut::none;  // deep: b is what is read, each half of it once
  // Tall and narrow, many tokens through a small model: oneDNN's own pieces are too coarse to be even. In float32 it is no gain.
  return p.m >= 1024 && p.in == DType::bfloat16 ? Cut::rows : Cut::none;
}

}  // namespace

struct MatmulCache::Operands {
  const void *a, *b, *bias;
  void* c;
};

struct MatmulCache::Impl {
  using Arguments = std::unordered_map<int, dnnl::memory>;
  struct Entry {
    Problem problem;
    dnnl::matmul primitive;
    dnnl::memory::desc a, b, bias, c, scratch;

    Arguments arguments(const dnnl::engine& engine) const {
      Arguments out{{DNNL_ARG_SRC, {a, engine, nullptr}},
                    {DNNL_ARG_WEIGHTS, {b, engine, nullptr}},
                    {DNNL_ARG_DST, {c, engine, nullptr}},
                    {DNNL_ARG_SCRATCHPAD, {scratch, engine, nullptr}}};
      if (problem.has_bias) out.emplace(DNNL_ARG_BIAS, dnnl::memory(bias, engine, nullptr));
      return out;
    }
    Arguments whole;  // kept, so that a small product need not make them each time
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
    Entry e{p, dnnl::matmul(pd), a, b, bias, c, pd.scratchpad_desc(), {}};
    e.whole = e.arguments(engine);
    return e;
  }

  void execute(const Entry& e, Arguments& arguments, const Operands& x, std::byte* scratch);
  void execute_split(Context& ctx, const Problem& p, const Operands& x, Cut cut);

  Entry& find(const Problem& p) {
    if (auto it = index.find(p); it != index.end()) {
      entries.splice(entries.begin(), entries, it->second);
      return *it->second;
    }
    if (omp_get_max_threads() != p.threads) omp_set_num_threads(p.threads);  // oneDNN plans for them
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

void MatmulCache::Impl::execute(const Entry& e, Arguments& arguments, const Operands& x, std::byte* scratch) {
  arguments.at(DNNL_ARG_SRC).set_data_handle(const_cast<void*>(x.a));
  arguments.at(DNNL_ARG_WEIGHTS).set_data_handle(const_cast<void*>(x.b));
  arguments.at(DNNL_ARG_DST).set_data_handle(x.c);
  if (x.bias != nullptr) arguments.at(DNNL_ARG_BIAS).set_data_handle(const_cast<void*>(x.bias));
  arguments.at(DNNL_ARG_SCRATCHPAD).set_data_handle(scratch);
  e.primitive.execute(stream, arguments);
}

// One piece a thread, of its rows or of its columns.
void MatmulCache::Impl::execute_split(Context& ctx, const Problem& p, const Operands& x, Cut cut) {
  struct Piece {
    const Entry* entry;
    Arguments arguments;
    Operands operands;
    std::shared_ptr<std::byte> scratch;
  };
  std::vector<Piece> pieces;
  const std::int64_t size = cut == Cut::rows ? p.m : p.n, blocks = (size + block - 1) / block;
  auto at = [](const void* data, std::int64_t elements, DType type) {
    return static_cast<const std::byte*>(data) + elements * static_cast<std::int64_t>(size_of(type));
  };
  for (std::int64_t i = 0; i < p.threads; ++i) {
    const std::int64_t begin = blocks * i / p.threads * block, end = std::min(blocks * (i + 1) / p.threads * block, size);
    if (begin >= end) continue;
    Problem q = p;
    q.threads = 1;
    Operands y = x;
    if (cut == Cut::rows) {
      q.m = end - begin;
      y.a = at(x.a, begin * p.a_row, p.in);
      y.c = const_cast<std::byte*>(at(x.c, begin * p.c_row, p.out));
    } else {
      q.n = end - begin;
      y.b = at(x.b, begin * p.b_col, p.in);
      y.c = const_cast<std::byte*>(at(x.c, begin, p.out));
      if (p.has_bias) y.bias = at(x.bias, begin, p.bias);
    }
    const Entry& e = find(q);
    pieces.push_back({&e, e.arguments(engine), y, ctx.allocator().allocate(e.scratch.get_size())});
  }
  parallel_for(p.threads, static_cast<std::int64_t>(pieces.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      execute(*pieces[i].entry, pieces[i].arguments, pieces[i].operands, pieces[i].scratch.get());
  });
}

void MatmulCache::run(Context& ctx, Problem p, const void* a, const void* b, const void* bias, void* c) {
  try {
    p.threads = ctx.threads();
    const Operands operands{a, b, bias, c};
    if (const Cut cut = cut_of(p); cut != Cut::none) {
      impl_->execute_split(ctx, p, operands, cut);
      return;
    }
    Impl::Entry& e = impl_->find(p);
    if (omp_get_max_threads() != p.threads) omp_set_num_threads(p.threads);
    const auto scratch = ctx.allocator().allocate(e.scratch.get_size());
    impl_->execute(e, e.whole, operands, scratch.get());
    impl_->stream.wait();
  } catch (const dnnl::error& error) {
    fail("matmul", "oneDNN refused [{}, {}, {}] · [{}, {}] in {}: {}", p.batch, p.m, p.k, p.k, p.n, p.in, error.what());
  }
}

}  // namespace transformer
