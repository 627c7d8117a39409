#include "backend/cpu/matmul_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/amx.h"

namespace transformer {
namespace {

std::int64_t rounded_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }
std::int64_t parts_of(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

// What a tile costs a thread, in nanoseconds, as measured on processors with AVX-512 and AMX: the products, and bringing the operands
// from where they are into the order that oneDNN's kernels want. Where many threads compute, products of bfloat16 are bound by the way
// to memory; oneDNN's float32 kernels read a plain a as it is, and take longest for a transposed b. With amx.h, the next
// of b comes while what is there is multiplied, and a core is taken to get what others have just written, all operands but weights, more
// slowly than what lies in memory (norms, which do little else, ran at a third of its rate). `late`: what is lost where threads end at
// different times, in tiles.
struct Cost {
  double product, a, b, tile, late;
};
Cost cost_of(const MatmulCache::Problem& p, int threads, MatmulUnit unit) {
  const bool low = p.in == DType::bfloat16, a_turned = p.a_col != 1, b_turned = p.b_col != 1;
  if (unit == MatmulUnit::amx)
    return {0.0015, threads > 2 ? 0.5 : 0.15, a_turned && threads > 2 ? 0.4 : 0.17, 2000.0, threads > 1 ? 0.5 : 0.0};
  if (threads <= 2) {
    const double move = low ? 0.15 : 0.3;
    return {low ? 0.0022 : 0.0125, move * (a_turned ? 4.0 : 1.0), move, 3000.0, threads > 1 ? 0.2 : 0.0};
  }
  if (low) return {0.003, a_turned ? 0.22 : 0.15, 0.15, 3000.0, 1.0};
  return {0.0168, a_turned ? 0.4 : 0.05, b_turned ? 1.3 : 0.3, 3000.0, 0.6};
}

constexpr std::int64_t row_unit = 16, col_unit = 32;     // of one tile of registers
constexpr std::int64_t step_size = 512, step_unit = 64;  // of the tokens that a weight's gradient sums over
constexpr std::int64_t amx_memory = 1 << 20;             // what a tile of amx.h may take of the second cache

struct Size {
  std::int64_t m, n;
};

std::int64_t amx_tile_bytes(std::int64_t m, std::int64_t n) {
  return static_cast<std::int64_t>(amx::scratch_bytes(m)) + amx::width(m) * amx::width(n) * 4;
}

// Heights and widths of tiles that are worth a try.
std::vector<Size> sizes_of(const MatmulCache::Problem& p, MatmulUnit unit) {
  std::vector<std::int64_t> heights, widths;
  if (p.a_col != 1 || p.m <= 128) heights.push_back(rounded_up(p.m, row_unit));
  for (const std::int64_t h : {32, 64, 96, 128, 256, 512})
    if (h < p.m) heights.push_back(h);
  for (const std::int64_t parts : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024})
    if (const std::int64_t w = p.n < 64 ? p.n : rounded_up(parts_of(p.n, parts), col_unit); widths.empty() || w != widths.back())
      widths.push_back(w);
  std::vector<Size> sizes;
  for (const std::int64_t m : heights)
    for (const std::int64_t n : widths)
      if (unit != MatmulUnit::amx || amx_tile_bytes(m, n) <= amx_memory) sizes.push_back({m, n});
  if (sizes.empty()) sizes.push_back({32, 64});
  return sizes;
}

// The cut that costs least when `threads` take one tile after the other.
Size best_size(const MatmulCache::Problem& p, int threads, MatmulUnit unit) {
  const Cost cost = cost_of(p, threads, unit);
  Size best{};
  double least = -1.0;
  for (const Size& size : sizes_of(p, unit)) {
    const auto tiles = static_cast<double>(p.batch * parts_of(p.m, size.m) * parts_of(p.n, size.n));
    const auto k = static_cast<double>(p.k), rows = static_cast<double>(size.m), cols = static_cast<double>(std::min(size.n, p.n));
    const double products = rows * cols * cost.product, b = cols * cost.b;
    const double one = k * (rows * cost.a + (unit == MatmulUnit::amx ? std::max(products, b) : products + b)) + cost.tile;
    const double rounds = std::max(1.0, std::ceil(tiles / threads)), all = (rounds + cost.late) * one;
    if (least < 0.0 || all < least) least = all, best = size;
  }
  return best;
}

template <class To, class From>
void copy_block(const From* from, std::int64_t from_row, std::int64_t rows, std::int64_t cols, To* to, std::int64_t to_row) {
  for (std::int64_t r = 0; r < rows; ++r) {
    if constexpr (std::is_same_v<To, From>) {
      std::memcpy(to + r * to_row, from + r * from_row, static_cast<std::size_t>(cols) * sizeof(To));
    } else {
      for (std::int64_t c = 0; c < cols; ++c) to[r * to_row + c] = To(static_cast<float>(from[r * from_row + c]));
    }
  }
}

void copy_block(DType from_type, const void* from, std::int64_t from_row, std::int64_t rows, std::int64_t cols, DType to_type, void* to,
                std::int64_t to_row) {
  auto typed = [&]<class From, class To>() {
    copy_block(static_cast<const From*>(from), from_row, rows, cols, static_cast<To*>(to), to_row);
  };
  const bool low_from = from_type == DType::bfloat16, low_to = to_type == DType::bfloat16;
  if (low_from && low_to) typed.template operator()<bfloat16, bfloat16>();
  else if (low_from) typed.template operator()<bfloat16, float>();
  else if (low_to) typed.template operator()<float, bfloat16>();
  else typed.template operator()<float, float>();
}

const std::byte* at(const void* data, std::int64_t elements, DType type) {
  return static_cast<const std::byte*>(data) + elements * static_cast<std::int64_t>(size_of(type));
}

std::size_t bytes_of(std::int64_t elements, DType type) { return rounded_up(elements * static_cast<std::int64_t>(size_of(type)), 64); }

}  // namespace

