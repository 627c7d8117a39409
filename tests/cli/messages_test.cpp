// What the command says: in the words that its user typed, with the exit code that fits, and about what is odd.
#include <algorithm>

#include "cli/command.h"
#include "io/shared/json.h"
#include "support/golden.h"
#include "support/tiny_tokenizer.h"

namespace transformer::test {
namespace {

class Messages : public Command {
 protected:
  Messages() {
    std::string text, pairs, rows = "date,price\n";
    for (int i = 0; i < 60; ++i)
      text += "the cat sees the dog and the dog sees the cat\n", pairs += i % 2 == 0 ? "a cat\tgood\n" : "a dog\tbad\n";
    for (int i = 0; i < 60; ++i)
      rows += "2024-0" + std::to_string(i / 20 + 1) + "-" + (i % 20 < 9 ? "0" : "") + std::to_string(i % 20 + 1) + ",1.5\n";
    write("text", text), write("data.tsv", pairs), write("x.csv", rows);
  }
};

TEST_F(Messages, NameTheFlagThatWasTyped) {
  const std::string lm = "train lm --text text --max-update 1 ";
  expect_usage(lm, "transformer: --save-dir is missing: expected a folder");
  expect_usage(lm + "--save-dir m --max-epoch -1", "transformer: --max-epoch is -1: expected 0 or more");
  expect_usage(lm + "--save-dir m --lr 0", "transformer: --lr is 0: expected more than 0");
  expect_usage(lm + "--save-dir m --min-lr 1 --lr-scheduler cosine", "--min-lr is 1: expected 0 to --lr, 0.001");
  expect_usage(lm + "--save-dir m --patience -1", "--patience is -1");
  expect_usage(lm + "--save-dir m --batch-size -1", "--batch-size is -1: expected 0 or more");
  expect_usage(lm + "--save-dir m --bin b", "either as --text or as a file of tokens, --bin");
  expect_usage("train lm --text text --save-dir m --max-epoch 0", "training would never end: give --max-epoch, --max-update or --patience");
  expect_usage("train translate --save-dir m --max-update 1", "give two files, --source and --target, or one, --tsv");
  expect_usage("train translate --tsv data.tsv --valid-source x --save-dir m --max-update 1",
               "the validation text is missing: give two files, --valid-source and --valid-target, or one, --valid-tsv");
  expect_usage("train forecast --save-dir m --max-update 1", "give --csv, a file, or --toy");
  expect_usage("evaluate --hypothesis text --reference text --chrf --chrf-beta 0", "--chrf-beta is 0: expected 1 or more");
}

TEST_F(Messages, SayWhatIsInTheWayOfATraining) {
  const std::string lm =
      "train lm --text text --d-model 8 --num-heads 1 --num-layers 1 --context 8 --max-update 1000000 --max-epoch 1000000 ";
  // Said before anything is computed, and not when it is first saved.
  std::filesystem::create_directory(folder_ / "m");
  write("m/checkpoints", "mine\n");
  expect_failure(lm + "--save-dir m", "m/checkpoints: is not a folder");
  EXPECT_EQ(read("m/checkpoints"), "mine\n");
  std::filesystem::create_symlink("nowhere", folder_ / "link");
  expect_failure(lm + "--save-dir link", "link: is a link to nowhere, which is not there");
  expect_failure(lm + "--save-dir text", "text: is not a folder");
  expect_usage(lm + "--save-dir n --devices 99999999999", "--devices is 99999999999: expected 1 to 1024");
}

TEST_F(Messages, SayThatTheMemoryDoesNotSuffice) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer ends a program that asks for too much";
#endif
  const std::string small = "train lm --text text --d-model 8 --num-heads 1 --num-layers 1 --context 8 --max-update 1 --save-dir m";
  ASSERT_EQ(run(small).code, 0) << read("stderr");
  expect_failure("generate m --prompt cat --temperature 1 --max-new-tokens 2 --num-return-sequences 99999999999",
                 "there is not enough memory for what was asked for");
}

TEST_F(Messages, NameTheSizesOfAModelByTheirFlags) {
  const std::string wrong = " --max-update 1 --save-dir m --d-model 100 --num-heads 3",
                    message = "--d-model is 100: expected a multiple of --num-heads, 3";
  expect_usage("train lm --text text" + wrong, message);  // not n_embd
  expect_usage("train lm --arch llama --text text" + wrong, message);
  expect_usage("train translate --tsv data.tsv --subwords whitespace" + wrong, message);
  expect_usage("train classify --data data.tsv --subwords whitespace" + wrong, message);
  expect_usage("train mlm --text text --subwords whitespace" + wrong, message);
  expect_usage("train forecast --csv x.csv --context 8 --patch-length 4 --stride 4 --horizon 2" + wrong, message);
  expect_usage("inspect --d-model 100 --num-heads 3", message);
  expect_usage("train lm --text text --arch llama --max-update 1 --save-dir m --d-model 15 --num-heads 3", "--d-model is 15: 3 heads of 5");
  expect_usage("train lm --text text --max-update 1 --save-dir m --dropout 1 --attention-dropout 0",
               "--dropout is 1: expected a value in [0, 1)");
}

TEST_F(Messages, NameTheKeyOfTheFileThatHasIt) {
  write("c.toml", "d_model = 100\nnum-heads = 3\ntext = [\"text\"]\nsave_dir = \"m\"\nmax_update = 1\n");
  expect_usage("train lm --config c.toml", "d_model (c.toml) is 100: expected a multiple of num_heads (c.toml), 3");
  expect_usage("train lm --config c.toml --d-model 50", "--d-model is 50: expected a multiple of num_heads (c.toml), 3");
}

TEST_F(Messages, FailuresAreCodeOneAndNameFlagsToo) {
  expect_failure("train lm --text nothing --max-update 1 --save-dir m", "nothing");
  ASSERT_EQ(
      run("train lm --text text --max-update 1 --d-model 16 --num-heads 2 --num-layers 1 --context 8 --batch-size 2 --save-dir m").code, 0);
  expect_failure("train lm --text text --max-update 2 --d-model 32 --num-heads 2 --num-layers 1 --context 8 --batch-size 2 --save-dir m",
                 "choose another --save-dir");
}

TEST_F(Messages, SuggestOnlyWhatIsNear) {
  const auto said = [&](const std::string& arguments) {
    const CommandResult r = run(arguments);
    EXPECT_EQ(r.code, 2) << arguments;
    return r.err;
  };
  for (const char* far : {"answer", "predict", "inspect --learning-rate 1", "inspect --activation swish"})
    EXPECT_EQ(said(far).find("did you mean"), std::string::npos) << far;
  expect_parts(said("answer"), {"unexpected 'answer'\n"});
  expect_parts(said("transalte"), {"did you mean 'translate'?"});
  expect_parts(said("train transalte"), {"did you mean 'translate'?"});
  expect_parts(said("tok"), {"did you mean 'tokenize'?"});
  expect_parts(said("train lm --epoch 3"), {"did you mean '--max-epoch'?"});
  expect_parts(said("inspect --dmodel 3"), {"did you mean '--d-model'?"});
}

TEST_F(Messages, MoreThreadsThanTheMachineHasAreNotUsed) {
  const CommandResult r = run(
      "train lm --text text --max-update 1 --d-model 16 --num-heads 2 --num-layers 1 --context 8 --threads 100000 --save-dir m");
  EXPECT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"note: --threads is 100000, but the machine has "});
  expect_usage("train lm --text text --max-update 1 --threads -1 --save-dir other", "--threads is -1");
}

