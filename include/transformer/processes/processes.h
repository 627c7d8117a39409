#pragma once
// The processes that were started together: by mpirun, by Slurm's srun, or by `transformer train … --devices N`.
//
//   const auto together = join_processes();   // null: this one was started alone
//   Context ctx({.communicator = together});

#include <memory>
#include <string>

#include "transformer/core/communicator.h"

namespace transformer {

// As the launcher's variables in the environment say: 1 where there is none. TRANSFORMER_PROCESSES=alone: 1 in any case.
int started_processes();
int started_rank();  // this one's among them, by the same launcher

// Waits until all are there; null when this process was started alone. (TRANSFORMER_PROCESSES=one: it then exchanges everything with
// itself, for tests of that.) Error where this build has no MPI, or another one than the
// launcher's. While it is used, a process that ends or goes silent ends all the others, which say why (see docs/scale.md).
std::shared_ptr<Communicator> join_processes();

// This process cannot go on, and so none can: tells the first process, which says the reason with the rank, and ends this one with the
// code. The first itself says what it was given, as it is.
[[noreturn]] void end_processes(Communicator& processes, const std::string& reason, int code);

// Threads that this process may use when its neighbours on the machine do the same.
int fair_threads(Communicator& processes);

}  // namespace transformer
