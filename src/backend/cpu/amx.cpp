#include "backend/cpu/amx.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "transformer/core/error.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // inside of g++ 12's intrinsics
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRANSFORMER_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define TRANSFORMER_AMX __attribute__((target("amx-tile,amx-bf16")))

namespace transformer::amx {
namespace {

// A tile is 16 lines of 64 bytes: of a, 16 rows of 32 depths; of b, 16 pairs of depths, each with the two numbers of 16 columns. So one is
// the other with its words of four bytes turned: both are (line, pair of depths). Packed, 32 lines are [depth / 32][two tiles].
constexpr std::int64_t tile = 16, tile_depth = 32, tile_bytes = 1024;
constexpr std::int64_t chunk = 512;  // depth that is packed at a time: 32 columns of b stay in the first cache
constexpr std::int64_t panel = chunk / tile_depth * 2 * tile_bytes;
constexpr std::int64_t steps_of(std::int64_t depth) { return (depth + tile_depth - 1) / tile_depth; }

// Lines of 64 bytes of 32 lines of an operand, that are asked for before they are needed: cores wait longer for memory and for each
// other's caches than they compute.
class Ahead {
 public:
  Ahead(const Lines& x, std::int64_t first, std::int64_t lines, std::int64_t begin, std::int64_t depth)
      : from_(reinterpret_cast<const char*>(x.from + first * x.line + begin * x.step)) {
    const std::int64_t there = std::min(lines - first, side);
    if (there <= 0) return;
    if (x.step == 1) row_ = x.line * 2, rows_ = there, count_ = rows_ * steps_of(depth);
    else row_ = x.step * 2, rows_ = count_ = depth;
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

// 16 lines of 16 words of four bytes, turned: what lies four lines apart is gathered, and 4 × 4 blocks turned in the registers.
TRANSFORMER_AVX512 inline void turn(const std::byte* from, std::ptrdiff_t line, std::byte* to) {
  const auto words4 = [&](std::ptrdiff_t at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)); };
  for (int group = 0; group < 4; ++group, to += 256) {
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
    _mm512_store_si512(to + 64, _mm512_unpackhi_epi64(low01, low23));
    _mm512_store_si512(to + 128, _mm512_unpacklo_epi64(high01, high23));
    _mm512_store_si512(to + 192, _mm512_unpackhi_epi64(high01, high23));
  }
}

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
TRANSFORMER_AVX512 void pack(const Lines& x, std::int64_t first, std::int64_t lines, std::int64_t begin, std::int64_t depth,
                             Operand operand, std::byte* to) {
  alignas(64) std::byte block[tile_bytes];
  for (std::int64_t done = 0; done < depth; done += tile_depth) {
    for (std::int64_t line = first; line < first + side; line += tile, to += tile_bytes) {
      const bfloat16* in = x.from + line * x.line + (begin + done) * x.step;
      const std::int64_t left = lines - line, there = depth - done;
      if (left <= 0) {
        std::memset(to, 0, tile_bytes);
      } else if (x.step == 1) {
        if (operand == Operand::a) copy_lines(in, x.line, left, there, to);
        else if (left >= tile && there >= tile_depth) turn(reinterpret_cast<const std::byte*>(in), x.line * 2, to);
        else copy_lines(in, x.line, left, there, block), turn(block, 64, to);
      } else {
        if (operand == Operand::b) join_pairs(in, x.step, left, there, to);
        else join_pairs(in, x.step, left, there, block), turn(block, 64, to);
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
void multiply_with(const Lines& a, const Lines& b, std::int64_t rows, std::int64_t cols, std::int64_t depth, float* c, std::byte* memory) {
  std::byte *packed_b = memory, *packed_a = memory + panel;
  const std::int64_t c_row = width(cols), blocks = width(rows) / side;
  for (std::int64_t begin = 0; begin < depth; begin += chunk) {
    const std::int64_t some = std::min(chunk, depth - begin), steps = steps_of(some);
    const Ahead columns(b, 0, cols, begin, some);
    for (std::int64_t i = 0; i < blocks; ++i) {
      Ahead next = i + 1 < blocks ? Ahead(a, (i + 1) * side, rows, begin, some) : columns;
      next.fetch(next.count());
      pack(a, i * side, rows, begin, some, Operand::a, packed_a + i * panel);
    }
    Unit unit;
    for (std::int64_t col = 0; col < cols; col += side) {
      pack(b, col, cols, begin, some, Operand::b, packed_b);
      Ahead next(b, col + side, cols, begin, some);
      const std::int64_t each = (next.count() + blocks * steps - 1) / (blocks * steps);
      for (std::int64_t i = 0; i < blocks; ++i)
        unit.block(packed_a + i * panel, packed_b, steps, c + i * side * c_row + col, c_row, begin > 0, next, each);
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

bool available() {
  static const bool answer = ask_for_tiles();
  return answer || imitated.load(std::memory_order_relaxed);
}
bool can_imitate() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0;
}
void imitate(bool on) { imitated = on; }

std::size_t scratch_bytes(std::int64_t rows) { return static_cast<std::size_t>((1 + width(rows) / side) * panel); }

void multiply(const Lines& a, const Lines& b, std::int64_t rows, std::int64_t cols, std::int64_t depth, float* c, std::byte* memory) {
  if (imitated.load(std::memory_order_relaxed)) multiply_with<Imitation>(a, b, rows, cols, depth, c, memory);
  else multiply_with<Registers>(a, b, rows, cols, depth, c, memory);
}

}  // namespace transformer::amx

#else

namespace transformer::amx {
bool available() { return false; }
bool can_imitate() { return false; }
void imitate(bool) {}
std::size_t scratch_bytes(std::int64_t) { return 0; }
void multiply(const Lines&, const Lines&, std::int64_t, std::int64_t, std::int64_t, float*, std::byte*) {
  fail("matmul", "this processor has no tile registers");
}
}  // namespace transformer::amx

#endif
