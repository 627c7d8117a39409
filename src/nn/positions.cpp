#include "transformer/nn/positions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "transformer/ops/elementwise.h"
#include "transformer/ops/embedding.h"
#include "transformer/ops/shape.h"

namespace transformer {

namespace {

std::int64_t start_of(std::span<const std::int64_t> starts, std::int64_t s) {
  return starts.empty() ? 0 : starts[static_cast<std::size_t>(s)];
}

}  // namespace

Tensor position_ids(Context& ctx, const Sequences& sequences, std::span<const std::int64_t> starts, std::int64_t offset) {
  if (!starts.empty() && static_cast<std::int64_t>(starts.size()) != sequences.count())
    fail("positions", "{} starts given for {} sequences: expected one for each, or none", starts.size(), sequences.count());
  if (starts.empty() && offset == 0 && sequences.packed()) return sequences.positions(ctx);
  std::vector<std::int32_t> ids;
  ids.reserve(static_cast<std::size_t>(sequences.total()));
  for (std::int64_t s = 0; s < sequences.count(); ++s)
    for (std::int64_t i = 0; i < sequences.length(s); ++i) ids.push_back(static_cast<std::int32_t>(start_of(starts, s) + i + offset));
  return Tensor::from<std::int32_t>(ctx, {sequences.total()}, ids);
}

std::int64_t positions_needed(const Sequences& sequences, std::span<const std::int64_t> starts) {
  std::int64_t needed = 0;
  for (std::int64_t s = 0; s < sequences.count(); ++s) needed = std::max(needed, start_of(starts, s) + sequences.length(s));
  return needed;
}

Tensor sinusoidal_table(Context& ctx, std::int64_t positions, std::int64_t d, bool halves) {
  std::vector<float> table(static_cast<std::size_t>(positions * d));
  for (std::int64_t i = 0; i < d; ++i) {
    const std::int64_t column = !halves ? i : i % 2 == 0 ? i / 2 : (d + 1) / 2 + i / 2;
    const double frequency = std::pow(10000.0, -static_cast<double>(i / 2 * 2) / static_cast<double>(d));
    for (std::int64_t p = 0; p < positions; ++p) {
      const double angle = static_cast<double>(p) * frequency;
      table[static_cast<std::size_t>(p * d + column)] = static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return Tensor::from<float>(ctx, {positions, d}, table);
}

std::int64_t relative_bucket(std::int64_t distance, bool bidirectional, std::int64_t buckets, std::int64_t max_distance) {
  std::int64_t bucket = 0;
  if (bidirectional) {  // half of the buckets for each direction
    buckets /= 2;
    if (distance > 0) bucket = buckets;
    distance = std::abs(distance);
  } else {
    distance = std::max<std::int64_t>(-distance, 0);
  }
  const std::int64_t exact = buckets / 2;
  if (distance < exact) return bucket + distance;
  const float ratio = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
  return bucket + std::min(buckets - 1, exact + static_cast<std::int64_t>(ratio * static_cast<float>(buckets - exact)));
}

std::vector<double> rope_frequencies(const StackConfig& c, std::int64_t longest) {
  const RopeConfig& r = c.rope;
  const auto dim = static_cast<double>(c.rotary_dim), original = static_cast<double>(r.original_positions);
  double base = c.rope_base;
  if (r.scaling == RopeScaling::dynamic && longest > r.original_positions)
    base *= std::pow(r.factor * static_cast<double>(longest) / original - (r.factor - 1.0), dim / (dim - 2.0));
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < c.rotary_dim; i += 2) frequencies.push_back(std::pow(base, -static_cast<double>(i) / dim));

  // Each frequency f becomes (1 - kept) · f / factor + kept · f.
  auto divide = [&](auto&& kept) {
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      const double keep = std::clamp(kept(static_cast<double>(i), frequencies[i]), 0.0, 1.0);
      frequencies[i] *= (1.0 - keep) / r.factor + keep;
    }
  };
  constexpr double turn = 2.0 * std::numbers::pi;
  if (r.scaling == RopeScaling::linear) divide([](double, double) { return 0.0; });
  if (r.scaling == RopeScaling::llama3)
    divide([&](double, double f) { return (original * f / turn - r.low_factor) / (r.high_factor - r.low_factor); });
  if (r.scaling == RopeScaling::yarn) {
    // The pair that makes so many turns in the original positions.
    auto pair = [&](double turns) { return dim * std::log(original / (turns * turn)) / (2.0 * std::log(base)); };
    double low = pair(r.fast_turns), high = pair(r.slow_turns);
    if (r.whole_pairs) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0), high = std::min(high, dim - 1.0);
    if (low == high) high += 0.001;
    divide([&](double i, double) { return 1.0 - (i - low) / (high - low); });
  }
  return frequencies;
}

