// Killed at random moments and resumed, every task ends with the bits of a run that was never stopped.
#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "cli/tasks.h"
#include "cli/training.h"
#include "transformer/train/trainer.h"

namespace transformer::test {
namespace {

class Resume : public Training, public testing::WithParamInterface<TaskCase> {
 protected:
  static std::vector<std::string> command(const std::string& folder) {
    std::vector<std::string> list = GetParam().arguments;
    list.insert(list.end(), {"--save-dir", folder});
    return list;
  }
};

TEST_P(Resume, KilledTenTimesEndsWithTheSameBits) {
  GetParam().data([this](const std::string& name, const std::string& content) { write(name, content); });
  if (const std::string& first = GetParam().first; !first.empty()) {
    ASSERT_EQ(run(first).code, 0) << read("stderr");
  }
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run(words(command("straight"))).code, 0) << read("stderr");
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
  const double longest = std::min(whole.count() / 6, 0.3);  // ten lives together are too short to finish
  std::mt19937 random(20170612);
  const auto newest = [&] {
    const auto checkpoint = latest_checkpoint(folder_ / "killed");
    return checkpoint ? checkpoint->filename().string() : "";
  };
  const auto wait = [&](double most) {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::uniform_real_distribution(0.0, most)(random)));
  };
  int killed = 0, further = 0;
  for (int i = 0; i < 10; ++i) {
    const std::string before = newest();
    const pid_t child = start(command("killed"));
    if (i % 2 == 0) {
      wait(longest);  // at any moment, or
    } else {          // soon after it has come further
      const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(2);
      const auto done = [&] {  // it had nothing left to do
        siginfo_t info{};
        return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child;
      };
      while (newest() == before && !done() && std::chrono::steady_clock::now() < limit) wait(0.002);
      wait(longest / 4);
    }
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    killed += WIFSIGNALED(status) ? 1 : 0;
    further += newest() != before ? 1 : 0;
  }
  EXPECT_GE(killed, Device::usual().kind == Device::Kind::cuda ? 5 : 10);  // a GPU may be done before: most of a life goes into its start
  EXPECT_GE(2 * further, killed);                                          // it was resumed from somewhere
  ASSERT_EQ(run(words(command("killed"))).code, 0) << read("stderr");
  const auto expected = model_files("straight"), got = model_files("killed");
  EXPECT_GT(expected.size(), 6U);
  for (const auto& [name, bytes] : expected) {
    ASSERT_TRUE(got.contains(name)) << name;
    EXPECT_TRUE(got.at(name) == bytes) << name << " differs";
  }
  EXPECT_EQ(got.size(), expected.size());
}

INSTANTIATE_TEST_SUITE_P(Tasks, Resume, testing::ValuesIn(task_cases), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace transformer::test
