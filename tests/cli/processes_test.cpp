// Several processes train as one does. TRANSFORMER_LONG_TESTS=1 tries every task with 2, 3 and 4 processes.
#include "cli/processes.h"

#include <sys/stat.h>

#include <random>
#include <thread>

namespace transformer::test {
namespace {

class ProcessesTask : public Processes, public testing::WithParamInterface<std::pair<std::string, int>> {};

TEST_P(ProcessesTask, LearnAsOneDoesAndTwiceTheSame) {
  const auto& [name, usual] = GetParam();
  const TaskCase& task = task_named(name);
  make(task);
  for (int n = long_tests() ? 2 : usual; n <= (long_tests() ? 4 : usual); ++n) {
    const std::string command = task_command(task) + "--max-update 50 ", cut = fmt::format("--batch-parts {} ", n);
    const std::string alone = fmt::format("alone{}", n);
    ASSERT_EQ(run(command + cut + "--save-dir " + alone).code, 0) << read("stderr");
    for (const std::string shard : {"optimizer", "weights"}) {
      const std::string many = shard + std::to_string(n);
      const CommandResult r = together(n, command + "--shard " + shard + " --save-dir " + many);
      ASSERT_EQ(r.code, 0) << r.err;
      const double apart = difference(last(alone), last(many));
      if (long_tests()) fmt::print("{} by {} processes, {} in pieces: weights differ by {:.2e}\n", name, n, shard, apart);
      EXPECT_LT(apart, 1e-5) << name << " by " << n << ", " << shard;
      expect_same_losses(alone, many, 1e-6);
      EXPECT_EQ(losses(alone, "valid").size(), losses(many, "valid").size());
      if (shard == "weights" && !long_tests()) continue;
      ASSERT_EQ(together(n, command + "--shard " + shard + " --save-dir again-" + many).code, 0) << read("stderr");
      expect_same_bits(many, "again-" + many);
    }
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
  ASSERT_EQ(together(2, command + "--max-update 40 --shard weights --save-dir changing").code, 0) << read("stderr");
  const CommandResult r = together(3, command + "--max-update 60 --save-dir changing");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(
      r.err, {"processes: 2 in the checkpoint, 3 now", "shard: \"weights\" in the checkpoint, \"optimizer\" now", "going on from step 40"});
  expect_same_losses("four", "changing", 1e-3);
}

// Of 1,200 words a batch has about a hundred: what lookups add to the table, which is the output matrix too, is exchanged by itself.
TEST_F(Processes, ALargeVocabularyChangesNoBits) {
  std::string source, target;
  for (int line = 0, word = 0; line < 400; ++line) {
    std::string there, back;
    for (int i = 0; i < 3 + line % 6; ++i) {
      word = (word * 37 + line + 11) % 1200;
      there += fmt::format("w{} ", word), back = fmt::format("w{} ", word) + back;
    }
    source += there + "\n", target += back + "\n";
  }
  write("train.en", source), write("train.ko", target);
  const std::string command =
      "train translate --source train.en --target train.ko --subwords whitespace --vocab-size 1500 --d-model 40 --num-heads 2 --d-ff 48 "
      "--num-layers 1 --max-tokens 120 --lr 0.01 --warmup-updates 20 --threads 1 --batch-parts 3 --max-update 30 ";
  ASSERT_EQ(run(command + "--save-dir alone").code, 0) << read("stderr");
  for (const std::string shard : {"optimizer", "weights"}) {
    ASSERT_EQ(together(3, command + "--shard " + shard + " --save-dir " + shard).code, 0) << read("stderr");
    expect_same_bits("alone", shard);
  }
  ASSERT_EQ(together(2, command + "--save-dir two").code, 0) << read("stderr");  // the first has one part, the other two
  EXPECT_LT(difference(last("alone"), last("two")), 1e-5);
}

// Batch norm: of the last batch of an epoch, of which two make an update, the second process has nothing; or of one with a single window.
TEST_F(Processes, WhoHasNothingToComputeHasTheRunningMeansOfTheOthers) {
  make(task_named("forecast"));
  for (const std::string extra : {"--batch-size 36 --update-freq 2 --batch-parts 1 ", "--batch-size 383 --batch-parts 2 "}) {
    const std::string command = task_command(task_named("forecast")) + extra + "--max-epoch 60 --max-update 50 --save-dir ";
    for (const char* folder : {"alone", "two"}) std::filesystem::remove_all(folder_ / folder);
    ASSERT_EQ(run(command + "alone").code, 0) << read("stderr");
    ASSERT_EQ(together(2, command + "two").code, 0) << read("stderr");
    expect_same_losses("alone", "two", 1e-6);
    EXPECT_LT(difference(last("alone"), last("two")), 1e-5) << extra;
  }
}

// The others read the checkpoints that are averaged too: the first must have written the last one, here the only one.
TEST_F(Processes, TheAverageIsOfTheSameCheckpointsForAll) {
  make(task_named("classify"));
  const std::string command = task_command(task_named("classify")) + "--max-update 25 --average 2 --batch-parts 2 --save-dir ";
  const CommandResult one = run(command + "alone"), two = together(2, command + "two");
  ASSERT_EQ(one.code, 0) << one.err;
  ASSERT_EQ(two.code, 0) << two.err;
  const auto averaged = [](const std::string& text) {
    const std::size_t at = text.find("average of the last 1 checkpoints: ");
    return at == std::string::npos ? "none" : text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_NE(averaged(one.err), "none") << one.err;
  EXPECT_EQ(averaged(two.err), averaged(one.err));
}

// On a GPU by NCCL, where its library is found.
class OneProcess : public Processes {
 protected:
  void SetUp() override {}  // it needs no mpirun
};
TEST_F(OneProcess, ThatExchangesWithItselfHasTheBitsOfOneAlone) {
  make(task_named("translate"));
  const std::string command = task_command(task_named("translate")) + "--max-update 30 --ema-decay 0.9 ";
  ASSERT_EQ(run(command + "--save-dir alone").code, 0) << read("stderr");
  setenv("TRANSFORMER_PROCESSES", "one", 1);
  const CommandResult r = run(command + "--save-dir one");
  const CommandResult pieces = run(command + "--shard weights --clip-norm 0 --save-dir pieces");
  unsetenv("TRANSFORMER_PROCESSES");
  ASSERT_EQ(r.code, 0) << r.err;
  ASSERT_EQ(pieces.code, 0) << pieces.err;
  expect_same_bits("alone", "one");
  // The squares of the norm are summed in another order there: without clipping nothing depends on it.
  ASSERT_EQ(run(command + "--clip-norm 0 --save-dir unclipped").code, 0) << read("stderr");
  expect_same_bits("unclipped", "pieces");
}

// An mpirun of one process, on a machine where its own part was started by srun as one of two.
TEST_F(OneProcess, WhatTheNearestLauncherSaysCounts) {
  make(task_named("lm"));
  for (const auto& [variable, value] : {std::pair{"OMPI_COMM_WORLD_SIZE", "1"}, std::pair{"SLURM_STEP_NUM_TASKS", "2"}})
    setenv(variable, value, 1);
  const CommandResult r = run(task_command(task_named("lm")) + "--max-update 15 --save-dir run");
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}) unsetenv(variable);
  EXPECT_EQ(r.code, 0) << r.err;
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
  r = together(3, command + "$EXTRA", "[ $RANK = 1 ] && EXTRA=\"--shard weights\";");
  EXPECT_NE(r.code, 0);
  expect_parts(r.err, {"rank 1 of 3", "settings.shard", "with rank 0"});
  write("other", "quite another text " + read("text"));
  // Another program: the same one with a few bytes more.
  std::filesystem::copy_file(command_path(), folder_ / "program");
  std::ofstream(folder_ / "program", std::ios::binary | std::ios::app) << "another";
  r = together(2, command, "[ $RANK = 1 ] && exec ./program " + command + ";");
  EXPECT_NE(r.code, 0);
  expect_parts(r.err, {"rank 1 of 2", "program"});
  r = together(2, "train lm --text $TEXT " + command.substr(command.find("--d-model")), "TEXT=text; [ $RANK = 1 ] && TEXT=other;");
  EXPECT_NE(r.code, 0);
  expect_parts(r.err, {"rank 1 of 2", "training_fingerprint"});
}

// What the finished model is judged by, and where it computes.
TEST_F(Processes, ADifferentTestOrDeviceIsSaidWithItsRank) {
  std::string texts;
  for (int i = 0; i < 20; ++i) texts += fmt::format("good film {0}\tgood\nbad film {0}\tbad\n", i);
  write("train.tsv", texts), write("test.tsv", "good one\tgood\nbad one\tbad\n"), write("other.tsv", "good one\tgood\nbad two\tbad\n");
  const std::string command =
      "train classify --data train.tsv --d-model 16 --num-layers 1 --num-heads 2 --d-ff 16 --threads 1 --max-update 3 --save-dir run ";
  CommandResult r = together(2, command + "--test $TEST", "TEST=test.tsv; [ $RANK = 1 ] && TEST=other.tsv;");
  EXPECT_NE(r.code, 0);
  expect_parts(r.err, {"rank 1 of 2", "evaluation.test_fingerprint", "with rank 0"});
  r = together(2, command + "--device $DEVICE", "DEVICE=cpu; [ $RANK = 1 ] && DEVICE=guarded;");
  EXPECT_NE(r.code, 0);
  expect_parts(r.err, {"rank 1 of 2", "device: \"cpu\" with rank 0, \"guarded\" here", "device"});
  EXPECT_EQ(r.err.find("another"), std::string::npos) << r.err;
}

// Two of them would do all of the work twice, and write the same files.
TEST_F(Processes, OtherVerbsAreForOneProcess) {
  write("text", "a b\n");
  for (const std::string arguments : {"tokenize --train-text text --vocab-size 20 --out made", "demo --save-dir made", "inspect nothing"}) {
    const CommandResult r = together(2, arguments);
    EXPECT_EQ(r.code, 2) << arguments << r.err;
    expect_parts(r.err, {"works as one process", "2 were started", "TRANSFORMER_PROCESSES=alone"});
    EXPECT_EQ(r.err.find("works as one process"), r.err.rfind("works as one process")) << "said once: " << r.err;
    EXPECT_EQ(r.out, "");
    EXPECT_FALSE(std::filesystem::exists(folder_ / "made"));
  }
  const CommandResult each = together(2, "--version", "");
  EXPECT_EQ(each.code, 0);
  const CommandResult alone = together(2, "inspect --help", "export TRANSFORMER_PROCESSES=alone;");
  EXPECT_EQ(alone.code, 0) << alone.err;
}

TEST_F(Processes, DevicesStartsThem) {
  make(task_named("lm"));
  write("settings.toml", "devices = 2\n");
  const std::string command = task_command(task_named("lm")) + "--max-update 15 --save-dir ";
  for (const std::string how : {"--devices 2", "--config settings.toml"}) {
    for (const char* alone : {"", "alone"}) {  // those that are started are to work together, whatever this one was told
      if (*alone != '\0') setenv("TRANSFORMER_PROCESSES", alone, 1);
      const std::string folder = how.substr(2, 4) + alone;
      const CommandResult r = run(command + folder + " " + how);
      unsetenv("TRANSFORMER_PROCESSES");
      ASSERT_EQ(r.code, 0) << r.err;
      const auto run_of = nlohmann::json::parse(read(last(folder) + "/trainer.json"));
      EXPECT_EQ(run_of.at("settings").at("processes"), 2);
      EXPECT_EQ(run_of.at("settings").at("batch_parts"), 2);
    }
  }
  expect_usage(command + "none --devices 0", "--devices is 0: expected 1 to 1024");
  const CommandResult r = together(2, command + "other --devices 3");
  EXPECT_NE(r.code, 0);
  expect_parts(r.err, {"--devices is 3, but the launcher of these processes has started 2 on this machine: leave it out"});
}

class ProcessesKilled : public Processes, public testing::WithParamInterface<std::pair<std::string, int>> {};

TEST_P(ProcessesKilled, AtAnyMomentAllEndAndGoOnWithTheSameBits) {
  const auto& [shard, lives] = GetParam();
  make(task_named("lm"));
  const std::string rest = " --max-update 120 --save-interval-updates 3 --d-model 64 --ema-decay 0.9 --shard " + shard;
  std::string command = task_command(task_named("lm"));
  command = command.substr(0, command.find("--save-interval-updates")) + rest;
  const auto begin = Clock::now();
  ASSERT_EQ(together(2, command + " --save-dir straight").code, 0) << read("stderr");
  // So early that all lives together do not reach the end, however fast the machine is.
  const auto whole = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  const int latest = std::min(900, 100 + static_cast<int>(whole / lives));
  std::mt19937 random(7);
  int killed = 0;
  const std::string name = (folder_ / "killed").string();
  for (int i = 0; i < lives; ++i) {
    std::string err;
    std::thread life([&] { err = together(2, command + " --save-dir " + name).err; });
    const auto until = Clock::now() + std::chrono::seconds(60);
    std::vector<pid_t> found;
    while ((found = processes_with(name)).size() < 2 && Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution(100, latest)(random)));
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

INSTANTIATE_TEST_SUITE_P(Shards, ProcessesKilled, testing::Values(std::pair{"optimizer", 10}, std::pair{"weights", 4}),
                         [](const auto& info) { return info.param.first; });

// As when a machine or its network is gone: nobody closes the connection, but nothing comes any more.
TEST_F(Processes, OneThatGivesNoSignOfLifeEndsAll) {
  make(task_named("lm"));
  const std::string name = (folder_ / "silent").string();
  CommandResult r;
  std::thread life([&] { r = together(3, task_command(task_named("lm")) + "--max-update 1000000 --save-dir " + name); });
  const auto until = Clock::now() + std::chrono::seconds(60);
  while (!latest_checkpoint(name) && Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::vector<pid_t> others = processes_with(name, 1);  // not the first: it is to say who is missing
  const auto at = Clock::now();
  EXPECT_EQ(others.size(), 1U);
  for (const pid_t process : others) kill(process, SIGSTOP);
  life.join();
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - at).count(), 30.0);
  EXPECT_NE(r.code, 0);
  expect_parts(r.err, {"rank 1 of 3", "no sign of life"});
  EXPECT_TRUE(processes_with(name).empty());
  EXPECT_TRUE(latest_checkpoint(name).has_value());
}

// As by Slurm for another's work, or by Ctrl-Z: for longer than the silence that is taken for a lost machine.
TEST_F(Processes, ThatWereSuspendedGoOn) {
  make(task_named("lm"));
  const std::string name = (folder_ / "suspended").string();
  CommandResult r;
  std::thread life([&] { r = together(2, task_command(task_named("lm")) + "--max-update 1000000 --save-dir " + name); });
  const auto wait_for_checkpoint_after = [&](const std::optional<std::filesystem::path>& before) {
    const auto until = Clock::now() + std::chrono::seconds(30);
    while (latest_checkpoint(name) == before && Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  wait_for_checkpoint_after(std::nullopt);
  const std::vector<pid_t> both = processes_with(name);
  EXPECT_EQ(both.size(), 2U);
  for (const pid_t process : both) kill(process, SIGSTOP);
  const auto before = latest_checkpoint(name);
  std::this_thread::sleep_for(std::chrono::seconds(17));
  for (const pid_t process : both) kill(process, SIGCONT);
  wait_for_checkpoint_after(before);
  for (const pid_t process : both) kill(process, SIGTERM);
  life.join();
  EXPECT_NE(latest_checkpoint(name), before);
  EXPECT_EQ(r.code, 0) << r.err;
}

// What the first does by itself at the end, here writing a file that nobody reads: the others wait, and hear when it is killed. (A launcher
// other than mpirun would not end them.)
TEST_F(Processes, AFirstThatIsKilledWhenOthersAreThroughEndsAll) {
  make(task_named("lora"));
  const std::string name = (folder_ / "run").string(), command = task_command(task_named("lora")) + "--max-update 15 --save-dir " + name;
  ASSERT_EQ(together(2, command).code, 0) << read("stderr");
  std::filesystem::create_directory(name + "/merged");
  ASSERT_EQ(mkfifo((name + "/merged/config.json").c_str(), 0600), 0);
  setenv("OMPI_MCA_orte_enable_recovery", "1", 1);
  std::filesystem::remove(folder_ / "stderr");
  CommandResult r;
  std::thread life([&] { r = together(2, command + " --lora-merge"); });
  const auto soon = [] { return Clock::now() + std::chrono::seconds(30); };
  for (const auto until = soon(); read("stderr").find("best model") == std::string::npos && Clock::now() < until;)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  for (const pid_t process : processes_with(name, 0)) EXPECT_EQ(kill(process, SIGKILL), 0);
  for (const auto until = soon(); !processes_with(name).empty() && Clock::now() < until;)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(processes_with(name).empty());
  for (const pid_t process : processes_with(name)) kill(process, SIGKILL);
  life.join();
  unsetenv("OMPI_MCA_orte_enable_recovery");
  expect_parts(r.err, {"rank 0 of 2", "it has ended or was killed"});
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
