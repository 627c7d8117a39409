#pragma once
// A made price series, for examples and tests: a slow trend, a week that repeats, and noise. The last value is a poor guess of the
// next days, and whoever has seen the week does better.

#include "transformer/series/table.h"

namespace transformer {

// A price a day from 2020-01-01 on, in the column "price".
SeriesTable toy_prices(std::int64_t days = 1000, std::uint64_t seed = 1);

}  // namespace transformer
