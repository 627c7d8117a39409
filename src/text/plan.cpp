// Which texts or pairs make a batch: the order of an epoch as a pure function of the seed, the epoch and the lengths.
#include "text/shared/plan.h"

#include <algorithm>

#include "transformer/core/setting_error.h"
#include "transformer/core/shuffle.h"
#include "transformer/text/parallel.h"

namespace transformer {
namespace {

// Batches that one bucket is enough for: within it pairs are sorted by length.
constexpr std::int64_t bucket_batches = 64;

struct Pair {
  std::int64_t index = 0, source = 0, target = 0;  // tokens of either side, special ones included; a text alone: both the same
  std::int64_t larger() const { return std::max(source, target); }
};

// Sorts each bucket by length, up in one and down in the next, so that lengths change little where two buckets meet.
void sort_buckets(std::vector<Pair>& order, std::int64_t max_tokens) {
  bool up = true;
  for (auto begin = order.begin(); begin != order.end(); up = !up) {
    auto end = begin;
    for (std::int64_t tokens = 0; end != order.end() && tokens < bucket_batches * max_tokens; ++end) tokens += end->larger();
    std::stable_sort(begin, end, [up](const Pair& i, const Pair& j) {
      const Pair &a = up ? i : j, &b = up ? j : i;
      return a.target != b.target ? a.target < b.target : a.source < b.source;
    });
    begin = end;
  }
}

// name: of what has those lengths, "pair" or "text".
std::vector<std::vector<std::int64_t>> plan(std::vector<Pair> order, std::string_view name, std::int64_t max_tokens, std::uint64_t seed,
                                            std::int64_t epoch) {
  if (max_tokens < 1) wrong_setting("plan_epoch", "max_tokens", "is {}, must be at least 1", max_tokens);
  if (epoch < 0 || epoch > 0xFFFFFFFF) fail("plan_epoch", "there is no epoch {}", epoch);
  shuffle(order, epoch_stream(seed, epoch));
  sort_buckets(order, max_tokens);

  std::vector<std::vector<std::int64_t>> batches;
  Pair batch;
  for (const Pair& pair : order) {
    if (pair.larger() > max_tokens)
      fail("plan_epoch", "{} {} has {} tokens, more than a batch may have (max_tokens {}): raise that, or lower max_length", name,
           pair.index, pair.larger(), max_tokens);
    batch.source += pair.source, batch.target += pair.target;
    if (batches.empty() || batch.larger() > max_tokens) {
      batches.emplace_back();
      batch = pair;
    }
    batches.back().push_back(pair.index);
  }
  shuffle(batches, epoch_stream(seed, epoch, 1));
  return batches;
}

}  // namespace

std::vector<std::vector<std::int64_t>> plan_epoch(const PairDataset& data, std::int64_t max_tokens, std::uint64_t seed,
                                                  std::int64_t epoch) {
  std::vector<Pair> order;
  order.reserve(static_cast<std::size_t>(data.size()));
  for (std::int64_t i = 0; i < data.size(); ++i) order.push_back({i, std::ssize(data.source(i)) + 1, std::ssize(data.target(i)) + 1});
  return plan(std::move(order), "pair", max_tokens, seed, epoch);
}

std::vector<std::vector<std::int64_t>> plan_epoch(const TokenLists& texts, std::int64_t max_tokens, std::uint64_t seed,
                                                  std::int64_t epoch) {
  std::vector<Pair> order;
  order.reserve(static_cast<std::size_t>(texts.count()));
  for (std::int64_t i = 0; i < texts.count(); ++i) order.push_back({i, std::ssize(texts.at(i)), std::ssize(texts.at(i))});
  return plan(std::move(order), "text", max_tokens, seed, epoch);
}

}  // namespace transformer
