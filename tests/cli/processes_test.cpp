// Several processes train as one does. TRANSFORMER_LONG_TESTS=1 tries every task with 2, 3 and 4 processes, and ten kills.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "cli/tasks.h"
#include "cli/training.h"
#include "transformer/core/context.h"
#include "transformer/io/safetensors.h"
#include "transformer/train/trainer.h"

namespace transformer::test {
namespace {

using Clock = std::chrono::steady_clock;

bool long_tests() { return std::getenv("TRANSFORMER_LONG_TESTS") != nullptr; }

// The row of a task without what it says of threads, of the end and of checkpoints.
std::string task_command(const TaskCase& task) {
  std::string out;
  for (std::size_t i = 0; i < task.arguments.size(); ++i) {
    const std::string& word = task.arguments[i];
    const bool out_of = word == "--threads" || word == "--max-epoch" || word == "--average" || word.ends_with("-interval-updates");
    if (out_of) ++i;
    else out += word + " ";
  }
  return out + "--threads 1 --log-interval 1 --validate-interval-updates 25 --save-interval-updates 25 ";
}

const TaskCase& task_named(const std::string& name) {
  return *std::find_if(task_cases.begin(), task_cases.end(), [&](const TaskCase& t) { return t.name == name; });
}

class Processes : public Training {
 protected:
  void SetUp() override {
    if (std::system("mpirun --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun";
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"})
      setenv(name, "1", 1);
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);  // containers may not
  }
  void make(const TaskCase& task) {
    task.data([this](const std::string& name, const std::string& content) { write(name, content); });
    if (!task.first.empty()) {
      ASSERT_EQ(run(task.first).code, 0) << read("stderr");
    }
  }
  // `arguments` by so many processes; each is a line of a shell, where $RANK is its rank.
  CommandResult together(int processes, const std::string& arguments, const std::string& before = "") const {
    const std::string line = fmt::format("cd '{}' && mpirun -n {} sh -c 'RANK=$OMPI_COMM_WORLD_RANK; {} exec {} {}' > stdout 2> stderr",
                                         folder_.path().string(), processes, before, command_path().string(), arguments);
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("stdout"), read("stderr")};
  }

