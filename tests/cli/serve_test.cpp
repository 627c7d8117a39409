// `transformer serve`: which folders are served under which names.
#include <httplib.h>

#include <chrono>
#include <thread>

#include "cli/training.h"
#include "predict/model_folder.h"

namespace transformer::test {
namespace {

namespace fs = std::filesystem;

class ServeVerb : public Training {
 protected:
  // What a server of these models says of itself; it is ended by Ctrl-C.
  std::string health(const std::vector<std::string>& models) const {
    std::vector<std::string> words{"serve", "--port", "0"};
    words.insert(words.end(), models.begin(), models.end());
    const pid_t server = start(words);
    std::string answer;
    for (int i = 0; i < 200 && answer.empty(); ++i, std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
      const std::string log = read("log"), before = "listening at http://127.0.0.1:";
      const std::size_t at = log.find(before);
      if (at == std::string::npos || !log.ends_with('\n')) continue;
      const auto result = httplib::Client("127.0.0.1", std::stoi(log.substr(at + before.size()))).Get("/health");
      answer = result ? result->body : "no answer";
    }
    kill(server, SIGINT);
    waitpid(server, nullptr, 0);
    return answer;
  }
};

TEST_F(ServeVerb, ANameIsNoFolderAndAFolderIsNoName) {
  const ModelFolder model(golden_cases("gpt2").front());
  fs::create_directories(folder_ / "lr=0.1");
  fs::copy(model.path(), folder_ / "lr=0.1" / "model", fs::copy_options::recursive);
  expect_usage("serve =lr=0.1/model", "MODEL is '=lr=0.1/model': expected a folder, or NAME=FOLDER");
  expect_usage("serve name=", "MODEL is 'name=': expected a folder, or NAME=FOLDER");
  expect_failure("serve name=none", "none/config.json: cannot read");
  expect_parts(health({"lr=0.1/model"}), {R"(["model"])"});
  expect_parts(health({"lr=0.1/model/", "x=lr=0.1/model"}), {R"(["model","x"])"});
}

}  // namespace
}  // namespace transformer::test
