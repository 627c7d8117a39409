// Weights in pieces (--shard weights): models that are too large for one process.
#include "cli/processes.h"

namespace transformer::test {
namespace {

class ShardWeights : public Processes {};

// 9.5 million parameters in twelve layers: with gradients and Adam's state 152 MB. What each process may have is between that and what
// half of it takes.
TEST_F(ShardWeights, TwoTrainWhatIsTooLargeForOne) {
  make(task_named("lm"));
  const std::string command =
      "train lm --text text --d-model 256 --num-heads 4 --num-layers 12 --context 16 --batch-size 2 --threads 1 --max-update 4 "
      "--save-interval-updates 2 --log-interval 1 ";
  const std::string limit = fmt::format("ulimit -d {};", 210 * 1024);
  const CommandResult one = together(1, command + "--save-dir one", limit);
  EXPECT_NE(one.code, 0);
  expect_parts(one.err, {"out of memory", "--shard weights"});
  const CommandResult whole = together(2, command + "--save-dir whole", limit);
  EXPECT_NE(whole.code, 0);
  expect_parts(whole.err, {"out of memory"});
  const CommandResult two = together(2, command + "--shard weights --save-dir two", limit);
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_TRUE(std::filesystem::exists(folder_ / last("two") / "optimizer.safetensors"));
  // Who has the memory goes on alone from there.
  const CommandResult further = together(1, command + "--max-update 5 --save-dir two");
  ASSERT_EQ(further.code, 0) << further.err;
  expect_parts(further.err, {"going on from step 4"});
}

// Parts of batches that processes have different numbers of, averages, bfloat16, another number of processes: all in pieces.
TEST_F(ShardWeights, AllThatATrainingCanHave) {
  make(task_named("translate"));
  const std::string command = task_command(task_named("translate")) +
      "--max-update 50 --num-layers 2 --update-freq 3 --batch-parts 2 --ema-decay 0.9 --average 2 --keep-last 2 --eval-bleu --shard weights ";
  ASSERT_EQ(run(command + "--save-dir alone").code, 0) << read("stderr");
  const CommandResult r = together(4, command + "--save-dir four");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_LT(difference(last("alone"), last("four")), 1e-5);
  EXPECT_LT(difference("alone/average", "four/average"), 1e-5);
  expect_same_losses("alone", "four", 1e-6);
  const std::string low = command + "--precision bfloat16 ";
  ASSERT_EQ(together(2, low + "--save-dir low").code, 0) << read("stderr");
  ASSERT_EQ(together(2, low + "--save-dir again").code, 0) << read("stderr");
  expect_same_bits("low", "again");
}

}  // namespace
}  // namespace transformer::test
