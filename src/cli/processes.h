#pragma once
// The processes that were started together for `transformer train`. Only the first one speaks; an error of any of them is heard.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transformer/core/communicator.h"

namespace transformer::cli {

// Joins the others when a launcher has started several; other verbs than train are refused then. `arguments` without the program's name,
// and the first is a verb.
void begin_processes(const std::vector<std::string>& arguments);
// Of --devices, before anything is computed: where several are asked for and nobody has started them, mpirun does, with the same arguments.
void start_devices(std::int64_t count);
std::shared_ptr<Communicator> processes();  // null: this one is alone
bool first_process();                       // or the only one
void leave_processes();                     // all is done

// Says what was wrong and gives the code back; with several processes it ends all of them.
int failed(const std::string& message, int code);

}  // namespace transformer::cli
