#include "cli/stop.h"

#include <csignal>
#include <initializer_list>

namespace transformer::cli {
namespace {

std::atomic<bool> asked = false;

void ask(int signal) {
  asked = true;
  std::signal(signal, SIG_DFL);
}

}  // namespace

const std::atomic<bool>* stop_on_signals() {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, ask);
  return &asked;
}

}  // namespace transformer::cli
