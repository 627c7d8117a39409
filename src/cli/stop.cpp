#include "cli/stop.h"

#include <csignal>
#include <initializer_list>
#include <vector>

namespace transformer::cli {
namespace {

std::atomic<bool> asked = false;

void ask(int signal) {
  asked = true;
  std::signal(signal, SIG_DFL);
}

}  // namespace

// The handler has a stack of its own: some of oneDNN's kernels keep theirs in memory that ends closely below it.
const std::atomic<bool>* stop_on_signals() {
  static std::vector<char> memory(std::size_t{1} << 16);
  const stack_t stack{.ss_sp = memory.data(), .ss_flags = 0, .ss_size = memory.size()};
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = ask;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
  return &asked;
}

}  // namespace transformer::cli