  // |a - b| / |a| over the weights of two folders.
  double difference(const std::string& a, const std::string& b) const {
    const char* file = std::filesystem::exists(folder_ / a / "adapter_model.safetensors") ? "adapter_model.safetensors"
                                                                                          : "model.safetensors";
    const SafetensorsFile first(folder_ / a / file), second(folder_ / b / file);
    double apart = 0.0, size = 0.0;
    for (const std::string& name : first.names()) {
      if (first.tensor(name).dtype() != DType::float32) continue;  // a count
      const auto x = first.tensor(name).to_vector<float>(), y = second.tensor(name).to_vector<float>();
      EXPECT_EQ(x.size(), y.size()) << name;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double u = x[i], v = y[i];
        apart += (u - v) * (u - v), size += u * u;
      }
    }
    return std::sqrt(apart / size);
  }
  std::vector<std::pair<std::int64_t, double>> losses(const std::string& folder, const std::string& split) const {
    std::vector<std::pair<std::int64_t, double>> out;
    std::istringstream lines(read(folder + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto j = nlohmann::json::parse(line);
      if (j.at("split") == split && j.contains("loss")) out.emplace_back(j.at("step").get<std::int64_t>(), j.at("loss").get<double>());
    }
    return out;
  }
  std::string last(const std::string& folder) const {
    return std::filesystem::relative(*latest_checkpoint(folder_ / folder), folder_.path());
  }
  void expect_same_bits(const std::string& a, const std::string& b) const {
    const auto expected = model_files(a), got = model_files(b);
    EXPECT_GE(expected.size(), 3U);
    EXPECT_EQ(got.size(), expected.size());
    for (const auto& [name, bytes] : expected) EXPECT_TRUE(got.contains(name) && got.at(name) == bytes) << name << " differs";
  }
  void expect_same_losses(const std::string& a, const std::string& b, double tolerance) const {
    for (const char* split : {"train", "valid"}) {
      const auto x = losses(a, split), y = losses(b, split);
      ASSERT_GT(x.size(), split == std::string("train") ? 40U : 0U);
      if (split == std::string("train")) {
        ASSERT_EQ(x.size(), y.size());
      }
      const std::map<std::int64_t, double> there(y.begin(), y.end());  // a run that was stopped has validated there too
      for (const auto& [step, loss] : x) {
        ASSERT_TRUE(there.contains(step)) << split << " step " << step;
        EXPECT_NEAR(there.at(step), loss, tolerance * std::abs(loss)) << split << " step " << step;
      }
    }
  }
};

class ProcessesTask : public Processes, public testing::WithParamInterface<std::pair<std::string, int>> {};

TEST_P(ProcessesTask, LearnAsOneDoes) {
  const auto& [name, usual] = GetParam();
  const TaskCase& task = task_named(name);
  make(task);
  for (int n = long_tests() ? 2 : usual; n <= (long_tests() ? 4 : usual); ++n) {
    const std::string command = task_command(task) + "--max-update 50 ", cut = fmt::format("--batch-parts {} ", n);
    ASSERT_EQ(run(command + cut + fmt::format("--save-dir alone{}", n)).code, 0) << read("stderr");
    const CommandResult r = together(n, command + fmt::format("--save-dir many{}", n));
    ASSERT_EQ(r.code, 0) << r.err;
    const std::string alone = fmt::format("alone{}", n), many = fmt::format("many{}", n);
    const double apart = difference(last(alone), last(many));
    if (long_tests()) fmt::print("{} by {} processes: weights differ by {:.2e}\n", name, n, apart);
    EXPECT_LT(apart, 1e-5) << name << " by " << n;
    expect_same_losses(alone, many, 1e-6);
    EXPECT_EQ(losses(alone, "valid").size(), losses(many, "valid").size());
  }
}

INSTANTIATE_TEST_SUITE_P(Tasks, ProcessesTask,
                         testing::Values(std::pair{"classify", 3}, std::pair{"forecast", 2}, std::pair{"image", 4}, std::pair{"lm", 2},
                                         std::pair{"lora", 2}, std::pair{"mlm", 3}, std::pair{"tag", 2}, std::pair{"translate", 4}),
                         [](const auto& info) { return info.param.first; });

TEST_F(Processes, TwiceTheSameBitsAndAWayOnForOthers) {
  make(task_named("lm"));
  const std::string command = task_command(task_named("lm")) + "--lr-scheduler constant ";  // which does not depend on the end
  ASSERT_EQ(together(3, command + "--max-update 60 --save-dir first").code, 0) << read("stderr");
  ASSERT_EQ(together(3, command + "--max-update 60 --save-dir second").code, 0) << read("stderr");
  expect_same_bits("first", "second");
  // A part of the run each by 4, 2 and 3 processes: the batches stay cut as the first had them.
  ASSERT_EQ(together(4, command + "--max-update 60 --save-dir four").code, 0) << read("stderr");
  ASSERT_EQ(together(4, command + "--max-update 20 --save-dir changing").code, 0) << read("stderr");
  ASSERT_EQ(together(2, command + "--max-update 40 --save-dir changing").code, 0) << read("stderr");
  const CommandResult r = together(3, command + "--max-update 60 --save-dir changing");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"processes: 2 in the checkpoint, 3 now", "going on from step 40"});
  expect_same_losses("four", "changing", 1e-3);
}

TEST_F(Processes, OneThatExchangesWithItselfHasTheBitsOfOneAlone) {
  make(task_named("translate"));
  const std::string command = task_command(task_named("translate")) + "--max-update 30 --ema-decay 0.9 ";
  ASSERT_EQ(run(command + "--save-dir alone").code, 0) << read("stderr");
  setenv("TRANSFORMER_PROCESSES", "one", 1);
  const CommandResult r = run(command + "--save-dir one");
  unsetenv("TRANSFORMER_PROCESSES");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_same_bits("alone", "one");
}

TEST_F(Processes, OnlyTheFirstSpeaks) {
  make(task_named("lm"));
  const CommandResult r = together(2, task_command(task_named("lm")) + "--max-update 15 --save-dir run");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err.find("finished after"), r.err.rfind("finished after")) << r.err;
  const CommandResult usage = together(2, task_command(task_named("lm")) + "--max-updates 15 --save-dir other");
  EXPECT_NE(usage.code, 0);
  EXPECT_NE(usage.err.find("unexpected"), std::string::npos) << usage.err;
  EXPECT_EQ(usage.err.find("unexpected"), usage.err.rfind("unexpected")) << usage.err;
}