std::size_t MatmulStep::staged_bytes() const {
  return (stage_a ? bytes_of(tile.m * tile.k, tile.in) : 0) + (stage_b ? bytes_of(tile.k * tile.n, tile.in) : 0) +
      (stage_c ? bytes_of(tile.m * tile.n, tile.out) : 0) + (convert && tile.has_bias ? bytes_of(tile.n, tile.bias) : 0);
}

MatmulTiles::MatmulTiles(const MatmulCache::Problem& p, int threads, MatmulUnit unit) : p_(p), unit_(unit) {
  const Size size = best_size(p, threads, unit);
  tile_m_ = std::min(size.m, rounded_up(p.m, row_unit)), tile_n_ = std::min(size.n, p.n);
  row_tiles_ = parts_of(p.m, tile_m_), col_tiles_ = parts_of(p.n, tile_n_);
  // A transposed a is a weight's gradient: its rows are the weight's and do not change, its inner size is a number of tokens.
  const bool gradient = p.a_col != 1 && p.out == DType::float32 && !p.has_bias && p.activation == Activation::none;
  const std::int64_t left = p.m - (row_tiles_ - 1) * tile_m_;
  last_m_ = gradient ? left : std::min(tile_m_, rounded_up(left, std::max(row_unit, tile_m_ / 4)));
  if (unit == MatmulUnit::amx) last_m_ = left;
  if (!gradient || unit == MatmulUnit::amx) {
    inner_.push_back({0, p.k, p.k});
    return;
  }
  std::int64_t begin = 0;
  for (; p.k - begin >= step_size; begin += step_size) inner_.push_back({begin, step_size, step_size});
  if (const std::int64_t whole = (p.k - begin) / step_unit * step_unit; whole > 0) inner_.push_back({begin, whole, whole}), begin += whole;
  if (begin < p.k) inner_.push_back({begin, p.k - begin, step_unit});
}

std::int64_t MatmulTiles::kind(std::int64_t tile, std::int64_t index) const {
  return index * 4 + (last_row(tile) ? 2 : 0) + (last_col(tile) ? 1 : 0);
}

