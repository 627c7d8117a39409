#pragma once

#include "transformer/core/communicator.h"

namespace transformer::test {

// One of several processes, of which the others are not there; of one, which exchanges with itself.
class Pretended final : public Communicator {
 public:
  using Communicator::all_gather;
  Pretended(int rank, int size) : Communicator(Place{.rank = rank, .size = size, .local_rank = rank, .local_size = size}) {}
  bool alone() const override { return false; }
};

}  // namespace transformer::test
