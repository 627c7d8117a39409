#pragma once
// Ctrl-C and SIGTERM as a wish: the update under way is finished and the state saved. A second signal ends at once.

#include <atomic>

namespace transformer::cli {

const std::atomic<bool>* stop_on_signals();  // becomes true when a signal has come

}  // namespace transformer::cli
