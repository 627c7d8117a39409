#include "backend/cpu/matmul_cache.h"

#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/cpu/amx.h"
#include "backend/cpu/matmul_output.h"
#include "backend/cpu/matmul_tiles.h"
#include "core/shared/pool.h"
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
  std::size_t operator()(const MatmulTile& p) const {
    std::size_t h = 0;
    auto mix = [&](std::int64_t v) { h = (h ^ static_cast<std::size_t>(v)) * 0x9E3779B97F4A7C15ULL, h ^= h >> 29; };
    for (std::int64_t v : {p.m, p.n, p.k, p.a_row, p.a_col, p.b_row, p.b_col, p.c_row}) mix(v);
    mix(static_cast<std::int64_t>(p.in) | static_cast<std::int64_t>(p.out) << 4 | static_cast<std::int64_t>(p.bias) << 8 |
        static_cast<std::int64_t>(p.activation) << 12 | std::int64_t{p.has_bias} << 16 | std::int64_t{p.accumulate} << 17);
    mix(std::bit_cast<std::int32_t>(p.alpha));
    return h;
  }
};

// A tile's sums, and what its computing needs beside them.
std::size_t bytes_of_sums(const MatmulStep& s) {
  return static_cast<std::size_t>(amx::width(s.rows) * amx::width(s.tile.n)) * sizeof(float);
}
std::size_t bytes_for_amx(const MatmulStep& s) { return bytes_of_sums(s) + amx::scratch_bytes(s.rows); }

void compute_with_amx(const MatmulStep& s, const MatmulCache::Product& product, std::byte* memory) {
  const MatmulCache::Problem& p = product.problem;
  const auto from = [](const void* data, std::int64_t elements, DType type) {
    return static_cast<const std::byte*>(data) + elements * static_cast<std::int64_t>(size_of(type));
  };
  float* sums = reinterpret_cast<float*>(memory);
  const auto *a = static_cast<const bfloat16*>(product.a), *b = static_cast<const bfloat16*>(product.b);
  amx::multiply({a + s.batch * p.a_batch + s.row * p.a_row, p.a_row, p.a_col},
                {b + s.batch * p.b_batch + s.col * p.b_col, p.b_col, p.b_row}, s.rows, s.tile.n, s.depth, sums, memory + bytes_of_sums(s));
  write_output({.sums = sums,
                .sums_row = amx::width(s.tile.n),
                .c_row = p.c_row,
                .bias = p.has_bias ? from(product.bias, s.col, p.bias) : nullptr,
                .c = const_cast<std::byte*>(from(product.c, s.batch * p.c_batch + s.row * p.c_row + s.col, p.out)),
                .rows = s.rows,
                .cols = s.tile.n,
                .out = p.out,
                .bias_type = p.bias,
                .alpha = p.alpha,
                .accumulate = p.accumulate,
                .activation = p.activation});
}

// While alive, oneDNN plans for and runs on the calling thread alone: the threads are ours.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace

struct MatmulCache::Impl {
  using Arguments = std::unordered_map<int, dnnl::memory>;
  struct Entry {
    MatmulTile tile;
    dnnl::matmul primitive;
    dnnl::memory::desc a, b, bias, c, scratch;
    std::vector<Arguments> sets = {};  // one for each thread; kept, since making them takes time

    Arguments arguments(const dnnl::engine& engine) const {
      Arguments out{{DNNL_ARG_SRC, {a, engine, nullptr}},
                    {DNNL_ARG_WEIGHTS, {b, engine, nullptr}},
                    {DNNL_ARG_DST, {c, engine, nullptr}},
                    {DNNL_ARG_SCRATCHPAD, {scratch, engine, nullptr}}};
      if (tile.has_bias) out.emplace(DNNL_ARG_BIAS, dnnl::memory(bias, engine, nullptr));
      return out;
    }
  };
  static constexpr std::size_t capacity = 1024;

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::optional<bool> low_products;
  std::list<Entry> entries;  // most recently used first
  std::unordered_map<MatmulTile, std::list<Entry>::iterator, Hash> index;

  Entry make(const MatmulTile& p) {
    const auto in = type_of(p.in);
    const dnnl::memory::desc a(Dims{p.m, p.k}, in, Dims{p.a_row, p.a_col}), b(Dims{p.k, p.n}, in, Dims{p.b_row, p.b_col}),
        c(Dims{p.m, p.n}, type_of(p.out), Dims{p.c_row, 1});
    const auto bias = p.has_bias ? dnnl::memory::desc(Dims{1, p.n}, type_of(p.bias), Dims{p.n, 1}) : dnnl::memory::desc();

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
    return {p, dnnl::matmul(pd), a, b, bias, c, pd.scratchpad_desc()};
  }

  Entry& find(const MatmulTile& p) {
    if (auto it = index.find(p); it != index.end()) {
      entries.splice(entries.begin(), entries, it->second);
      return *it->second;
    }
    entries.push_front(make(p));
    index.emplace(p, entries.begin());
    return entries.front();
  }

  // Processors without AVX-512 have none.
  bool multiplies_bfloat16() {
    if (!low_products) {
      try {
        make({.m = 16, .n = 16, .k = 16, .a_row = 16, .b_row = 16, .c_row = 16, .in = DType::bfloat16, .out = DType::bfloat16});
        low_products = true;
      } catch (const dnnl::error&) {
        low_products = false;
      }
    }
    return *low_products;
  }

  MatmulUnit unit_for(const Problem& p) {
    if (p.in != DType::bfloat16) return MatmulUnit::plain;
    if (amx::available()) return MatmulUnit::amx;
    return multiplies_bfloat16() ? MatmulUnit::plain : MatmulUnit::widened;
  }

