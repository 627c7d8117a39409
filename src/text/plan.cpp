// Which pairs make a batch: the order of an epoch as a pure function of the seed, the epoch and the lengths.
#include <algorithm>
#include <numeric>

#include "transformer/core/random.h"
#include "transformer/text/parallel.h"

namespace transformer {
namespace {

constexpr std::string_view where = "plan_epoch";

// Batches that one bucket is enough for: within it pairs are sorted by length.
constexpr std::int64_t bucket_batches = 64;

// Fisher and Yates. Written out because std::shuffle may differ between libraries.
template <class T>
void shuffle(std::vector<T>& items, const RandomStream& random) {
  for (std::uint64_t i = items.size(); i > 1; --i) {
    // A number in [0, i): the top half of a 96-bit product, its bias below 2⁻³² even for 2³² items.
    const std::uint64_t high = random.bits(2 * i), low = random.bits(2 * i + 1);
    const auto other = static_cast<std::size_t>((high * i + (low * i >> 32)) >> 32);
    std::swap(items[i - 1], items[other]);
  }
}

struct Load {
  std::int64_t source = 0, target = 0;  // tokens, special ones included
  std::int64_t larger() const { return std::max(source, target); }
};

Load load_of(const PairDataset& data, std::int64_t i) { return {std::ssize(data.source(i)) + 1, std::ssize(data.target(i)) + 1}; }

// Sorts each bucket by length, up in one and down in the next, so that lengths change little where two buckets meet.
void sort_buckets(const PairDataset& data, std::vector<std::int64_t>& order, std::int64_t max_tokens) {
  bool up = true;
  for (auto begin = order.begin(); begin != order.end(); up = !up) {
    auto end = begin;
    for (std::int64_t tokens = 0; end != order.end() && tokens < bucket_batches * max_tokens; ++end) tokens += load_of(data, *end).larger();
    std::stable_sort(begin, end, [&](std::int64_t i, std::int64_t j) {
      const Load a = load_of(data, up ? i : j), b = load_of(data, up ? j : i);
      return a.target != b.target ? a.target < b.target : a.source < b.source;
    });
    begin = end;
  }
}

}  // namespace

std::vector<std::vector<std::int64_t>> plan_epoch(const PairDataset& data, std::int64_t max_tokens, std::uint64_t seed, std::int64_t epoch) {
  if (max_tokens < 1) fail(where, "max_tokens is {}, must be at least 1", max_tokens);
  if (epoch < 0 || epoch > 0xFFFFFFFF) fail(where, "there is no epoch {}", epoch);
  // Steps of the training draw from streams of the same seed; their ops are counted from 0 and never come up here.
  const auto stream = [&](std::uint32_t op) { return RandomStream{seed, static_cast<std::uint32_t>(epoch), op}; };

  std::vector<std::int64_t> order(static_cast<std::size_t>(data.size()));
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, stream(0xFFFFFFFF));
  sort_buckets(data, order, max_tokens);

  std::vector<std::vector<std::int64_t>> batches;
  Load batch;
  for (const std::int64_t i : order) {
    const Load pair = load_of(data, i);
    if (pair.larger() > max_tokens)
      fail(where, "pair {} has {} tokens, more than a batch may have (max_tokens {}): raise that, or leave out long pairs with max_length", i,
           pair.larger(), max_tokens);
    batch = {batch.source + pair.source, batch.target + pair.target};
    if (batches.empty() || batch.larger() > max_tokens) {
      batches.emplace_back();
      batch = pair;
    }
    batches.back().push_back(i);
  }
  shuffle(batches, stream(0xFFFFFFFE));
  return batches;
}

}  // namespace transformer
