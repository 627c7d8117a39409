#include "cli/processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "transformer/core/error.h"
#include "transformer/core/setting_error.h"
#include "transformer/processes/processes.h"

namespace transformer::cli {
namespace {

std::shared_ptr<Communicator>& joined() {
  static std::shared_ptr<Communicator> together;
  return together;
}

std::vector<std::string>& given() {
  static std::vector<std::string> arguments;
  return arguments;
}

// The same command by so many processes of this machine.
[[noreturn]] void start(std::int64_t count) {
  unsetenv("TRANSFORMER_PROCESSES");  // each by itself would start as many again
  // As Open MPI is told in its environment, which others ignore: whoever asks for so many wants so many.
  setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0);
  setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
  if (geteuid() == 0)
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) setenv(name, "1", 0);
  char program[4096] = "";
  if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) std::strcpy(program, "transformer");
  std::vector<std::string> words{"mpirun", "-n", std::to_string(count), program};
  words.insert(words.end(), given().begin(), given().end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(pointers.front(), pointers.data());
  fail("--devices", "cannot start mpirun, which starts the {} processes: {}. Install it (Debian: openmpi-bin)", count,
       std::strerror(errno));
}

// Each would do all of the work, and write the same files. The first one says so; the others leave without a word.
void be_the_only_one(const std::string& verb) {
  const int started = started_processes();
  if (started == 1) return;
  if (started_rank() > 0) std::exit(0);
  std::exit(failed(fmt::format("{} works as one process, and {} were started: leave out the launcher, or set TRANSFORMER_PROCESSES=alone "
                               "where each of them has work of its own",
                               verb, started),
                   2));
}

}  // namespace

void begin_processes(const std::vector<std::string>& arguments) {
  if (arguments.front() != "train") return be_the_only_one(arguments.front());
  given() = arguments;
  joined() = join_processes();
  if (first_process()) return;
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, stream);
  close(nowhere);
}

void start_devices(std::int64_t count) {
  if (count < 1 || count > 1024) wrong_setting("train", "devices", "is {}: expected 1 to 1024", count);  // mpirun crashes with too many
  if (count == 1) return;
  if (started_processes() == 1) start(count);
  if (const int here = joined()->place().local_size; here != count)
    wrong_setting("train", "devices", "is {}, but the launcher of these processes has started {} on this machine: leave it out", count,
                  here);
}

std::shared_ptr<Communicator> processes() { return joined(); }
bool first_process() { return !joined() || joined()->first(); }
void leave_processes() { joined().reset(); }

int failed(const std::string& message, int code) {
  std::fflush(stdout);
  if (joined()) end_processes(*joined(), first_process() ? "transformer: " + message : message, code);
  fmt::print(stderr, "transformer: {}\n", message);
  return code;
}

}  // namespace transformer::cli
