#include "transformer/toys/prices.h"

#include <array>
#include <cmath>

#include "transformer/core/random.h"

namespace transformer {

SeriesTable toy_prices(std::int64_t days, std::uint64_t seed) {
  constexpr std::array week{0.0, 1.5, 3.0, 2.0, 0.5, -2.5, -3.0};
  constexpr double pi = 3.14159265358979323846;
  if (days < 1) fail("toy_prices", "{} days: expected 1 or more", days);
  SeriesTable table{.name = "toy prices", .date_column = "date", .channels = {"price"}};
  const std::int64_t first = *parse_date("2020-01-01", table.format);
  const RandomStream random{.seed = seed};
  double walk = 0.0;
  for (std::int64_t day = 0; day < days; ++day) {
    // Nearly normal: the sum of four uniform numbers, to deviation 1.
    double noise = -2.0;
    for (std::int64_t i = 0; i < 4; ++i) noise += static_cast<double>(random.uniform(static_cast<std::uint64_t>(4 * day + i)));
    noise *= std::sqrt(3.0);
    walk += 0.15 * noise;
    const auto t = static_cast<double>(day);
    const double trend = 100.0 + 0.02 * t + 6.0 * std::sin(2.0 * pi * t / 180.0);
    table.dates.push_back(advance(first, {.units = 86400}, day));
    table.values.push_back(std::round((trend + walk + week[static_cast<std::size_t>(day % 7)] + 0.3 * noise) * 100.0) / 100.0);
  }
  return table;
}

}  // namespace transformer
