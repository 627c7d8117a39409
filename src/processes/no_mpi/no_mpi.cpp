// Linked where MPI was not found.
#include "processes/joined.h"
#include "transformer/core/error.h"

namespace transformer {

std::shared_ptr<JoinedProcesses> join_by_mpi(int expected) {
  fail("processes",
       "{} processes were started together, but this program was built without MPI: install it (Debian: libopenmpi-dev) and build again. "
       "TRANSFORMER_PROCESSES=alone makes each work by itself",
       expected);
}

}  // namespace transformer
