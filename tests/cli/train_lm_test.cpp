// `transformer train lm` as its user meets it: from text to a model that generates and is measured; given nonsense.
#include "cli/training.h"
#include "io/shared/json.h"
#include "transformer/tokenizers/tokenizer.h"

namespace transformer::test {
namespace {

namespace fs = std::filesystem;

class TrainLm : public Training {
 protected:
  TrainLm() {
    for (int i = 0; i < 60; ++i) text_ += fmt::format("the cat number {} sat on the mat,\nand the dog  slept.\n\n", i % 7);
    write("cats.txt", text_);
  }
  static std::string command(const std::string& more) {
    return "train lm --text cats.txt --d-model 32 --num-heads 2 --num-layers 1 --context 16 --batch-size 8 --max-update 20 --lr 0.01 "
           "--warmup-updates 5 --threads 2 " +
        more;
  }
  std::string text_;
};

TEST_F(TrainLm, WhatItSavesGeneratesAndIsMeasured) {
  for (const std::string& kind : {std::string("--vocab char"), std::string("--vocab byte --arch llama --num-kv-heads 1"),
                                  std::string("--vocab bpe --vocab-size 320 --documents paragraph --document-mask")}) {
    fs::remove_all(folder_ / "model");
    CommandResult r = run(command(kind + " --save-dir model"));
    ASSERT_EQ(r.code, 0) << r.err;
    expect_parts(r.err, {"training: ", "validation: ", "bits_per_byte", "finished after 20 steps"});
    r = run("generate model --prompt 'the cat' --max-new-tokens 8 --seed 1");
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_GT(r.out.size(), 3U);
    r = run("evaluate model --text cats.txt");
    EXPECT_EQ(r.code, 0) << r.err;
    expect_parts(r.out, {"perplexity", "bits per byte", fmt::format("of {} bytes in windows of 16", text_.size())});
    const TokenizerPtr tokenizer = load_tokenizer(folder_ / "model");
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text_)), text_);
    EXPECT_EQ(tokenizer->piece(tokenizer->eos()), "<|endoftext|>");
    EXPECT_EQ(read_json(folder_ / "model/config.json").at("vocab_size"), tokenizer->size());
  }
}

// A file of tokens is the same data as the text: the same weights come out.
TEST_F(TrainLm, TrainsOnAFileOfTokens) {
  ASSERT_EQ(run("tokenize train --vocab char --input cats.txt --out tokenizer.json").code, 0);
  CommandResult r = run("tokenize tokenizer.json --to-bin cats.bin", text_);
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.out, {fmt::format("cats.bin: {} tokens", text_.size())});
  const std::string shared =
      "--d-model 32 --num-heads 2 --num-layers 1 --context 16 --batch-size 8 --max-update 6 --threads 2 --valid-split 0 "
      "--vocab tokenizer.json ";
  ASSERT_EQ(run("train lm --text cats.txt --save-dir a " + shared).code, 0) << read("stderr");
  ASSERT_EQ(run("train lm --bin cats.bin --save-dir b " + shared).code, 0) << read("stderr");
  EXPECT_TRUE(read("a/model.safetensors") == read("b/model.safetensors"));
  r = run("evaluate b --bin cats.bin");
  EXPECT_EQ(r.out, run("evaluate b --text cats.txt").out);

  ASSERT_EQ(run("tokenize byte --to-bin bytes.bin --documents line", text_).code, 0);
  expect_failure("train lm --bin bytes.bin --save-dir c " + shared, "bytes.bin: was made with another vocabulary");
  ASSERT_EQ(
      run("train lm --bin bytes.bin --vocab byte --d-model 16 --num-heads 2 --num-layers 1 --context 8 --max-update 2 --save-dir d").code,
      0)
      << read("stderr");
  write("short.bin", read("cats.bin").substr(0, 1000));
  expect_failure("train lm --bin short.bin --save-dir c " + shared, "short.bin: is cut off or damaged");
  expect_failure("tokenize tokenizer.json --to-bin none.bin", "there is no text");
  EXPECT_FALSE(fs::exists(folder_ / "none.bin"));
  expect_failure("tokenize tokenizer.json --to-bin none/none.bin", "none/none.bin", text_);
}

// A tokenizer's file may have any name: the folder has it under the one that is looked for there, with its special tokens.
TEST_F(TrainLm, KeepsATokenizerOfAnyNameWithItsSpecialTokens) {
  ASSERT_EQ(run("tokenize train --vocab bpe --vocab-size 320 --input cats.txt --out my-bpe.json").code, 0) << read("stderr");
  ASSERT_EQ(run("tokenize my-bpe.json --to-bin cats.bin --documents paragraph", text_).code, 0) << read("stderr");
  ASSERT_EQ(run("train lm --bin cats.bin --vocab my-bpe.json --d-model 16 --num-heads 2 --num-layers 1 --context 16 --batch-size 4 "
                "--max-update 2 --document-mask --save-dir model")
                .code,
            0)
      << read("stderr");
  const TokenizerPtr before = load_tokenizer(folder_ / "my-bpe.json"), after = load_tokenizer(folder_ / "model");
  EXPECT_EQ(after->encode(text_), before->encode(text_));
  EXPECT_EQ(after->piece(after->eos()), "<|endoftext|>");
  EXPECT_EQ(run("generate model --prompt the --max-new-tokens 2").code, 0) << read("stderr");
  ASSERT_EQ(run("tokenize model --to-bin again.bin --documents paragraph", text_).code, 0);
  EXPECT_TRUE(read("again.bin") == read("cats.bin"));
  CommandResult r = run("evaluate model --text cats.txt --documents paragraph --document-mask");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out, run("evaluate model --bin cats.bin --document-mask").out);
  EXPECT_EQ(run("train lm --from model --text cats.txt --documents line --document-mask --context 8 --batch-size 2 --max-update 1 "
                "--save-dir more")
                .code,
            0)
      << read("stderr");
  write("model/tokenizer_config.json", "{}");
  expect_failure("evaluate model --text cats.txt --document-mask", "the tokenizer has no end of text");
}

