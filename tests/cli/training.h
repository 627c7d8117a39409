#pragma once
// `transformer train …` in the background, and what it leaves behind.

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <map>

#include "cli/command.h"
#include "support/paths.h"

namespace transformer::test {

class Training : public Command {
 protected:
  static std::string words(const std::vector<std::string>& list) {
    std::string text;
    for (const std::string& word : list) text += word + " ";
    return text;
  }

  // Starts the command in the background; its messages go to the file `log`.
  pid_t start(const std::vector<std::string>& list) const {
    std::filesystem::remove(folder_ / "log");  // what is read there is this run's
    const pid_t child = fork();
    if (child != 0) return child;
    std::vector<char*> argv{const_cast<char*>("transformer")};
    for (const std::string& word : list) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    if (chdir(folder_.path().c_str()) != 0) _exit(126);
    const int log = open("log", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dup2(log, STDERR_FILENO), dup2(log, STDOUT_FILENO);
    execv(command_path().c_str(), argv.data());
    _exit(127);
  }

  // Every file of a folder that a run with the same settings must reproduce.
  std::map<std::string, std::string> model_files(const std::string& folder) const {
    std::map<std::string, std::string> out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / folder))
      if (entry.path().extension() == ".safetensors" || entry.path().extension() == ".model") {
        const std::string name = std::filesystem::relative(entry.path(), folder_ / folder).string();
        out[name] = read(folder + "/" + name);
      }
    return out;
  }
};

}  // namespace transformer::test