TEST_F(Messages, WhatIsOddAboutAPrompt) {
  copy_with_tokenizer(golden_root() / "gpt2", folder_ / "gpt2", tiny_tokenizer(false));
  copy_with_tokenizer(golden_root() / "llama", folder_ / "llama", tiny_tokenizer(false));
  const auto said = [&](const std::string& model, const std::string& prompt) {
    const CommandResult r = run("generate " + model + " --max-new-tokens 1 --temperature 0 --prompt '" + prompt + "'");
    EXPECT_EQ(r.code, 0) << r.err;
    return r.err;
  };
  EXPECT_EQ(said("gpt2", "Once upon a time"), "");
  expect_parts(said("gpt2", std::string(500, 'x')),
               {"transformer: note: prompt 1 has ", " tokens and the model takes ", " are left out\n"});
  expect_parts(said("llama", std::string(500, 'x')), {"more than the ", " that the model was trained with"});
  // Every prompt of standard input has its number.
  const CommandResult lines = run("generate gpt2 --max-new-tokens 1 --temperature 0", "short\n" + std::string(500, 'x') + "\n");
  expect_parts(lines.err, {"note: prompt 2 has "});
}

// A vocabulary of words knows no other language.
TEST_F(Messages, WhatIsMostlyUnknown) {
  ASSERT_EQ(run("train classify --data data.tsv --subwords whitespace --d-model 8 --num-heads 2 --d-ff 8 --num-layers 1 --max-update 1 "
                "--save-dir m")
                .code,
            0)
      << read("stderr");
  EXPECT_EQ(run("classify m --text 'a cat'").err, "");
  expect_parts(run("classify m --text 'ein Hund' 'a cat'").err, {"of 1 texts most tokens are unknown to the model"});
  expect_parts(run("embed m --text 'ein Hund'").err, {"unknown to the model"});
  std::string pairs;
  for (int i = 0; i < 50; ++i) pairs += "the cat sees\tdie Katze sieht\n";
  write("pairs.tsv", pairs);
  ASSERT_EQ(run("train translate --tsv pairs.tsv --subwords whitespace --d-model 8 --num-heads 2 --d-ff 8 --num-layers 1 --max-update 1 "
                "--save-dir t")
                .code,
            0)
      << read("stderr");
  EXPECT_EQ(run("translate t --text 'the cat'").err, "");
  expect_parts(run("translate t --text 'un chat noir'").err, {"of 1 texts most tokens are unknown to the model"});
}

}  // namespace
}  // namespace transformer::test
