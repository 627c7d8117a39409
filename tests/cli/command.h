#pragma once
// The built command, run in a folder of its own.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/paths.h"
#include "support/temporary_folder.h"

namespace transformer::test {

inline void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in:\n" << text;
}

inline std::int64_t lines_of(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

struct CommandResult {
  int code = -1;
  std::string out, err;
};

class Command : public testing::Test {
 protected:
  std::string read(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name, std::ios::binary) << text; }

  // `transformer ARGUMENTS` in a folder of its own, through the shell; `after` may be a pipe.
  CommandResult run(const std::string& arguments, const std::string& input = "", const std::string& after = "") const {
    write("stdin", input);
    const std::string line = "cd '" + folder_.path().string() + "' && { '" + command_path().string() + "' " + arguments +
        "; } < stdin 2> stderr " + after + " > stdout";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("stdout"), read("stderr")};
  }

  // Wrong usage: code 2, one line that says what, one where to look, and nothing on standard output.
  void expect_usage(const std::string& arguments, const std::string& message) const {
    const CommandResult r = run(arguments);
    EXPECT_EQ(r.code, 2) << arguments;
    EXPECT_EQ(r.out, "");
    EXPECT_TRUE(r.err.starts_with("transformer: ")) << r.err;
    expect_parts(r.err, {message, "--help' for what is possible"});
  }
  void expect_failure(const std::string& arguments, const std::string& message, const std::string& input = "") const {
    const CommandResult r = run(arguments, input);
    EXPECT_EQ(r.code, 1) << arguments;
    EXPECT_TRUE(("\n" + r.err).find("\ntransformer: ") != std::string::npos && r.err.ends_with("\n")) << r.err;
    expect_parts(r.err, {message});
  }

  TemporaryFolder folder_;
};

}  // namespace transformer::test
