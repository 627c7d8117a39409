#include "transformer/processes/processes.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string_view>
#include <utility>

#include "processes/joined.h"
#include "transformer/core/parallel.h"

namespace transformer {
namespace {

// One process that goes the way of several.
class OneOfOne final : public Communicator {
 public:
  OneOfOne() : Communicator(Place{}) {}
  bool alone() const override { return false; }
};

std::string_view wanted_processes() {
  const char* wanted = std::getenv("TRANSFORMER_PROCESSES");
  return wanted != nullptr ? wanted : "";
}

struct Launched {
  int size = 1, rank = 0;
};
Launched launched() {
  if (wanted_processes() == "alone") return {};
  // Open MPI; MPICH and Intel MPI, and srun with PMI-2; srun. The last is not set for what a batch script runs by itself, but for what an
  // mpirun that starts its own part on each machine by srun has started there.
  for (const auto& [count, place] :
       {std::pair{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, {"PMI_SIZE", "PMI_RANK"}, {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}) {
    const char *size = std::getenv(count), *rank = std::getenv(place);
    if (size != nullptr) return {std::atoi(size), rank != nullptr ? std::atoi(rank) : 0};
  }
  return {};
}

}  // namespace

int started_processes() { return std::max(1, launched().size); }
int started_rank() { return launched().rank; }

std::shared_ptr<Communicator> join_processes() {
  const int started = started_processes();
  if (started > 1) return join_by_mpi(started);
  return wanted_processes() == "one" ? std::make_shared<OneOfOne>() : nullptr;
}

void end_processes(Communicator& processes, const std::string& reason, int code) {
  if (auto* joined = dynamic_cast<JoinedProcesses*>(&processes)) joined->end(reason, code);
  std::cerr << reason << '\n';
  std::_Exit(code);
}

// The launcher may have given each process cores of its own; those that have the same ones share them.
int fair_threads(Communicator& processes) {
  struct Cores {
    char host[256] = "";
    cpu_set_t set;
  } mine{};
  gethostname(mine.host, sizeof mine.host - 1);
  CPU_ZERO(&mine.set);
  sched_getaffinity(0, sizeof mine.set, &mine.set);
  std::vector<Cores> all(static_cast<std::size_t>(processes.size()));
  processes.all_gather(&mine, sizeof mine, all.data());
  const auto sharing = std::count_if(
      all.begin(), all.end(), [&](const Cores& c) { return std::string_view(c.host) == mine.host && CPU_EQUAL(&c.set, &mine.set) != 0; });
  return std::max(1, hardware_threads() / std::max(1, static_cast<int>(sharing)));
}

}  // namespace transformer
