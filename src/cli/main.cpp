// The command `transformer`: one file a verb, no logic here.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "cli/verbs.h"

int main(int argc, char** argv) {
  CLI::App app{"Train, run, look inside and serve Transformers.", "transformer"};
  app.set_version_flag("--version", TRANSFORMER_VERSION);
  app.require_subcommand(1);
  transformer::cli::add_inspect(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& e) {
    return app.exit(e);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "transformer: %s\n", e.what());
    return 1;
  }
}
