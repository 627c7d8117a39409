// What is written is never what is read, however the two are named.
#include "cli/command.h"

namespace transformer::test {
namespace {

namespace fs = std::filesystem;

class Files : public Command {};  // refused before anything else: the models need not be there

TEST_F(Files, WhatIsReadIsNotWritten) {
  for (const char* name : {"F", "F.npy", "F.svg"}) write(name, "mine\n");
  const std::vector<std::pair<std::string, std::string>> cases{
      {"translate model --input F --output F", "--input and --output are the same file, F"},
      {"forecast model --csv F --out F", "--csv and --out are the same file"},
      {"forecast model --csv F.svg --plot F.svg", "--csv and --plot are the same file"},
      {"forecast model --csv F --out new.svg --plot ./new.svg", "--out and --plot are the same file"},
      {"embed model --input F.npy --out F.npy", "--input and --out are the same file"},
      {"explain model --image F.svg --out F.svg", "--image and --out are the same file"},
      {"run model --inputs F --outputs F", "--inputs and --outputs are the same file"},
      {"tokenize train --input F.npy F --out F", "--input and --out are the same file"},
      {"tokenize F --to-bin F", "MODEL and --to-bin are the same file"},
  };
  for (const auto& [arguments, message] : cases) expect_usage(arguments, message);
  for (const char* name : {"F", "F.npy", "F.svg"}) EXPECT_EQ(read(name), "mine\n");
}

TEST_F(Files, AlsoThroughLinksAndOtherSpellings) {
  write("F", "mine\n");
  fs::create_directory(folder_ / "sub");
  fs::create_symlink("F", folder_ / "soft");
  fs::create_hard_link(folder_ / "F", folder_ / "hard");
  for (const std::string& other : std::vector<std::string>{"soft", "hard", "./F", "sub/../F", "'" + (folder_ / "F").string() + "'"}) {
    expect_usage("translate model --input F --output " + other, "are the same file");
    expect_usage("translate model --output F --input " + other, "are the same file");
  }
  expect_usage("translate model --output stdin", "standard input and --output are the same file");
  expect_usage("tokenize model --to-bin stdin", "standard input and --to-bin are the same file");
  const CommandResult appended = run("translate model --input stdout");
  EXPECT_EQ(appended.code, 2);
  expect_parts(appended.err, {"--input and standard output are the same file"});
  EXPECT_EQ(read("F"), "mine\n");
  // Devices may be both.
  EXPECT_EQ(run("translate model --input /dev/null --output /dev/null").code, 1);
}

TEST_F(Files, WhatAModelIsMadeOfIsKept) {
  fs::create_directories(folder_ / "M/inner");
  for (const char* name : {"M/model.safetensors", "M/inner/tokenizer.json", "t.de"}) write(name, "mine\n");
  fs::create_symlink("M", folder_ / "other");
  for (const char* arguments :
       {"translate M --text a --output M/model.safetensors", "translate other --text a --output M/inner/tokenizer.json",
        "forecast M --csv t.de --out M/model.safetensors", "embed M --text a --out M/model.safetensors",
        "run M --inputs t.de --outputs other/model.safetensors", "tokenize M --to-bin M/inner/tokenizer.json"})
    expect_usage(arguments, "is a file of MODEL");
  expect_usage("train translate --source t.de --target t.de --dump-config t.de", "--dump-config are the same file");
  expect_usage("train translate --from M --dump-config M/model.safetensors", "--dump-config is a file of --from");
  expect_usage("train lm --save-dir other --dump-config M/model.safetensors", "--dump-config is a file of --save-dir");
  for (const char* name : {"M/model.safetensors", "M/inner/tokenizer.json", "t.de"}) EXPECT_EQ(read(name), "mine\n");
  // What is new, and beside the model's own, may lie there.
  EXPECT_EQ(run("translate M --text a --output M/new.txt").code, 1);
  EXPECT_EQ(run("translate . --text a").code, 1);  // its standard output is a file of this folder that the shell has just made
  EXPECT_EQ(run("train lm --save-dir M --dump-config M/new.toml").code, 0);
}

// A training writes more than weights: none of it over what is there.
TEST_F(Files, ATrainingKeepsWhatIsInItsFolder) {
  fs::create_directory(folder_ / "w");
  const std::string text = "to be or not to be that is the question\n";
  for (const char* name : {"metrics.csv", "metrics.jsonl", "tokenizer.json", "test.json"}) {
    const std::string path = std::string("w/") + name;
    write(path, text + text + text);
    const CommandResult r = run("train lm --text " + path +
                                " --context 8 --d-model 8 --num-heads 2 --num-layers 1 --batch-size 2 --max-update 2 --save-dir w");
    EXPECT_EQ(r.code, 1) << name;
    expect_parts(r.err, {name, "another folder"});
    EXPECT_EQ(read(path), text + text + text);
    fs::remove_all(folder_ / "w");
    fs::create_directory(folder_ / "w");
  }
}

// What it would write as it is there is not lost, and no other folder is needed to find that out.
TEST_F(Files, ATrainingTakesATokenizerFromItsOwnFolder) {
  const std::string train = "train lm --text t.txt --context 8 --d-model 8 --num-heads 2 --num-layers 1 --batch-size 2 --max-update 2 ";
  std::string text;
  for (int i = 0; i < 5; ++i) text += "to be or not to be that is the question\n";
  write("t.txt", text);
  ASSERT_EQ(run(train + "--save-dir first").code, 0) << read("stderr");
  fs::create_directory(folder_ / "w");
  fs::copy_file(folder_ / "first/tokenizer.json", folder_ / "w/tokenizer.json");
  ::setenv("TMPDIR", "/nonexistent", 1);
  const CommandResult r = run(train + "--vocab w/tokenizer.json --save-dir w");
  ::unsetenv("TMPDIR");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(read("w/tokenizer.json"), read("first/tokenizer.json"));
  EXPECT_FALSE(fs::exists(folder_ / "w/.files-beside"));
}

TEST_F(Files, ASettingsFileIsNotReplacedByItsOwnDump) {
  write("F.toml", "# my notes\nmax_update = 7\n");
  expect_usage("train lm --config F.toml --dump-config F.toml", "--config and --dump-config are the same file");
  EXPECT_EQ(read("F.toml"), "# my notes\nmax_update = 7\n");
  EXPECT_EQ(run("train lm --config F.toml --dump-config G.toml").code, 0);
  expect_parts(read("G.toml"), {"max_update = 7"});
}

// 8 blocks of 1024 bytes: far less than the weights.
TEST_F(Files, ALimitOfTheSizeOfFilesIsAnErrorLikeAFullDisk) {
  write("text", std::string(20000, 'a') + "\n");
  const CommandResult r = run(
      "--version > /dev/null; ulimit -f 8; '" + command_path().string() +
      "' train lm --text text --d-model 32 --num-heads 2 --num-layers 1 --context 16 --max-update 3 --save-dir model");
  EXPECT_EQ(r.code, 1) << r.err;
  expect_parts(r.err, {"\ntransformer: ", "cannot write: File too large"});
  EXPECT_FALSE(fs::exists(folder_ / "model/model.safetensors"));
}

}  // namespace
}  // namespace transformer::test
