// Weights in pieces (--shard weights): models that are too large for one process.
#include "cli/processes.h"

namespace transformer::test {
namespace {

class ShardWeights : public Processes {};

// 19 million parameters in 24 layers: with gradients and Adam's state 304 MB, in pieces half of it and a few layers. The program itself
// takes some 70 MB, with MPI 100. The limit is in the middle, and one process is over it before it computes anything.
TEST_F(ShardWeights, TwoTrainWhatIsTooLargeForOne) {
  if (ContextOptions().device != Device::cpu()) GTEST_SKIP() << "the limit is one of the host's memory";
  make(task_named("lm"));
  const std::string command =
      "train lm --text text --d-model 256 --num-heads 4 --num-layers 24 --context 16 --batch-size 2 --threads 1 --max-update 2 ";
  const std::string limit = fmt::format("ulimit -d {};", 325 * 1024);
  const CommandResult one = together(1, command + "--save-dir one", limit);
  EXPECT_NE(one.code, 0);
  expect_parts(one.err, {"out of memory", "--shard weights"});
  const CommandResult two = together(2, command + "--shard weights --save-dir two", limit);
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_TRUE(std::filesystem::exists(folder_ / last("two") / "optimizer.safetensors"));
  // Without the limit, which counts the files of the checkpoint, as they are mapped, too.
  const CommandResult further = together(2, command + "--max-update 3 --shard weights --save-dir two");
  ASSERT_EQ(further.code, 0) << further.err;
  expect_parts(further.err, {"going on from step 2"});
}

// More parts of batches than processes, so that some have fewer; averages; sentences that are translated; bfloat16. With parts that are
// summed in another order the biases of keys differ, which no output depends on: losses are compared.
TEST_F(ShardWeights, AllThatATrainingCanHave) {
  make(task_named("translate"));
  const std::string command = task_command(task_named("translate")) +
      "--max-update 50 --lr 0.001 --validate-interval-updates 50 --num-layers 2 --update-freq 2 --batch-parts 2 --ema-decay 0.9 --average "
      "2 --keep-last 2 --eval-bleu --eval-beam 1 "
      "--shard weights ";
  ASSERT_EQ(run(command + "--save-dir alone").code, 0) << read("stderr");
  const CommandResult r = together(3, command + "--save-dir three");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_same_losses("alone", "three", 1e-6);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "three/average/model.safetensors"));
  const std::string low = command + "--max-update 6 --precision bfloat16 ";
  ASSERT_EQ(together(2, low + "--save-dir low").code, 0) << read("stderr");
  ASSERT_EQ(together(2, low + "--save-dir again").code, 0) << read("stderr");
  expect_same_bits("low", "again");
}

}  // namespace
}  // namespace transformer::test
