#pragma once
// Work that several processes share: validation.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "transformer/core/context.h"

namespace transformer {

// take(i, measure(i)) for i = 0 … count - 1, in this order, where measure gives a vector of numbers and each is computed by one of the
// processes: what is summed up of them is the same for any number of processes, to the last bit.
template <class T, class Measure, class Take>
void share_out(Context& ctx, std::int64_t count, Measure&& measure, Take&& take) {
  Communicator& processes = ctx.communicator();
  if (processes.alone()) {
    for (std::int64_t i = 0; i < count; ++i) take(i, measure(i));
    return;
  }
  std::string mine;
  for (std::int64_t i = processes.rank(); i < count; i += processes.size()) {
    const std::vector<T> values = measure(i);
    const auto n = static_cast<std::int64_t>(values.size());
    mine.append(reinterpret_cast<const char*>(&n), sizeof n);
    mine.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  const std::vector<std::string> all = processes.all_gather(mine);
  std::vector<std::size_t> at(all.size(), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto rank = static_cast<std::size_t>(i % processes.size());
    std::int64_t n = 0;
    all[rank].copy(reinterpret_cast<char*>(&n), sizeof n, at[rank]);
    std::vector<T> values(static_cast<std::size_t>(n));
    all[rank].copy(reinterpret_cast<char*>(values.data()), values.size() * sizeof(T), at[rank] + sizeof n);
    at[rank] += sizeof n + values.size() * sizeof(T);
    take(i, std::move(values));
  }
}

}  // namespace transformer
