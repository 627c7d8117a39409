// The processors that narrow the distribution before a token is drawn.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/shared/top_k.h"
#include "generate/softmax_row.h"
#include "transformer/generate/logits.h"

namespace transformer {
namespace {

using Logits = std::span<float>;

// Removes what is improbable, but never the best token.
void keep_at_least(Logits logits, const RowSoftmax& softmax, double probability) {
  for (float& value : logits)
    if (value < softmax.largest && softmax.probability(value) < probability) value = never;
}

// The entropy of the row: -Σ p log p.
double entropy(Logits logits, const RowSoftmax& softmax) {
  const double log_sum = softmax.log_sum();
  double sum = 0.0;
  for (const float value : logits)
    if (value > never) sum -= softmax.probability(value) * (static_cast<double>(value) - log_sum);
  return sum;
}

// Looks at values alone, so that some of a row are changed as the whole is. Behind it every logit counts: what stays depends on all.
template <class F>
LogitsProcessor by_value(F change) {
  return {[change](const LogitsRow&, Logits logits) { change(logits); },
          {[](const LogitsRow&, std::int64_t) { return LogitsProcessor::every; },
           [change](const LogitsRow&, SomeLogits& best) {
    change(best.values);
    return best.all;
           }}};
}

}  // namespace

LogitsProcessor temperature(double value) {
  const auto divide = [t = static_cast<float>(value)](Logits logits) {
    for (float& v : logits) v /= t;
  };
  return {[divide](const LogitsRow&, Logits logits) { divide(logits); },
          {[](const LogitsRow&, std::int64_t after) { return after; },
           [divide](const LogitsRow&, SomeLogits& best) {
    divide(best.values);
    return true;
           }}};
}

LogitsProcessor top_k_only(std::int64_t k) {
  // True where anything was cut.
  const auto cut = [k](Logits logits) {
    if (static_cast<std::size_t>(k) >= logits.size()) return false;
    std::vector<Scored> best;
    top_k(logits, static_cast<std::size_t>(k), best);
    if (best.size() < static_cast<std::size_t>(k)) return false;  // no more than that have a probability
    bool any = false;
    for (float& v : logits)
      if (v < best.back().value) any |= v > never, v = never;
    return any;
  };
  return {[cut](const LogitsRow&, Logits logits) { cut(logits); },
          // One more than stay: where it is cut, so is all that is not known.
          {[k](const LogitsRow&, std::int64_t) { return k + 1; },
           [cut](const LogitsRow&, SomeLogits& best) { return best.all |= cut(best.values); }}};
}

// A token stays when the probabilities of those before it sum to less than p.
LogitsProcessor top_p(double p) {
  return by_value([p](Logits logits) {
    const RowSoftmax softmax(logits);
    std::vector<Scored> order;
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (logits[i] > never) order.push_back({logits[i], static_cast<std::int32_t>(i)});
    if (order.empty()) return;
    const auto before = [](const Scored& a, const Scored& b) { return a.value != b.value ? a.value > b.value : a.id < b.id; };
    // The first tokens usually suffice: they are put in order part by part, the others never.
    std::size_t kept = 0, sorted = 0;
    for (double mass = 0.0; kept < order.size() && (kept == 0 || mass < p); ++kept) {
      if (kept == sorted) {
        const std::size_t more = std::min(order.size(), sorted == 0 ? std::size_t{256} : 8 * sorted);
        const auto at = [&](std::size_t i) { return order.begin() + static_cast<std::ptrdiff_t>(i); };
        std::partial_sort(at(sorted), at(more), order.end(), before);
        sorted = more;
      }
      mass += softmax.probability(order[kept].value);
    }
    for (std::size_t i = kept; i < order.size(); ++i) logits[static_cast<std::size_t>(order[i].id)] = never;
  });
}

LogitsProcessor min_p(double p) {
  return by_value([p](Logits logits) {
    const RowSoftmax softmax(logits);
    keep_at_least(logits, softmax, p * softmax.probability(softmax.largest));
  });
}

// The tokens whose surprise is nearest to the expected one come first; they stay until their mass is reached.
LogitsProcessor typical_p(double mass) {
  return by_value([mass](Logits logits) {
    const RowSoftmax softmax(logits);
    const double expected = entropy(logits, softmax), log_sum = softmax.log_sum();
    struct Item {
      double distance;
      std::size_t id;
    };
    std::vector<Item> order;
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (logits[i] > never) order.push_back({std::abs(log_sum - static_cast<double>(logits[i]) - expected), i});
    std::stable_sort(order.begin(), order.end(), [](const Item& a, const Item& b) { return a.distance < b.distance; });
    double sum = 0.0, limit = 0.0;
    for (const Item& item : order) {
      limit = item.distance;
      sum += softmax.probability(logits[item.id]);
      if (!(sum < mass)) break;
    }
    for (std::size_t i = 1; i < order.size(); ++i)
      if (order[i].distance > limit) logits[order[i].id] = never;
  });
}

LogitsProcessor epsilon_cutoff(double epsilon) {
  return by_value([epsilon](Logits logits) { keep_at_least(logits, RowSoftmax(logits), epsilon); });
}

LogitsProcessor eta_cutoff(double epsilon) {
  return by_value([epsilon](Logits logits) {
    const RowSoftmax softmax(logits);
    keep_at_least(logits, softmax, std::min(epsilon, std::sqrt(epsilon) * std::exp(-entropy(logits, softmax))));
  });
}

std::int32_t draw(std::span<const float> logits, double u) {
  const RowSoftmax softmax(logits);
  if (!(softmax.sum > 0.0) || !std::isfinite(softmax.sum)) return -1;
  const double target = u * softmax.sum;
  double sum = 0.0;
  std::int32_t last = -1;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > never)) continue;
    last = static_cast<std::int32_t>(i);
    sum += static_cast<double>(std::exp(logits[i] - softmax.largest));
    if (sum > target) break;
  }
  return last;
}

}  // namespace transformer
