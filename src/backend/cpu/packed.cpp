#include "backend/cpu/packed.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "transformer/core/error.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // inside of g++ 12's intrinsics
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRANSFORMER_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma")))
#define TRANSFORMER_AMX __attribute__((target("amx-tile,amx-bf16")))

namespace transformer::packed {
namespace {

constexpr std::int64_t tile = 16, tile_bytes = 1024;  // 16 lines of 64 bytes

// Lines of 64 bytes of 32 lines of an operand, that are asked for before they are needed: cores wait longer for memory and for each
// other's caches than they compute.
class Ahead {
 public:
  Ahead(const Lines& x, std::int64_t size, std::int64_t first, std::int64_t lines, std::int64_t begin, std::int64_t depth)
      : from_(static_cast<const char*>(x.from) + (first * x.line + begin * x.step) * size) {
    const std::int64_t there = std::min(lines - first, side);
    if (there <= 0) return;
    if (x.step == 1) row_ = x.line * size, rows_ = there, count_ = rows_ * ((depth * size + 63) / 64);
    else row_ = x.step * size, rows_ = depth, count_ = rows_ * ((there * size + 63) / 64);
  }
  std::int64_t count() const { return count_; }
  void fetch(std::int64_t some) {
    for (some = std::min(some, count_); some > 0; --some, --count_) {
      _mm_prefetch(from_ + at_ * row_, _MM_HINT_T1);
      if (++at_ == rows_) at_ = 0, from_ += 64;
    }
  }

 private:
  const char* from_;
  std::int64_t row_ = 0, rows_ = 0, count_ = 0, at_ = 0;
};

// 16 lines of 16 words of four bytes, turned: what lies four lines apart is gathered, and 4 × 4 blocks turned in the registers. Of the
// words, `words` times four groups; the lines of the result are `to_line` bytes apart.
TRANSFORMER_AVX512 inline void turn(const std::byte* from, std::ptrdiff_t line, std::byte* to, std::ptrdiff_t to_line) {
  const auto words4 = [&](std::ptrdiff_t at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)); };
  for (int group = 0; group < 4; ++group, to += 4 * to_line) {
    __m512i r[4];
    for (int i = 0; i < 4; ++i) {
      const std::ptrdiff_t at = i * line + group * 16;
      __m512i v = _mm512_castsi128_si512(words4(at));
      v = _mm512_mask_broadcast_i32x4(v, 0x00F0, words4(at + 4 * line));
      v = _mm512_mask_broadcast_i32x4(v, 0x0F00, words4(at + 8 * line));
      r[i] = _mm512_mask_broadcast_i32x4(v, 0xF000, words4(at + 12 * line));
    }
    const __m512i low01 = _mm512_unpacklo_epi32(r[0], r[1]), low23 = _mm512_unpacklo_epi32(r[2], r[3]);
    const __m512i high01 = _mm512_unpackhi_epi32(r[0], r[1]), high23 = _mm512_unpackhi_epi32(r[2], r[3]);
    _mm512_store_si512(to, _mm512_unpacklo_epi64(low01, low23));
    _mm512_store_si512(to + to_line, _mm512_unpackhi_epi64(low01, low23));
    _mm512_store_si512(to + 2 * to_line, _mm512_unpacklo_epi64(high01, high23));
    _mm512_store_si512(to + 3 * to_line, _mm512_unpackhi_epi64(high01, high23));
  }
}

// ---- bfloat16 -------------------------------------------------------------------------------------------------------------------------
// A tile of a is 16 rows of 32 depths; of b 16 pairs of depths, each with the two numbers of 16 columns. So one is the other with its
// words of four bytes turned: both are (line, pair of depths). Packed, 32 lines are [depth / 32][two tiles].

constexpr std::int64_t tile_depth = 32;
constexpr std::int64_t steps_of(std::int64_t depth) { return (depth + tile_depth - 1) / tile_depth; }

