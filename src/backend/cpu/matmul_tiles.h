#pragma once
// How a product is cut into tiles, each computed by one thread. Tiles have few sizes, since oneDNN compiles every size anew and ragged
// batches bring new numbers of rows all the time: rows come in tiles of equal height, what is left over is padded to one of a few
// heights; the tokens that a weight's gradient sums over come in steps of few lengths. The cutting depends on the sizes and the number
// of threads alone.

#include <cstdint>
#include <vector>

#include "backend/cpu/matmul_cache.h"

namespace transformer {

// Who computes tiles: oneDNN; oneDNN in float32, where the processor has no products of bfloat16; or amx.h, which takes every size as it
// is.
enum class MatmulUnit { plain, widened, amx };

// What is computed at a time: c [m, n] = activation(alpha · a · b + bias) or c += alpha · a · b, over strided matrices.
struct MatmulTile {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_col = 1, b_row = 0, b_col = 1, c_row = 0;  // strides in elements
  DType in = DType::float32, out = DType::float32, bias = DType::float32;
  bool has_bias = false, accumulate = false;
  float alpha = 1.0F;
  Activation activation = Activation::none;
  bool operator==(const MatmulTile&) const = default;
};

// A part of a product: its place, and the tile that computes it. Operands that the tile cannot take as they lie are staged: copied to
// memory of the thread, padded with zeros or made float32.
struct MatmulStep {
  MatmulTile tile;
  std::int64_t batch = 0, row = 0, col = 0, inner = 0;  // where it begins
  std::int64_t rows = 0, depth = 0;                     // of the tile's m and k, what is there
  bool stage_a = false, stage_b = false, stage_c = false;
  bool convert = false;  // to float32, where the processor has no products of bfloat16

  std::size_t staged_bytes() const;
};

class MatmulTiles {
 public:
  MatmulTiles(const MatmulCache::Problem& p, int threads, MatmulUnit unit);

  MatmulUnit unit() const { return unit_; }

  std::int64_t count() const { return p_.batch * row_tiles_ * col_tiles_; }
  // Every part of tile i in order; they add up. Their number is the same for all tiles.
  std::int64_t steps() const { return static_cast<std::int64_t>(inner_.size()); }
  MatmulStep step(std::int64_t tile, std::int64_t index) const;
  // Parts with equal numbers have equal tiles: below 4 · steps().
  std::int64_t kind(std::int64_t tile, std::int64_t index) const;

 private:
  struct Inner {
    std::int64_t begin, length, size;
  };
  bool last_row(std::int64_t tile) const { return tile / col_tiles_ % row_tiles_ == row_tiles_ - 1; }
  bool last_col(std::int64_t tile) const { return tile % col_tiles_ == col_tiles_ - 1; }

  MatmulCache::Problem p_;
  MatmulUnit unit_;
  std::int64_t tile_m_ = 0, tile_n_ = 0, row_tiles_ = 0, col_tiles_ = 0, last_m_ = 0;
  std::vector<Inner> inner_;
};

// The operands of a step, staged where they must be. `memory` holds staged_bytes().
struct StagedOperands {
  StagedOperands(const MatmulStep& step, const MatmulCache::Problem& p, const void* a, const void* b, const void* bias, void* c,
                 std::byte* memory);
  void finish() const;  // the result goes where it belongs

  const void *a, *b, *bias;
  void* c;

 private:
  const MatmulStep& step_;
  void* to_;
  std::int64_t to_row_;
  DType to_type_;
};

}  // namespace transformer
