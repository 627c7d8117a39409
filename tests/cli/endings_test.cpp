// How a training ends, and what is said when it is started again; models whose weights are not finite.
#include <algorithm>
#include <limits>

#include "cli/training.h"
#include "support/golden.h"
#include "support/tiny_tokenizer.h"
#include "transformer/core/context.h"
#include "transformer/io/safetensors.h"
#include "transformer/toys/prices.h"

namespace transformer::test {
namespace {

namespace fs = std::filesystem;

class Endings : public Training {
 protected:
  Endings() {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "the cat number " + std::to_string(i % 7) + " sat on the mat.\n";
    write("cats.txt", text);
  }
  CommandResult train(const std::string& more) const {
    return run(
        "train lm --text cats.txt --d-model 32 --num-heads 2 --num-layers 1 --context 16 --batch-size 8 --warmup-updates 5 --threads 2 "
        "--save-dir model " +
        more);
  }
  // A folder's model with one weight that is not a number.
  void spoil(const std::string& folder) const {
    const fs::path path = folder_ / folder / "model.safetensors";
    Context ctx;
    std::vector<std::pair<std::string, Tensor>> tensors;
    {
      const SafetensorsFile file(path);
      for (const std::string& name : file.names()) {
        const Tensor from = file.tensor(name);
        if (from.dtype() != DType::float32 || from.numel() == 0) continue;
        std::vector<float> values = from.to_vector<float>();
        std::fill(values.begin(), values.end(), std::numeric_limits<float>::quiet_NaN());
        tensors.emplace_back(name, Tensor::from<float>(ctx, from.shape(), values));
      }
      for (const std::string& name : file.names())
        if (const Tensor from = file.tensor(name); from.dtype() != DType::float32) tensors.emplace_back(name, from);
    }
    save_safetensors(path, tensors);
  }
  void copy(const std::string& golden, const std::string& to) const {
    copy_with_tokenizer(golden_root() / golden, folder_ / to, tiny_tokenizer(true));
  }
};

// A learning rate without measure makes weights that are not finite at the first update.
TEST_F(Endings, ARunOfBadUpdatesIsNoSuccess) {
  for (int again = 0; again < 2; ++again) {
    const CommandResult r = train("--lr 1e38 --max-update 8");
    EXPECT_EQ(r.code, 1) << r.err;
    expect_parts(r.err, {"\ntransformer: ", "no validation was finite", "smaller --lr"});
    EXPECT_EQ(r.err.find("(best)"), std::string::npos) << r.err;
    EXPECT_EQ(r.err.find("best model"), std::string::npos) << r.err;
    EXPECT_FALSE(fs::exists(folder_ / "model/model.safetensors"));
  }
}

TEST_F(Endings, SoItIsWithoutValidation) {
  const CommandResult r = train("--lr 1e38 --max-update 8 --valid-split 0");
  EXPECT_EQ(r.code, 1) << r.err;
  expect_parts(r.err, {"no model to keep"});
  EXPECT_FALSE(fs::exists(folder_ / "model/model.safetensors"));
}

TEST_F(Endings, AChangedLearningRateIsReported) {
  ASSERT_EQ(train("--lr 0.01 --max-update 10").code, 0);
  const CommandResult r = train("--lr 0.02 --max-update 20");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"going on from step 10", "lr: 0.01 in the checkpoint, 0.02 now"});
}

TEST_F(Endings, AFinishedRunSaysThatItIsFinished) {
  ASSERT_EQ(train("--lr 0.01 --max-update 10").code, 0);
  EXPECT_EQ(read("stderr").find("finished before"), std::string::npos);
  const auto before = model_files("model");
  const CommandResult r = train("--lr 0.01 --max-update 10");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"finished after 10 steps", "this run was finished before", "raise --max-epoch or --max-update"});
  EXPECT_EQ(r.err.find("going on"), std::string::npos) << r.err;
  EXPECT_EQ(model_files("model"), before);
}

// The last line of progress is of the last update, not of a validation that is over.
TEST_F(Endings, NoStaleLineOfProgressIsLeft) {
  const CommandResult r = train("--lr 0.01 --max-update 10 --log-interval 7");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err.find("validating"), std::string::npos) << r.err;
  const std::size_t at = r.err.find("step 10/10");
  ASSERT_NE(at, std::string::npos) << r.err;
  const std::string line = r.err.substr(at, r.err.find('\n', at) - at);
  expect_parts(line, {"loss", "lr", "tok/s"});
}

TEST_F(Endings, OutputsThatAreNotFiniteAreRefused) {
  copy("bert-cls", "judge"), copy("bert-base", "encoder");
  ASSERT_EQ(train("--lr 0.01 --max-update 8").code, 0);
  write("x.csv", write_table(toy_prices(200)));
  ASSERT_EQ(run("train forecast --csv x.csv --preset documents --max-update 3 --save-dir oracle").code, 0) << read("stderr");
  const std::vector<std::pair<std::string, std::string>> uses{{"judge", "classify judge --text 'a b'"},
                                                              {"encoder", "embed encoder --text 'a b' --out v.npy"},
                                                              {"oracle", "forecast oracle --csv x.csv --out next.csv"},
                                                              {"model", "generate model --prompt the --max-new-tokens 4"}};
  for (const auto& [folder, use] : uses) {
    ASSERT_EQ(run(use).code, 0) << use << read("stderr");
    spoil(folder);
  }
  for (const char* name : {"v.npy", "next.csv"}) write(name, "old");
  for (const auto& [folder, use] : uses) {
    const CommandResult r = run(use);
    EXPECT_EQ(r.code, 1) << use << r.out;
    EXPECT_EQ(r.out.find("nan"), std::string::npos) << use;
    expect_parts(r.err, {"finite"});
  }
  for (const char* name : {"v.npy", "next.csv"}) EXPECT_EQ(read(name), "old");
}

}  // namespace
}  // namespace transformer::test