TEST_F(Processes, ADifferentSettingOrTextIsSaidWithItsRank) {
  make(task_named("lm"));
  const std::string command = task_command(task_named("lm")) + "--max-update 15 --save-dir run ";
  CommandResult r = together(3, command + "$EXTRA", "[ $RANK = 2 ] && EXTRA=\"--lr 0.02\";");
  EXPECT_NE(r.code, 0);
  expect_parts(r.err, {"rank 2 of 3", "settings.lr", "with rank 0"});
  write("other", "quite another text " + read("text"));
  r = together(2, "train lm --text $TEXT " + command.substr(command.find("--d-model")), "TEXT=text; [ $RANK = 1 ] && TEXT=other;");
  EXPECT_NE(r.code, 0);
  expect_parts(r.err, {"rank 1 of 2", "training_fingerprint"});
}

TEST_F(Processes, DevicesStartsThem) {
  make(task_named("lm"));
  const CommandResult r = run(task_command(task_named("lm")) + "--devices 2 --max-update 15 --save-dir run");
  ASSERT_EQ(r.code, 0) << r.err;
  const auto run_of = nlohmann::json::parse(read(last("run") + "/trainer.json"));
  EXPECT_EQ(run_of.at("settings").at("processes"), 2);
  EXPECT_EQ(run_of.at("settings").at("batch_parts"), 2);
}

// Processes of this program whose command line has the word.
std::vector<pid_t> processes_with(const std::string& word) {
  std::vector<pid_t> out;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream in(entry.path() / "cmdline", std::ios::binary);
    const std::string line{std::istreambuf_iterator<char>(in), {}};
    if (line.starts_with(command_path().string()) && line.find(word) != std::string::npos) out.push_back(std::stoi(name));
  }
  std::sort(out.begin(), out.end());
  return out;
}

TEST_F(Processes, KilledAtAnyMomentAllEndAndGoOnWithTheSameBits) {
  make(task_named("lm"));
  const std::string rest = " --max-update 120 --save-interval-updates 3 --d-model 64";
  std::string command = task_command(task_named("lm"));
  command = command.substr(0, command.find("--save-interval-updates")) + rest;
  ASSERT_EQ(together(2, command + " --save-dir straight").code, 0) << read("stderr");
  std::mt19937 random(7);
  const int lives = long_tests() ? 10 : 3;
  int killed = 0;
  const std::string name = (folder_ / "killed").string();
  for (int i = 0; i < lives; ++i) {
    std::string err;
    std::thread life([&] { err = together(2, command + " --save-dir " + name).err; });
    const auto until = Clock::now() + std::chrono::seconds(60);
    std::vector<pid_t> found;
    while ((found = processes_with(name)).size() < 2 && Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution(100, 2500)(random)));
    found = processes_with(name);
    const auto at = Clock::now();
    if (!found.empty() && kill(found[std::uniform_int_distribution<std::size_t>(0, found.size() - 1)(random)], SIGKILL) == 0) ++killed;
    life.join();
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - at).count(), 30.0);
    EXPECT_TRUE(processes_with(name).empty());
  }
  EXPECT_GE(killed, lives - 1);
  ASSERT_EQ(together(2, command + " --save-dir killed").code, 0) << read("stderr");
  expect_same_bits("straight", "killed");
}

TEST_F(Processes, AFullDiskOfTheFirstEndsAll) {
  make(task_named("lm"));
  const std::string command = task_command(task_named("lm")) + "--max-update 60 --save-dir run";
  const auto at = Clock::now();
  const CommandResult r = together(2, command, "[ $RANK = 0 ] && ulimit -f 100;");  // no file larger than 50 KB
  EXPECT_NE(r.code, 0);
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - at).count(), 40.0);
  expect_parts(r.err, {"transformer: "});
  EXPECT_TRUE(processes_with((folder_ / "run").string()).empty());
  ASSERT_EQ(together(2, command).code, 0) << read("stderr");  // the same command goes on
}

}  // namespace
}  // namespace transformer::test