std::vector<float> alibi_slopes(std::int64_t heads) {
  std::int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<float> slopes;
  for (std::int64_t i = 0; i < power; ++i) slopes.push_back(std::exp2(-8.0F * static_cast<float>(i + 1) / static_cast<float>(power)));
  // The remaining heads take every other slope of the sequence for twice as many heads.
  for (std::int64_t i = 0; i < heads - power; ++i)
    slopes.push_back(std::exp2(-4.0F * static_cast<float>(2 * i + 1) / static_cast<float>(power)));
  return slopes;
}

AddedPositions::AddedPositions(PositionKind position_kind, std::int64_t max_positions, std::int64_t d_model, std::int64_t first_row)
    : kind(position_kind), positions(max_positions), d(d_model), offset(first_row) {
  if (kind == PositionKind::learned) table = {.shape = {offset + positions, d}, .init = Init::normal};
}

Tensor AddedPositions::operator()(Context& ctx, const Tensor& x, const Sequences& sequences, std::span<const std::int64_t> starts,
                                  const Tensor& given) const {
  const bool halves = kind == PositionKind::sinusoidal_halves;
  if (kind != PositionKind::learned && kind != PositionKind::sinusoidal && !halves) return x;
  if (const std::int64_t needed = given.defined() ? 0 : positions_needed(sequences, starts); needed > positions)
    fail("positions", "a sequence of {} tokens is longer than the {} positions of the table; raise max_positions", needed, positions);
  const Tensor rows = table.present() ? table.tensor : computed.get([&] { return sinusoidal_table(ctx, positions, d, halves); });
  return add(ctx, x, embedding(ctx, given.defined() ? given : position_ids(ctx, sequences, starts, offset), rows));
}

AttentionPositions::AttentionPositions(const StackConfig& resolved) : config(resolved) {
  if (config.positions == PositionKind::relative) relative = {.shape = {config.relative_buckets, config.heads}, .init = Init::normal};
}

Tensor AttentionPositions::bias(Context& ctx, std::int64_t longest) const {
  const std::int64_t width = std::max<std::int64_t>(2 * longest - 1, 1);
  if (config.positions == PositionKind::relative) {
    std::vector<std::int32_t> buckets;
    for (std::int64_t i = 0; i < width; ++i)
      buckets.push_back(static_cast<std::int32_t>(
          relative_bucket(i - (longest - 1), !config.causal, config.relative_buckets, config.relative_max_distance)));
    const Tensor by_distance = embedding(ctx, Tensor::from<std::int32_t>(ctx, {width}, buckets), relative, 1.0F, DType::float32);
    return transpose(ctx, by_distance, 0, 1);
  }
  if (config.positions == PositionKind::alibi) {
    std::vector<float> values;
    for (float slope : alibi_slopes(config.heads))
      for (std::int64_t i = 0; i < width; ++i) values.push_back(-slope * static_cast<float>(std::abs(i - (longest - 1))));
    return Tensor::from<float>(ctx, {config.heads, width}, values);
  }
  return {};
}

std::optional<RopeTable> AttentionPositions::rope(Context& ctx, std::int64_t longest) const {
  if (config.positions != PositionKind::rotary) return std::nullopt;
  if (longest > config.max_positions)
    fail("positions", "a sequence of {} tokens is longer than max_positions {}", longest, config.max_positions);
  // Beyond the original positions the dynamic frequencies are those of one length.
  const bool dynamic = config.rope.scaling == RopeScaling::dynamic;
  const std::int64_t length = dynamic ? std::max(longest, config.rope.original_positions) : 0;
  const auto fits = [&](const SizedTable& t) { return t.table.cos.dim(0) >= longest && t.length == length; };
  return rope_table
      .get(
          fits,
          [&] {
    std::int64_t size = 64;
    while (size < longest) size *= 2;
    return SizedTable{
        transformer::rope_table(ctx, std::min(size, config.max_positions), rope_frequencies(config, longest), config.rope.table_scale),
        length};
          })
      .table;
}

}  // namespace transformer
