#pragma once

#include <memory>
#include <string>

#include "transformer/core/communicator.h"

namespace transformer {

// Processes of which each can end all.
class JoinedProcesses : public Communicator {
 public:
  using Communicator::Communicator;
  [[noreturn]] virtual void end(const std::string& reason, int code) = 0;
};

std::shared_ptr<JoinedProcesses> join_by_mpi(int expected);  // in mpi/, or in no_mpi/ where there is none

}  // namespace transformer