// SentencePiece and words have no habits of a family, whatever the model's.
TEST_F(TrainLm, KeepsOtherTokenizersAsTheyWere) {
  ASSERT_EQ(run("tokenize train --vocab-size 60 --input cats.txt --out pieces.model").code, 0) << read("stderr");
  ASSERT_EQ(run("tokenize train --words --input cats.txt --out words.txt").code, 0) << read("stderr");
  for (const std::string name : {"pieces.model", "words.txt"})
    for (const std::string arch : {"gpt2", "llama"}) {
      const std::string model = name + "-" + arch;
      ASSERT_EQ(run(command("--vocab " + name + " --max-update 6 --arch " + arch + " --save-dir " + model)).code, 0) << read("stderr");
      const TokenizerPtr before = load_tokenizer(folder_ / name), after = load_tokenizer(folder_ / model);
      EXPECT_EQ(after->tokenize(text_).ids, before->tokenize(text_).ids) << model;
      EXPECT_EQ(after->eos(), before->eos()) << model;
      EXPECT_EQ(after->pad(), before->pad()) << model;
      EXPECT_EQ(run("generate " + model + " --prompt the --max-new-tokens 2").code, 0) << read("stderr");
    }
}

TEST_F(TrainLm, GoesOnFromAModelOfBefore) {
  ASSERT_EQ(run(command("--save-dir start")).code, 0) << read("stderr");
  write("more.txt", text_ + "the dog number 3 sat.\n");
  const std::string further =
      "train lm --from start --text more.txt --context 12 --batch-size 4 --lr 0.001 --warmup-updates 2 --threads 2 ";
  ASSERT_EQ(run(further + "--max-update 8 --save-dir straight --dropout 0.1").code, 0) << read("stderr");
  EXPECT_TRUE(read("straight/tokenizer.json") == read("start/tokenizer.json"));
  EXPECT_EQ(read_json(folder_ / "straight/config.json").at("resid_pdrop"), 0.1);
  EXPECT_EQ(run("generate straight --prompt the --max-new-tokens 4").code, 0);
  expect_usage(further + "--max-update 8 --save-dir other --d-model 64 --vocab char",
               "--d-model, --vocab: the model and its vocabulary are");
  expect_failure(further + "--max-update 8 --save-dir other --context 17", "sees 16 tokens at most, but context is 17");
  expect_failure(command("--save-dir straight"), "name its folder again (--from)");
}

TEST_F(TrainLm, OtherDataOrSettingsAreRefusedByName) {
  ASSERT_EQ(run(command("--save-dir model")).code, 0) << read("stderr");
  const auto refused = [&](const std::string& more, const std::string& message) {
    const CommandResult r = run(command("--save-dir model --max-update 30 " + more));
    EXPECT_EQ(r.code, 1) << more;
    expect_parts(r.err, {message});
  };
  refused("--context 8", "data.context: 16 in the checkpoint, 8 now");
  refused("--batch-size 4", "data.batch_size: 8 in the checkpoint, 4 now");
  refused("--windows shuffled", "data.windows: \"random\" in the checkpoint, \"shuffled\" now");
  refused("--d-model 64", "architecture.n_embd: 32 in the checkpoint, 64 now");
  write("cats.txt", "And " + text_);
  refused("", "data.training_fingerprint");
}

TEST_F(TrainLm, BadInputIsNamedAndNothingIsWritten) {
  expect_failure(command("--save-dir model --text none.txt"), "none.txt");
  expect_failure(command("--save-dir model --valid-text none.txt"), "none.txt");
  expect_failure(command("--save-dir model --context 100000"), "a window of context 100000 needs 100001");
  expect_usage(command("--save-dir model --vocab words"), "--vocab is 'words'");
  expect_usage(command("--save-dir model --num-heads 5"), "a multiple of --num-heads, 5");
  expect_usage(command("--save-dir model --vocab bpe --vocab-size 270"), "--vocab-size");
  write("empty", "\n");
  expect_failure("train lm --save-dir model --text empty --documents line --max-update 5", "there is no text");
  expect_usage(command("--save-dir deep/er/model --vocab bpe --vocab-size 10"), "--vocab-size is 10, must be between 259");
  for (const char* name : {"model", "deep"}) EXPECT_FALSE(fs::exists(folder_ / name)) << name;
  fs::create_directory(folder_ / "mine");
  expect_failure(command("--save-dir mine/model --text none.txt"), "none.txt");
  EXPECT_TRUE(fs::is_empty(folder_ / "mine"));
  expect_usage("evaluate model --text cats.txt --context -5", "--context is -5");
  expect_usage("evaluate model --text cats.txt --data cats.txt", "--data and by --text or --bin");
  expect_failure("evaluate nowhere --text cats.txt", "nowhere");
  expect_usage("evaluate --text cats.txt", "MODEL");
}

}  // namespace
}  // namespace transformer::test