MatmulStep MatmulTiles::step(std::int64_t tile, std::int64_t index) const {
  const Inner& inner = inner_[static_cast<std::size_t>(index)];
  MatmulStep s;
  s.batch = tile / (row_tiles_ * col_tiles_);
  s.row = tile / col_tiles_ % row_tiles_ * tile_m_;
  s.col = tile % col_tiles_ * tile_n_;
  s.inner = inner.begin;
  s.rows = std::min(tile_m_, p_.m - s.row);
  s.depth = inner.length;
  s.convert = unit_ == MatmulUnit::widened;
  MatmulTile& t = s.tile;
  t = {.m = last_row(tile) ? last_m_ : tile_m_,
       .n = std::min(tile_n_, p_.n - s.col),
       .k = inner.size,
       .a_row = p_.a_row,
       .a_col = p_.a_col,
       .b_row = p_.b_row,
       .b_col = p_.b_col,
       .c_row = p_.c_row,
       .in = p_.in,
       .out = p_.out,
       .bias = p_.bias,
       .has_bias = p_.has_bias,
       .accumulate = p_.accumulate || index > 0,
       .alpha = p_.alpha,
       .activation = p_.activation};
  s.stage_a = s.convert || s.rows != t.m || s.depth != t.k;
  s.stage_b = s.convert || s.depth != t.k;
  s.stage_c = s.convert || s.rows != t.m;
  if (s.convert) t.in = t.out = t.bias = DType::float32;
  if (s.stage_a) (p_.a_col == 1 ? t.a_row : t.a_col) = p_.a_col == 1 ? t.k : t.m;
  if (s.stage_b) (p_.b_col == 1 ? t.b_row : t.b_col) = p_.b_col == 1 ? t.n : t.k;
  if (s.stage_c) t.c_row = t.n;
  return s;
}

StagedOperands::StagedOperands(const MatmulStep& s, const MatmulCache::Problem& p, const void* a_all, const void* b_all,
                               const void* bias_all, void* c_all, std::byte* memory)
    : step_(s), to_row_(p.c_row), to_type_(p.out) {
  const MatmulTile& t = s.tile;
  a = at(a_all, s.batch * p.a_batch + s.row * p.a_row + s.inner * p.a_col, p.in);
  b = at(b_all, s.batch * p.b_batch + s.inner * p.b_row + s.col * p.b_col, p.in);
  bias = p.has_bias ? at(bias_all, s.col, p.bias) : nullptr;
  to_ = c = const_cast<std::byte*>(at(c_all, s.batch * p.c_batch + s.row * p.c_row + s.col, p.out));
  auto take = [&](std::int64_t elements, DType type) {
    std::byte* taken = memory;
    memory += bytes_of(elements, type);
    return taken;
  };
  // Lines of an operand in memory, padded with lines, or ends of lines, of zeros.
  auto stage =
      [&](const void* from, std::int64_t stride, std::int64_t lines, std::int64_t length, std::int64_t all_lines, std::int64_t all_length) {
    std::byte* to = take(all_lines * all_length, t.in);
    if (lines != all_lines || length != all_length) std::memset(to, 0, static_cast<std::size_t>(all_lines * all_length) * size_of(t.in));
    copy_block(p.in, from, stride, lines, length, t.in, to, all_length);
    return to;
  };
  if (s.stage_a) a = p.a_col == 1 ? stage(a, p.a_row, s.rows, s.depth, t.m, t.k) : stage(a, p.a_col, s.depth, s.rows, t.k, t.m);
  if (s.stage_b) b = p.b_col == 1 ? stage(b, p.b_row, s.depth, t.n, t.k, t.n) : stage(b, p.b_col, t.n, s.depth, t.n, t.k);
  if (s.convert && t.has_bias) {
    std::byte* to = take(t.n, t.bias);
    copy_block(p.bias, bias, t.n, 1, t.n, t.bias, to, t.n);
    bias = to;
  }
  if (s.stage_c) {
    c = take(t.m * t.n, t.out);
    if (t.accumulate) copy_block(p.out, to_, p.c_row, s.rows, t.n, t.out, c, t.n);
  }
}

void StagedOperands::finish() const {
  if (step_.stage_c) copy_block(step_.tile.out, c, step_.tile.n, step_.rows, step_.tile.n, to_type_, to_, to_row_);
}

}  // namespace transformer