// (line, pair) of lines that are contiguous. What is beyond `lines` and `depth` is zero.
TRANSFORMER_AVX512 inline void copy_lines(const bfloat16* from, std::int64_t line, std::int64_t lines, std::int64_t depth, std::byte* to) {
  const __mmask32 there = depth >= tile_depth ? ~__mmask32{0} : (__mmask32{1} << depth) - 1;
  for (std::int64_t i = 0; i < tile; ++i, from += line)
    _mm512_store_si512(to + i * 64, i < lines ? _mm512_maskz_loadu_epi16(there, from) : _mm512_setzero_si512());
}

// (pair, line) of lines that lie side by side: the numbers of two depths joined.
TRANSFORMER_AVX512 inline void join_pairs(const bfloat16* from, std::int64_t step, std::int64_t lines, std::int64_t depth, std::byte* to) {
  const auto there = static_cast<__mmask16>(lines >= tile ? 0xFFFF : (1 << lines) - 1);
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3,
                                         18, 2, 17, 1, 16, 0);
  const auto row = [&](std::int64_t k)
                       TRANSFORMER_AVX512 { return k < depth ? _mm256_maskz_loadu_epi16(there, from + k * step) : _mm256_setzero_si256(); };
  for (std::int64_t pair = 0; pair < 16; ++pair) {
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(row(2 * pair)), row(2 * pair + 1), 1);
    _mm512_store_si512(to + pair * 64, _mm512_permutexvar_epi16(order, both));
  }
}

// 32 lines from `first` on.
enum class Operand { a, b };
TRANSFORMER_AVX512 void pack_tiles(const Lines& x, std::int64_t first, std::int64_t lines, std::int64_t begin, std::int64_t depth,
                                   Operand operand, std::byte* to) {
  alignas(64) std::byte block[tile_bytes];
  for (std::int64_t done = 0; done < depth; done += tile_depth) {
    for (std::int64_t line = first; line < first + side; line += tile, to += tile_bytes) {
      const bfloat16* in = static_cast<const bfloat16*>(x.from) + line * x.line + (begin + done) * x.step;
      const std::int64_t left = lines - line, there = depth - done;
      if (left <= 0) {
        std::memset(to, 0, tile_bytes);
      } else if (x.step == 1) {
        if (operand == Operand::a) copy_lines(in, x.line, left, there, to);
        else if (left >= tile && there >= tile_depth) turn(reinterpret_cast<const std::byte*>(in), x.line * 2, to, 64);
        else copy_lines(in, x.line, left, there, block), turn(block, 64, to, 64);
      } else {
        if (operand == Operand::b) join_pairs(in, x.step, left, there, to);
        else join_pairs(in, x.step, left, there, block), turn(block, 64, to, 64);
      }
    }
  }
}

// The registers; oneDNN may have used them since.
struct Registers {
  struct alignas(64) Layout {
    std::uint8_t palette = 1, first = 0, reserved[14] = {};
    std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  TRANSFORMER_AMX Registers() {
    static constexpr Layout layout;
    _tile_loadconfig(&layout);
  }
  TRANSFORMER_AMX ~Registers() { _tile_release(); }
  Registers(const Registers&) = delete;
  Registers& operator=(const Registers&) = delete;

