// The command `transformer`: one file per verb, no logic here. Exit codes: 0 done, 1 an error, 2 wrong usage.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "cli/processes.h"
#include "cli/verbs.h"
#include "transformer/core/setting_error.h"
#include "transformer/io/config.h"

namespace transformer::cli {
namespace {

// Shows the two names of a switch as --[no-]lowercase.
struct HelpFormatter : CLI::Formatter {
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    const std::string name = CLI::Formatter::make_option_name(option, positional);
    const std::size_t no = name.find(",--no-");
    return no == std::string::npos ? name : "--[no-]" + name.substr(2, no - 2);
  }
};

// A switch takes its value in the same word; "--lowercase false" is made "--lowercase=false".
std::vector<std::string> arguments_of(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string given = argv[i];
    const bool value = (given == "true" || given == "false") && !arguments.empty() && arguments.back().starts_with("--") &&
        arguments.back().size() > 2 && arguments.back().find('=') == std::string::npos;
    if (value) arguments.back() += "=" + given;
    else arguments.push_back(given);
  }
  return arguments;
}

// The verb that the words of the command line have led to.
const CLI::App& chosen(const CLI::App& app) { return app.get_subcommands().empty() ? app : chosen(*app.get_subcommands().back()); }

std::string path_of(const CLI::App& verb) {
  return verb.get_parent() == nullptr ? verb.get_name() : path_of(*verb.get_parent()) + " " + verb.get_name();
}

// What is wrong, with the nearest known name for one that is not known.
std::string usage_error(const CLI::App& verb, const std::vector<std::string>& left_over, const std::string& message) {
  if (left_over.empty()) return message;
  const std::string& given = left_over.front();
  std::vector<std::string> known;
  if (given.starts_with('-')) {
    for (const CLI::Option* option : verb.get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  } else {
    for (const CLI::App* sub : verb.get_subcommands([](const CLI::App*) { return true; })) known.push_back(sub->get_name());
  }
  return fmt::format("unexpected '{}'{}", given, did_you_mean(given.substr(0, given.find('=')), known));
}

int run(int argc, char** argv) {
  CLI::App app{"Train, run, look inside and serve Transformers.", "transformer"};
  app.set_version_flag("--version", TRANSFORMER_VERSION);
  app.formatter(std::make_shared<HelpFormatter>());
  app.require_subcommand(1);
  add_classify(app);
  add_demo(app);
  add_embed(app);
  add_evaluate(app);
  add_forecast(app);
  add_explain(app);
  add_generate(app);
  add_inspect(app);
  add_merge(app);
  add_run(app);
  add_serve(app);
  add_tokenize(app);
  add_train(app);
  add_translate(app);
  const auto wrong_usage = [&app](const std::string& message) {
    const CLI::App& verb = chosen(app);
    return failed(fmt::format("{}\nRun '{} --help' for what is possible.", usage_error(verb, app.remaining(true), message), path_of(verb)),
                  2);
  };
  try {
    std::vector<std::string> arguments = arguments_of(argc, argv);
    const auto named = [&](const CLI::App* sub) { return !arguments.empty() && sub->get_name() == arguments.front(); };
    if (!app.get_subcommands(named).empty()) begin_processes(arguments);
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& e) {
    return e.get_exit_code() == 0 ? app.exit(e) : wrong_usage(e.what());  // 0: help, version
  } catch (const SettingError& e) {
    return wrong_usage(in_flags(chosen(app), (e.key().empty() ? "" : "`" + e.key() + "` ") + e.problem()));
  } catch (const Error& e) {
    if (app.remaining_size(true) > 0) return wrong_usage(e.what());  // a flag that is not known, and its value taken for something else
    return failed(in_flags(chosen(app), e.what()), 1);
  }
  if (std::cout.flush().fail() || std::fflush(stdout) != 0 || std::ferror(stdout) != 0) fail("standard output", "cannot be written");
  return 0;
}

}  // namespace
}  // namespace transformer::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // as other filters: when the reader goes away, end without a word
  std::signal(SIGXFSZ, SIG_IGN);  // a file larger than the user's limit (ulimit -f) is an Error, as a full disk is
  try {
    const int code = transformer::cli::run(argc, argv);
    transformer::cli::leave_processes();
    return code;
  } catch (const std::bad_alloc&) {
    return transformer::cli::failed("there is not enough memory for what was asked for: ask for less at a time, or for smaller sizes", 1);
  } catch (const std::exception& e) {
    return transformer::cli::failed(e.what(), 1);
  }
}
