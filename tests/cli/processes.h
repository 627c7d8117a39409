#pragma once
// Several processes that train together, and what they leave behind.

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/tasks.h"
#include "cli/training.h"
#include "transformer/io/safetensors.h"
#include "transformer/train/trainer.h"

namespace transformer::test {

using Clock = std::chrono::steady_clock;

inline bool long_tests() { return std::getenv("TRANSFORMER_LONG_TESTS") != nullptr; }

// The row of a task without what it says of threads, of the end and of checkpoints.
inline std::string task_command(const TaskCase& task) {
  std::string out;
  for (std::size_t i = 0; i < task.arguments.size(); ++i) {
    const std::string& word = task.arguments[i];
    const bool out_of = word == "--threads" || word == "--max-epoch" || word == "--average" || word.ends_with("-interval-updates");
    if (out_of) ++i;
    else out += word + " ";
  }
  return out + "--threads 1 --log-interval 1 --validate-interval-updates 25 --save-interval-updates 25 ";
}

inline const TaskCase& task_named(const std::string& name) {
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
    // Tests run side by side: an mpirun fails when another one makes or removes the folder that all share at the same moment.
    setenv("OMPI_MCA_orte_tmpdir_base", folder_.path().c_str(), 1);
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

// Processes of this program whose command line has the word.
inline std::vector<pid_t> processes_with(const std::string& word) {
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

// The one of them that has this rank; none where it has ended.
inline std::vector<pid_t> processes_with(const std::string& word, int rank) {
  std::vector<pid_t> out = processes_with(word);
  std::erase_if(out, [&](pid_t process) {
    std::ifstream in(fmt::format("/proc/{}/environ", process), std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(in), {}};
    return all.find(fmt::format("OMPI_COMM_WORLD_RANK={}", rank) + '\0') == std::string::npos;
  });
  return out;
}

}  // namespace transformer::test
