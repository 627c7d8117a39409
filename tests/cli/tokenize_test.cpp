// transformer tokenize on the tokenizers of Hugging Face models.
#include <signal.h>
#include <sys/stat.h>

#include "cli/command.h"
#include "support/text_files.h"

namespace transformer::test {
namespace {

TEST_F(Command, TokenizeReadsHuggingFace) {
  const auto golden = case_folder("tokenizers");
  const std::string bert = "tokenize '" + (golden / "bert-wordpiece.json").string() + "'";
  EXPECT_EQ(run(bert, "A dog.\n").out, "[CLS] a dog . [SEP]\n");
  EXPECT_EQ(run(bert + " --no-special", "A dog.\n").out, "a dog .\n");
  const std::string ids = run(bert + " --ids", "A dog.\n").out;
  EXPECT_EQ(run(bert + " --ids --decode", ids).out, "a dog.\n");
  EXPECT_EQ(run(bert + " --ids --decode --keep-special", ids).out, "[CLS] a dog. [SEP]\n");

  std::filesystem::create_directory(folder_ / "gpt2");
  std::filesystem::copy(golden / "gpt2-vocab.json", folder_ / "gpt2/vocab.json");
  std::filesystem::copy(golden / "gpt2-merges.txt", folder_ / "gpt2/merges.txt");
  EXPECT_EQ(run("tokenize gpt2", "A dog runs\n").out, "A Ġdog Ġruns\n");
  EXPECT_EQ(run("tokenize gpt2 --decode", "A Ġdog Ġruns\n").out, "A dog runs\n");
  std::filesystem::remove(folder_ / "gpt2/merges.txt");
  expect_failure("tokenize gpt2", "no tokenizer in this folder");
}

// A file of tokens that is not finished is none, and neither is anything else.
TEST_F(Command, TokenizeToBinLeavesNothingWhenItIsEnded) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0666), 0);
  std::filesystem::create_directory(folder_ / "out");
  const CommandResult r = run(
      "tokenize byte --to-bin out/o.bin < pipe & p=$!; sleep 30 > pipe & s=$!; "
      "for i in $(seq 500); do ls -l /proc/$p/fd | grep -q /out/ && break; sleep 0.01; done; kill -TERM $p; wait $p; c=$?; kill $s; exit "
      "$c");
  EXPECT_EQ(r.code, 128 + SIGTERM) << r.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "out"));
  EXPECT_EQ(run("tokenize byte --to-bin out/o.bin", "text").code, 0);
  const std::filesystem::directory_iterator files(folder_ / "out"), end;
  EXPECT_EQ(std::distance(files, end), 1);
}

}  // namespace
}  // namespace transformer::test
