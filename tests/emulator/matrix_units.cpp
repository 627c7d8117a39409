// What runs beside the computation is done when it is waited for; in a run with a seed some of it at once. Until then the sums of products
// are NaN.
#include "emulator/matrix_units.h"

#include <bit>
#include <cstring>
#include <limits>

#include "block.h"
#include "memory.h"
#include "settings.h"

namespace emulator {
namespace {

float value_of(std::uint32_t pair, int which) { return std::bit_cast<float>(which == 0 ? pair << 16 : pair & 0xFFFF0000U); }

// Where element [row][column] of two bytes is, seen from a descriptor: rows of 128 bytes, whose pieces are exchanged, in groups of eight.
struct Matrix {
  std::uint32_t first, panels, groups;
  explicit Matrix(std::uint64_t descriptor)
      : first(static_cast<std::uint32_t>(descriptor & 0x3FFF) << 4), panels(static_cast<std::uint32_t>(descriptor >> 16 & 0x3FFF) << 4),
        groups(static_cast<std::uint32_t>(descriptor >> 32 & 0x3FFF) << 4) {
    if (descriptor >> 62 != 1 || (descriptor >> 49 & 7) != 0) stop("a descriptor of a layout that the emulator does not know");
  }
  float at(int row, int column) const {
    const std::uint32_t linear = first + static_cast<std::uint32_t>(column / 64) * panels + static_cast<std::uint32_t>(row / 8) * groups +
        static_cast<std::uint32_t>(row % 8 * 128 + column % 64 * 2);
    std::uint16_t bits;
    std::memcpy(&bits, shared_at(linear ^ ((linear >> 7 & 7) << 4), 2, 2), 2);
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
  }
};

void copy(const PendingCopy& c) {
  std::memcpy(c.to, c.from, c.there);
  std::memset(c.to + c.there, 0, c.bytes - c.there);
}

// One product of all 128 threads.
void multiply(const std::vector<Thread*>& threads, std::size_t n) {
  const Product& first = threads[0]->products[n].product;
  const Matrix right(first.right);
  static float b[128][16];  // columns of the operand
  for (int k = 0; k < 16; ++k)
    for (int c = 0; c < first.columns; ++c) b[c][k] = first.right_turned ? right.at(k, c) : right.at(c, k);
  for (int row = 0; row < 64; ++row) {
    const int warp = row / 16, lane = row % 8 * 4;  // the first of the four lanes that have this row
    float a[16];
    for (int k = 0; k < 16; ++k) {
      const Fragment& held = threads[32 * warp + lane + k % 8 / 2]->products[n].product.held;
      a[k] = first.in_registers ? value_of(held.r[(row % 16 >= 8 ? 1 : 0) + (k >= 8 ? 2 : 0)], k % 2) : Matrix(first.left).at(row, k);
    }
    for (int c = 0; c < first.columns; ++c) {
      PendingProduct& mine = threads[32 * warp + lane + c % 8 / 2]->products[n];
      const int at = c / 8 * 4 + (row % 16 >= 8 ? 2 : 0) + c % 2;
      float sum = first.adds ? mine.sums[at] : 0.0F;
      for (int k = 0; k < 16; ++k) sum += a[k] * b[c][k];
      mine.product.sums[at] = sum;
    }
  }
}

void multiply_all() {
  const std::vector<Thread*> threads = warpgroup();
  const std::size_t count = threads[0]->products.size();
  for (const Thread* thread : threads)
    if (thread->products.size() != count) stop("threads of four warps have asked for different products");
  for (std::size_t n = 0; n < count; ++n) {
    const Product& first = threads[0]->products[n].product;
    for (const Thread* thread : threads) {
      const Product& p = thread->products[n].product;
      if (p.left != first.left || p.right != first.right || p.columns != first.columns || p.adds != first.adds)
        stop("threads of four warps have asked for different products");
    }
    multiply(threads, n);
    // The next one adds to these.
    for (Thread* thread : threads)
      for (std::size_t later = n + 1; later < count; ++later) {
        PendingProduct& next = thread->products[later];
        if (next.product.sums == thread->products[n].product.sums) {
          next.sums.assign(next.product.sums, next.product.sums + next.product.columns / 2);
          break;
        }
      }
  }
  for (Thread* thread : threads) thread->products.clear();
}

}  // namespace

// Only addresses that are there: weights may be fetched before anything else is known.
void fetch_ahead(const void* line) {
  if (!Memory::instance().holds(line)) stop("memory is fetched ahead that is not the card's");
}

void copy_async(std::uint32_t to, const void* from, std::size_t bytes, std::size_t there) {
  const PendingCopy c{shared_at(to, bytes, bytes), from, bytes, there};
  if (reinterpret_cast<std::uintptr_t>(from) % bytes != 0) stop("a copy from a misaligned address");
  if (chance.one_in(2)) return copy(c);
  this_thread().copies.push_back(c);
}
void commit_copies() {}
void wait_for_copies() {
  for (const PendingCopy& c : this_thread().copies) copy(c);
  this_thread().copies.clear();
}

Fragment load_matrices(std::uint32_t address, bool turned, const Where& where) {
  struct Lane {
    std::uint32_t address;
    bool turned;
    Fragment out;
  };
  of<Lane>(slot()) = {address, turned, {}};
  meet_warp(
      ~0U,
      [](Slot* const* lanes, unsigned came) {
    if (came != ~0U) stop("matrices are loaded by less than a warp");
    std::uint16_t m[4][8][8];
    for (int i = 0; i < 32; ++i) std::memcpy(m[i / 8][i % 8], shared_at(of<Lane>(*lanes[i]).address, 16, 16), 16);
    for (int l = 0; l < 32; ++l)
      for (int i = 0; i < 4; ++i) {
        Lane& lane = of<Lane>(*lanes[l]);
        const int r = l / 4, c = l % 4 * 2;
        const std::uint32_t low = lane.turned ? m[i][c][r] : m[i][r][c], high = lane.turned ? m[i][c + 1][r] : m[i][r][c + 1];
        lane.out.r[i] = low | high << 16;
      }
      },
      "ldmatrix", where);
  return of<Lane>(slot()).out;
}

void multiply_add(float (&c)[4], const Fragment& a, std::uint32_t b0, std::uint32_t b1, const Where& where) {
  struct Lane {
    Fragment a;
    std::uint32_t b[2];
    float c[4];
  };
  of<Lane>(slot()) = {a, {b0, b1}, {c[0], c[1], c[2], c[3]}};
  meet_warp(
      ~0U,
      [](Slot* const* lanes, unsigned came) {
    if (came != ~0U) stop("a product of less than a warp");
    float left[16][16], right[16][8];
    for (int l = 0; l < 32; ++l) {
      const Lane& lane = of<Lane>(*lanes[l]);
      for (int i = 0; i < 4; ++i)
        for (int e = 0; e < 2; ++e) left[l / 4 + i % 2 * 8][l % 4 * 2 + e + i / 2 * 8] = value_of(lane.a.r[i], e);
      for (int i = 0; i < 2; ++i)
        for (int e = 0; e < 2; ++e) right[l % 4 * 2 + e + i * 8][l / 4] = value_of(lane.b[i], e);
    }
    float sums[16][8] = {};
    for (int r = 0; r < 16; ++r)
      for (int k = 0; k < 16; ++k)
        for (int n = 0; n < 8; ++n) sums[r][n] += left[r][k] * right[k][n];
    for (int l = 0; l < 32; ++l)
      for (int i = 0; i < 4; ++i) of<Lane>(*lanes[l]).c[i] += sums[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2];
      },
      "mma", where);
  std::memcpy(c, of<Lane>(slot()).c, sizeof c);
}

void issue_product(const Product& product) {
  Thread& me = this_thread();
  const int n = product.columns / 2;  // this thread's sums
  me.products.push_back({product, std::vector<float>(product.sums, product.sums + n)});
  std::fill(product.sums, product.sums + n, std::numeric_limits<float>::quiet_NaN());
}
void begin_products() {}
void commit_products() {}
void wait_for_products(const Where& where) { meet_warpgroup(multiply_all, "wgmma.wait_group", where); }

}  // namespace emulator