  // Only between products: those that are being prepared hold their entries.
  void trim() {
    for (; entries.size() > capacity; entries.pop_back()) index.erase(entries.back().tile);
  }

  void execute(const Entry& e, Arguments& arguments, const void* a, const void* b, const void* bias, void* c, std::byte* scratch) const {
    arguments.at(DNNL_ARG_SRC).set_data_handle(const_cast<void*>(a));
    arguments.at(DNNL_ARG_WEIGHTS).set_data_handle(const_cast<void*>(b));
    arguments.at(DNNL_ARG_DST).set_data_handle(c);
    if (bias != nullptr) arguments.at(DNNL_ARG_BIAS).set_data_handle(const_cast<void*>(bias));
    arguments.at(DNNL_ARG_SCRATCHPAD).set_data_handle(scratch);
    e.primitive.execute(stream, arguments);
  }
};

MatmulCache::MatmulCache() : impl_(std::make_unique<Impl>()) {}
MatmulCache::~MatmulCache() = default;

void MatmulCache::run(Context& ctx, std::span<const Product> products, std::int64_t pieces, const std::function<void(std::int64_t)>& body) {
  struct Planned {
    const Product* product;
    MatmulTiles tiles;
    std::vector<Impl::Entry*> entries = {};
    std::int64_t first = 0;  // of its tiles among all
  };
  const Problem* at = nullptr;  // what is being prepared
  try {
    const OneThread one_thread;
    // Everything that is made is made here; the threads only compute.
    std::vector<Planned> planned;
    std::size_t scratch = 0, staged = 0;
    std::int64_t count = 0;
    // Two are each cut for all threads, so that the end is even; more of them for their share, but so that a few may join in.
    const int several = static_cast<int>(products.size());
    const int share = several <= 2 ? ctx.threads() : std::max(std::min(ctx.threads(), 4), ctx.threads() / several);
    for (const Product& product : products) {
      const Problem& p = *(at = &product.problem);
      Planned& plan = planned.emplace_back(Planned{&product, MatmulTiles(p, share, impl_->unit_for(p))});
      const MatmulTiles& tiles = plan.tiles;
      if (tiles.unit() == MatmulUnit::amx) {
        scratch = std::max(scratch, bytes_for_amx(tiles.step(0, 0)));  // none is larger than the first
        continue;
      }
      const auto sets = static_cast<std::size_t>(ctx.threads());
      plan.entries.resize(static_cast<std::size_t>(4 * tiles.steps()), nullptr);
      for (std::int64_t i = 0; i < tiles.count(); ++i) {
        for (std::int64_t j = 0; j < tiles.steps(); ++j) {
          Impl::Entry*& entry = plan.entries[static_cast<std::size_t>(tiles.kind(i, j))];
          if (entry != nullptr) continue;
          const MatmulStep step = tiles.step(i, j);
          entry = &impl_->find(step.tile);
          while (entry->sets.size() < sets) entry->sets.push_back(entry->arguments(impl_->engine));
          scratch = std::max(scratch, (entry->scratch.get_size() + 63) / 64 * 64);
          staged = std::max(staged, step.staged_bytes());
        }
      }
    }
    // The longest tiles come first, so that threads end at about the same time.
    const auto work = [](const Planned& plan) {
      const Problem& p = plan.product->problem;
      return plan.tiles.count() > 0 ? p.batch * p.m * p.n * p.k / plan.tiles.count() : 0;
    };
    std::stable_sort(planned.begin(), planned.end(), [&](const Planned& a, const Planned& b) { return work(a) > work(b); });
    for (Planned& plan : planned) plan.first = std::exchange(count, count + plan.tiles.count());
    const std::int64_t all = count + pieces;
    const auto threads = static_cast<std::size_t>(std::min<std::int64_t>(ctx.threads(), all));
    const auto memory = ctx.allocator().allocate((scratch + staged) * threads);
    parallel_each(static_cast<int>(threads), all, [&](std::int64_t i) {
      if (i >= count) return body(i - count);
      const OneThread here_too;
      const auto seat = static_cast<std::size_t>(parallel_seat());
      std::byte* mine = memory.get() + (scratch + staged) * seat;
      std::size_t which = planned.size() - 1;
      while (planned[which].first > i) --which;
      const Planned& plan = planned[which];
      const MatmulTiles& tiles = plan.tiles;
      const Product& product = *plan.product;
      for (std::int64_t j = 0; j < tiles.steps(); ++j) {
        const MatmulStep step = tiles.step(i - plan.first, j);
        if (tiles.unit() == MatmulUnit::amx) {
          compute_with_amx(step, product, mine);
        } else {
          Impl::Entry& e = *plan.entries[static_cast<std::size_t>(tiles.kind(i - plan.first, j))];
          const StagedOperands x(step, product.problem, product.a, product.b, product.bias, product.c, mine + scratch);
          impl_->execute(e, e.sets[seat], x.a, x.b, x.bias, x.c, mine);
          x.finish();
        }
        if (product.after && j + 1 == tiles.steps()) product.after(step.row, step.col, step.rows, step.tile.n);
      }
    });
    impl_->trim();
  } catch (const dnnl::error& error) {
    fail("matmul", "oneDNN refused [{}, {}, {}] · [{}, {}] in {}: {}", at->batch, at->m, at->k, at->k, at->n, at->in, error.what());
  }
}

bool processor_multiplies_bfloat16() {
  const auto has = static_cast<unsigned>(dnnl::get_effective_cpu_isa());  // a bit for each set of instructions
  constexpr auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (has & wanted) == wanted;
}

}  // namespace transformer