  // 32 × 32 sums: two tiles of a by two of b, `steps` deep; meanwhile `each` lines of what comes next are asked for in each step.
  TRANSFORMER_AMX void block(const std::byte* a, const std::byte* b, std::int64_t steps, float* c, std::int64_t c_row, bool add,
                             Ahead& ahead, std::int64_t each) {
    const std::int64_t row = c_row * static_cast<std::int64_t>(sizeof(float));
    float* below = c + tile * c_row;
    if (add) {
      _tile_loadd(0, c, row);
      _tile_loadd(1, c + tile, row);
      _tile_loadd(2, below, row);
      _tile_loadd(3, below + tile, row);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    for (; steps > 0; --steps, a += 2 * tile_bytes, b += 2 * tile_bytes) {
      _tile_loadd(4, a, 64);
      _tile_loadd(6, b, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, b + tile_bytes, 64);
      _tile_dpbf16ps(1, 4, 7);
      ahead.fetch(each);
      _tile_loadd(5, a + tile_bytes, 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, row);
    _tile_stored(1, c + tile, row);
    _tile_stored(2, below, row);
    _tile_stored(3, below + tile, row);
  }
};

struct Imitation {
  void block(const std::byte* a, const std::byte* b, std::int64_t steps, float* c, std::int64_t c_row, bool add, Ahead&, std::int64_t) {
    const auto number = [](const std::byte* packed, std::int64_t index) {
      bfloat16 value;
      std::memcpy(&value, packed + 2 * index, sizeof value);
      return static_cast<float>(value);
    };
    for (std::int64_t i = 0; i < side; ++i)
      for (std::int64_t j = 0; j < side; ++j) {
        float sum = add ? c[i * c_row + j] : 0.0F;
        for (std::int64_t s = 0; s < steps; ++s)
          for (std::int64_t k = 0; k < tile_depth; ++k)
            sum += number(a + (2 * s + i / tile) * tile_bytes, i % tile * tile_depth + k) *
                number(b + (2 * s + j / tile) * tile_bytes, (k / 2 * tile + j % tile) * 2 + k % 2);
        c[i * c_row + j] = sum;
      }
  }
};

template <class Unit>
struct Bfloat16 {
  static constexpr std::int64_t size = 2;
  static constexpr std::int64_t chunk = 512;  // depth that is packed at a time: 32 columns of b stay in the first cache
  static constexpr std::int64_t panel = chunk / tile_depth * 2 * tile_bytes;
  static std::int64_t bytes_of_a(std::int64_t rows) { return width(rows) / side * panel; }

  static void pack_a(const Lines& a, std::int64_t first, std::int64_t rows, std::int64_t begin, std::int64_t depth, std::byte* to) {
    pack_tiles(a, first, rows, begin, depth, Operand::a, to + first / side * panel);
  }
  static void pack_b(const Lines& b, std::int64_t first, std::int64_t cols, std::int64_t begin, std::int64_t depth, std::byte* to) {
    pack_tiles(b, first, cols, begin, depth, Operand::b, to);
  }
  static void multiply(const std::byte* a, bool, const std::byte* b, std::int64_t rows, std::int64_t, std::int64_t depth, float* c,
                       std::int64_t c_row, bool add, Ahead& ahead) {
    Unit unit;
    const std::int64_t blocks = width(rows) / side, steps = steps_of(depth);
    const std::int64_t each = (ahead.count() + blocks * steps - 1) / (blocks * steps);
    for (std::int64_t i = 0; i < blocks; ++i) unit.block(a + i * panel, b, steps, c + i * side * c_row, c_row, add, ahead, each);
  }
};

// ---- float32 --------------------------------------------------------------------------------------------------------------------------
// Up to 14 rows by 32 columns of sums fill the registers. Packed, b is [depth][32]; a is as it lies, but with rows that do not fall onto
// each other in the caches: 32 rows [32][padded], or, where its rows lie side by side, [depth][32].

struct Float32 {
  static constexpr std::int64_t size = 4;
  static constexpr std::int64_t chunk = 256, padded = chunk + 16;
  static constexpr std::int64_t panel = side * padded * size;
  static constexpr int most_rows = 14, groups = 16;  // prefetching once in so many depths
  static std::int64_t bytes_of_a(std::int64_t rows) { return width(rows) / side * panel; }

  TRANSFORMER_AVX512 static void copy(const float* from, std::int64_t count, std::int64_t room, float* to) {
    for (std::int64_t i = 0; i < room; i += 16) {
      const std::int64_t left = count - i;
      _mm512_store_ps(to + i,
                      _mm512_maskz_loadu_ps(left >= 16      ? 0xFFFF
                                                : left <= 0 ? 0
                                                            : static_cast<__mmask16>((1 << left) - 1),
                                            from + i));
    }
  }

  static void pack_a(const Lines& a, std::int64_t first, std::int64_t rows, std::int64_t begin, std::int64_t depth, std::byte* memory) {
    const float* from = static_cast<const float*>(a.from) + first * a.line + begin * a.step;
    float* to = reinterpret_cast<float*>(memory + first / side * panel);
    const std::int64_t some = std::min(side, rows - first);
    if (a.step == 1)
      for (std::int64_t i = 0; i < some; ++i) copy(from + i * a.line, depth, depth, to + i * padded);
    else
      for (std::int64_t k = 0; k < depth; ++k) copy(from + k * a.step, some, side, to + k * side);
  }

  TRANSFORMER_AVX512 static void pack_b(const Lines& b, std::int64_t first, std::int64_t cols, std::int64_t begin, std::int64_t depth,
                                        std::byte* memory) {
    const float* from = static_cast<const float*>(b.from) + first * b.line + begin * b.step;
    float* to = reinterpret_cast<float*>(memory);
    const std::int64_t some = std::min(side, cols - first);
    if (b.step != 1) {
      for (std::int64_t k = 0; k < depth; ++k) copy(from + k * b.step, some, side, to + k * side);
      return;
    }
    alignas(64) float block[tile * tile];
    for (std::int64_t k = 0; k < depth; k += tile)
      for (std::int64_t half = 0; half < side; half += tile) {
        const float* in = from + half * b.line + k;
        const std::int64_t lines = some - half, there = depth - k;
        auto* out = reinterpret_cast<std::byte*>(to + k * side + half);
        if (lines >= tile && there >= tile) {
          turn(reinterpret_cast<const std::byte*>(in), b.line * 4, out, side * 4);
          continue;
        }
        for (std::int64_t i = 0; i < tile; ++i) copy(in + i * b.line, i < lines ? there : 0, tile, block + i * tile);
        turn(reinterpret_cast<const std::byte*>(block), 64, out, side * 4);
      }
  }

  // kRows rows by kVectors · 16 columns.
  template <int kRows, int kVectors, bool kBeside>
  TRANSFORMER_AVX512 static void block(const float* a, const float* b, std::int64_t depth, float* c, std::int64_t c_row, bool add,
                                       Ahead& ahead, std::int64_t each) {
    __m512 sum[kRows][kVectors];
#pragma GCC unroll 14
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[i][v] = add ? _mm512_loadu_ps(c + i * c_row + v * 16) : _mm512_setzero_ps();
    while (depth > 0) {
      const std::int64_t now = std::min<std::int64_t>(depth, groups);
      ahead.fetch(each);
      for (std::int64_t k = 0; k < now; ++k) {
        __m512 row[kVectors];
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) row[v] = _mm512_load_ps(b + v * 16);
#pragma GCC unroll 14
        for (int i = 0; i < kRows; ++i) {
          const __m512 x = _mm512_set1_ps(a[kBeside ? i : i * padded]);
#pragma GCC unroll 2
          for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_fmadd_ps(x, row[v], sum[i][v]);
        }
        a += kBeside ? side : 1, b += side;
      }
      depth -= now;
    }
#pragma GCC unroll 14
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(c + i * c_row + v * 16, sum[i][v]);
  }

  using Block = void (*)(const float*, const float*, std::int64_t, float*, std::int64_t, bool, Ahead&, std::int64_t);
  template <int kVectors, bool kBeside, int... kRows>
  static Block block_of(std::int64_t rows, std::integer_sequence<int, kRows...>) {
    static constexpr std::array<Block, sizeof...(kRows)> blocks = {&block<kRows + 1, kVectors, kBeside>...};
    return blocks[static_cast<std::size_t>(rows - 1)];
  }
  static Block block_of(std::int64_t rows, bool narrow, bool beside) {
    constexpr std::make_integer_sequence<int, most_rows> heights;
    if (beside) return narrow ? block_of<1, true>(rows, heights) : block_of<2, true>(rows, heights);
    return narrow ? block_of<1, false>(rows, heights) : block_of<2, false>(rows, heights);
  }

  static void multiply(const std::byte* a, bool beside, const std::byte* b, std::int64_t rows, std::int64_t cols, std::int64_t depth,
                       float* c, std::int64_t c_row, bool add, Ahead& ahead) {
    // 32 packed rows are 11 + 11 + 10: blocks of nearly equal height.
    const std::int64_t rounds = ((rows + 10) / 11 + 1) * ((depth + groups - 1) / groups), each = (ahead.count() + rounds - 1) / rounds;
    for (std::int64_t first = 0; first < rows; first += side, a += panel) {
      const std::int64_t there = std::min(side, rows - first), blocks = (there + most_rows - 1) / most_rows;
      for (std::int64_t i = 0; i < blocks; ++i) {
        const std::int64_t begin = there * i / blocks, end = there * (i + 1) / blocks;
        const float* from = reinterpret_cast<const float*>(a) + (beside ? begin : begin * padded);
        block_of(end - begin, cols <= tile, beside)(from, reinterpret_cast<const float*>(b), depth, c + (first + begin) * c_row, c_row, add,
                                                    ahead, each);
      }
    }
  }
};

// -----------------------------------------------------------------------------------------------------------------------------------------

template <class Kind>
void multiply_as(const Lines& a, const Lines& b, std::int64_t rows, std::int64_t cols, std::int64_t depth, float* c, std::byte* memory) {
  std::byte *packed_b = memory, *packed_a = memory + Kind::panel;
  const std::int64_t c_row = width(cols);
  for (std::int64_t begin = 0; begin < depth; begin += Kind::chunk) {
    const std::int64_t some = std::min(Kind::chunk, depth - begin);
    const Ahead columns(b, Kind::size, 0, cols, begin, some);
    for (std::int64_t row = 0; row < rows; row += side) {
      Ahead next = row + side < rows ? Ahead(a, Kind::size, row + side, rows, begin, some) : columns;
      next.fetch(next.count());
      Kind::pack_a(a, row, rows, begin, some, packed_a);
    }
    for (std::int64_t col = 0; col < cols; col += side) {
      Kind::pack_b(b, col, cols, begin, some, packed_b);
      Ahead next(b, Kind::size, col + side, cols, begin, some);
      Kind::multiply(packed_a, a.step != 1, packed_b, rows, cols - col, some, c + col, c_row, begin > 0, next);
    }
  }
}

bool ask_for_tiles() {
  constexpr int request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool there = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 22 & 1) != 0 && (d >> 24 & 1) != 0;  // bfloat16, tiles
  return there && can_imitate() && syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

std::atomic<bool> imitated = false;

}  // namespace

bool multiplies(DType type) {
  static const bool vectors = can_imitate(), tiles = ask_for_tiles();
  if (type == DType::float32) return vectors;
  return type == DType::bfloat16 && (tiles || imitated.load(std::memory_order_relaxed));
}
bool can_imitate() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0;
}
void imitate(bool on) { imitated = on; }

