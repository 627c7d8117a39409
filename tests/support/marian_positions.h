#pragma once

#include "support/golden.h"
#include "transformer/models/model.h"

namespace transformer::test {

// A Marian case whose tables of positions were changed along with all other parameters before its outputs were computed is not
// the case of its own folder: Hugging Face does not save these tables, so a model that is loaded from there has the plain
// sinusoids. What they were can be read off hidden_states.0, which is scale · embedding + position: they are put into the model
// as far as they are known there, and everything behind them can be compared. Of other models nothing is changed. Gives the
// number of positions of the decoder that are known; none when the tables are the sinusoids, and so all are known.
std::optional<std::int64_t> restore_positions(Context& ctx, const GoldenCase& c, Model& model);

}  // namespace transformer::test
