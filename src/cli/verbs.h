#pragma once
// Each verb adds itself to the command line: its flags, its help, and what it runs.

namespace CLI {
class App;
}

namespace transformer::cli {

void add_inspect(CLI::App& app);

}  // namespace transformer::cli
