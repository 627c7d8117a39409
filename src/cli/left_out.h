#pragma once
// What is told about images that are not used.

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <vector>

#include "transformer/vision/dataset.h"

namespace transformer::cli {

inline void tell_left_out(const std::vector<const ImageSet*>& sets) {
  constexpr std::size_t most = 20;
  std::size_t broken = 0;
  for (const ImageSet* set : sets) {
    for (const std::string& note : set->notes()) fmt::print(stderr, "transformer: {}\n", note);
    for (const std::string& what : set->broken())
      if (++broken <= most) fmt::print(stderr, "transformer: {}\n", what);
  }
  if (broken > most) fmt::print(stderr, "transformer: … and {} more\n", broken - most);
  if (broken > 0) fmt::print(stderr, "left out: {} {} that cannot be read\n", broken, broken == 1 ? "image" : "images");
}

}  // namespace transformer::cli