std::size_t scratch_bytes(DType type, std::int64_t rows) {
  using Low = Bfloat16<Registers>;
  return static_cast<std::size_t>(type == DType::float32 ? Float32::panel + Float32::bytes_of_a(rows) : Low::panel + Low::bytes_of_a(rows));
}

void multiply(DType type, const Lines& a, const Lines& b, std::int64_t rows, std::int64_t cols, std::int64_t depth, float* c,
              std::byte* memory) {
  if (type == DType::float32) multiply_as<Float32>(a, b, rows, cols, depth, c, memory);
  else if (imitated.load(std::memory_order_relaxed)) multiply_as<Bfloat16<Imitation>>(a, b, rows, cols, depth, c, memory);
  else multiply_as<Bfloat16<Registers>>(a, b, rows, cols, depth, c, memory);
}

}  // namespace transformer::packed

#else

namespace transformer::packed {
bool multiplies(DType) { return false; }
bool can_imitate() { return false; }
void imitate(bool) {}
std::size_t scratch_bytes(DType, std::int64_t) { return 0; }
void multiply(DType, const Lines&, const Lines&, std::int64_t, std::int64_t, std::int64_t, float*, std::byte*) {
  fail("matmul", "this processor has none of the instructions for it");
}
}  // namespace transformer::packed

#endif
