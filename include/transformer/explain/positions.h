#pragma once
// How a model tells places apart, as a picture: the heat map of its positional encoding, and its waves.
//
//   PositionTable table = sinusoidal_positions(ctx, 100, 128);
//   std::ofstream("positions.svg") << positions_svg(table);
//   std::ofstream("waves.svg") << waves_svg(table, {0, 10, 50, 100});

#include <string>
#include <vector>

#include "transformer/explain/theme.h"
#include "transformer/models/model.h"

namespace transformer {

struct PositionTable {
  std::string kind = {};             // sinusoidal, learned, rotary, relative, alibi
  std::string columns = {};          // what the columns are: dimension, pair of dimensions, head
  std::int64_t rows = 0, count = 0;  // positions, or distances from 0; columns
  std::vector<float> values = {};    // [rows, count]

  float at(std::int64_t row, std::int64_t column) const { return values[static_cast<std::size_t>(row * count + column)]; }
};

// PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(same).
PositionTable sinusoidal_positions(Context& ctx, std::int64_t positions, std::int64_t d);
// Those of a model, its first `positions`: what is added to its embeddings; of rotary ones the cosines of the angles; of relative ones
// (T5, ALiBi) what is added to the score of a key so many places before. Error for a model without.
PositionTable positions_of(Context& ctx, const Model& model, std::int64_t positions);

// Rows from the top, columns from the left; values above 0 and below have colours of their own.
std::string positions_svg(const PositionTable& table, Theme theme = Theme::automatic);
// Some of the columns as curves over the positions. Columns that there are not are left out; none given: four of them.
std::string waves_svg(const PositionTable& table, std::vector<std::int64_t> columns = {}, Theme theme = Theme::automatic);

}  // namespace transformer
