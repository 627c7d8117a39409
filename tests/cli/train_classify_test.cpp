// `transformer train classify` and `train mlm` as their users meet them.
#include "cli/training.h"
#include "io/shared/json.h"
#include "support/text_files.h"
#include "toys/shared/languages.h"
#include "transformer/train/trainer.h"

namespace transformer::test {
namespace {

namespace fs = std::filesystem;

class TrainEncoder : public Training {
 protected:
  static constexpr const char* small = " --d-model 16 --num-heads 2 --d-ff 24 --num-layers 1 --threads 1 --subwords whitespace ";
};

TEST_F(TrainEncoder, FromTextsToAClassifierThatTheOtherVerbsUse) {
  std::string tsv = "id\ttext\tlabel\n", jsonl;
  for (int i = 0; i < 40; ++i) {
    const bool good = i % 4 == 0;
    const std::string text = good ? "what a fine day" : "what a bad day";
    tsv += std::to_string(i) + "\t" + text + "\t" + (good ? "good" : "bad") + "\n";
    jsonl += "{\"text\": \"" + text + "\", \"label\": \"" + (good ? "good" : "bad") + "\"}\n";
  }
  write("train.tsv", tsv), write("test.jsonl", jsonl);
  const std::string command = std::string(
                                  "train classify --data train.tsv --valid train.tsv --test test.jsonl --lr 0.01 --warmup-updates 5 ") +
      "--max-epoch 20 --class-weights balanced --save-dir model" + small;
  const CommandResult r = run(command);
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"training: 40 texts of 2 classes (bad 30, good 10)", "validation: 40 texts", "vocabulary 10, bert", "accuracy"});
  expect_parts(r.out, {"test.jsonl: 40 texts, accuracy 100.00 %, macro-F1 100.00 %", "what it was taken for"});
  const nlohmann::json report = read_json(folder_ / "model/test_report.json");
  EXPECT_EQ(report.at("confusion"), nlohmann::json::parse("[[30,0],[0,10]]"));

  const CommandResult again = run("evaluate model --data test.jsonl");
  EXPECT_EQ(again.out, fmt::format("{}\nloss {:.4g}\n", r.out, report.at("loss").get<double>()));
  EXPECT_EQ(run("evaluate model --data train.tsv --label-column label --text-column text").out.substr(9), again.out.substr(10));
  expect_parts(run("classify model --text 'what a fine day' --text 'a bad day'").out, {"good\t", "\nbad\t"});
  EXPECT_EQ(run("inspect model").code, 0);

  // Further, with the head that knows the classes.
  const CommandResult further = run(
      "train classify --from model --data test.jsonl --valid train.tsv --lr 1e-3 --max-update 3 "
      "--save-dir tuned --threads 1 --dropout 0");
  ASSERT_EQ(further.code, 0) << further.err;
  expect_parts(further.err, {"bert, from model"});
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    EXPECT_TRUE(read(std::string("tuned/") + name) == read(std::string("model/") + name)) << name;
  expect_usage("train classify --from model --data test.jsonl --save-dir other --d-model 32 --subwords bpe",
               "--d-model, --subwords: the model and its vocabulary are");
}

// 400 texts of 6 words, of which one decides: an epoch of usual batches would be one update.
TEST_F(TrainEncoder, BatchesSuitSmallData) {
  std::string csv = "Text;Label\n";
  for (int i = 0; i < 400; ++i) {
    csv += fmt::format("\"a{} b{} c{} {} d{} e{}\";{}\n", i % 7, i % 11, i % 5, i % 2 == 0 ? "sun" : "rain", i % 3, i % 13,
                       i % 2 == 0 ? "good" : "bad");
  }
  write("train.csv", csv);
  const std::string command = std::string("train classify --data train.csv --valid train.csv --log-interval 1 --lr 0.01") + small;
  const CommandResult r = run(command + "--max-epoch 2 --save-dir model");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"batches of 64 tokens instead of 4096", "--max-tokens"});
  const auto saved = [&](const std::string& folder) {
    return read_json(*latest_checkpoint(folder_ / folder) / "trainer.json").at("identity").at("data").at("max_tokens");
  };
  EXPECT_EQ(saved("model"), 64);
  // Resumed, also by its number of updates, it keeps that; another size is refused.
  EXPECT_EQ(run(command + "--max-epoch 3 --save-dir model").code, 0) << read("stderr");
  EXPECT_EQ(run(command + "--max-update 200 --save-dir model").code, 0) << read("stderr");
  EXPECT_EQ(saved("model"), 64);
  expect_failure(command + "--max-epoch 9 --max-tokens 128 --save-dir model", "max_tokens");
  // What the user says holds, and the length in updates is one way to say it.
  ASSERT_EQ(run(command + "--max-epoch 2 --max-tokens 2048 --save-dir given").code, 0) << read("stderr");
  EXPECT_EQ(saved("given"), 2048);
  ASSERT_EQ(run(command + "--max-update 2 --save-dir updates").code, 0) << read("stderr");
  EXPECT_EQ(saved("updates"), 4096);
}

// Several labels, numbers and tags of words, each from a file to the verbs that use the model.
TEST_F(TrainEncoder, LabelsOfEveryKind) {
  std::string several, numbers, tagged;
  for (int i = 0; i < 12; ++i) {
    several += "lamp on bell on\tbell;lamp\nlamp off\t\nbell on\tbell\n";
    numbers += "one milk\t0.3\ntwo milk\t0.6\ntwo tea\t1\n";
    tagged += "mr B-PER\nparis I-PER\nslept O\n\nin O\nparis B-LOC\n\n";
  }
  write("several.tsv", several), write("numbers.tsv", numbers), write("tagged.conll", tagged);
  const std::string more =
      "--lr 0.005 --warmup-updates 30 --max-epoch 40 --max-tokens 24 --validate-interval-updates 70 --dropout 0 --attention-dropout 0 "
      "--d-model 32 --num-heads 2 --d-ff 48 --num-layers 1 --threads 1 --subwords whitespace ";

  CommandResult r = run("train classify --data several.tsv --valid several.tsv --label-separator ';' --save-dir several " + more);
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"training: 36 texts with any of 2 labels (bell 24, lamp 12)", "micro_f1 1"});
  expect_parts(r.out, {"several.tsv: 36 texts, micro-F1 100.00 %, macro-F1 100.00 %, all labels right 100.00 %"});
  EXPECT_TRUE(run("evaluate several --threads 1 --data several.tsv --label-separator ';'").out.starts_with(r.out + "\nloss "));
  r = run("classify several --text 'lamp on bell on' --text 'lamp off'");
  expect_parts(r.out, {"bell\t0.9", "lamp\t0.9", "\n\n"});

  r = run("train classify --data numbers.tsv --valid numbers.tsv --save-dir numbers " + more);
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"training: 36 texts with a number each (mean 0.6333, deviation 0.2867)", "the labels are numbers"});
  expect_parts(r.out, {"numbers.tsv: 36 texts, R² "});
  EXPECT_TRUE(run("evaluate numbers --threads 1 --data numbers.tsv").out.starts_with(r.out + "\nloss "));
  EXPECT_NEAR(std::stod(run("classify numbers --text 'two tea'").out), 1.0, 0.1);
  EXPECT_EQ(read_json(folder_ / "numbers/valid_report.json").at("samples"), 36);
  EXPECT_GT(read_json(folder_ / "numbers/valid_report.json").at("r2").get<double>(), 0.99);

  const std::string tag = "train tag --data tagged.conll --valid tagged.conll --save-dir tagged " + more;
  r = run(tag);
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"training: 24 texts, 60 words with 4 tags (B-LOC, B-PER, I-PER, O)", "f1 1"});
  expect_parts(r.out, {"tagged.conll: 60 words, entities: F1 100.00 %", "PER "});
  EXPECT_TRUE(run("evaluate tagged --threads 1 --data tagged.conll").out.starts_with(r.out + "\nloss "));
  expect_parts(run("classify tagged --text 'mr paris slept'").out, {"mr paris\tPER\t0.9"});
  expect_parts(run("classify tagged --tags --text 'in paris'").out, {"in\tO\t0.9", "paris\tB-LOC\t0.9"});
  // Further, with the head it has; and the body of a classifier with a new one.
  EXPECT_EQ(run("train tag --from tagged --data tagged.conll --max-update 2 --save-dir further --threads 1").code, 0) << read("stderr");
  EXPECT_EQ(run("train tag --from numbers --data tagged.conll --max-update 2 --save-dir other --threads 1").code, 0) << read("stderr");
  expect_failure("evaluate other --data several.tsv", "several.tsv: line 1");

  expect_usage("train tag --max-update 2 --save-dir none", "--data is missing");
  write("unknown.conll", "in O\nrome B-CITY\n");
  expect_failure("train tag --data tagged.conll --valid unknown.conll --max-update 2 --save-dir none",
                 "unknown.conll: line 2 has the tag 'B-CITY'");
  expect_failure("evaluate tagged --data unknown.conll", "line 2 has the tag 'B-CITY', which the model tagged does not have");
  write("one.conll", "in O\n");
  expect_failure("train tag --data one.conll --max-update 2 --save-dir none", "all words have the tag 'O'");
  expect_failure("train classify --data several.tsv --label-separator ';' --problem-type regression --max-update 2 --save-dir none",
                 "is not a number");
  expect_usage("train classify --data several.tsv --problem-type several --save-dir none", "problem-type");
  EXPECT_FALSE(fs::exists(folder_ / "none"));
}

TEST_F(TrainEncoder, BadDataIsNamedAndNothingIsWritten) {
  write("train.tsv", "a b\tx\nc d\ty\n");
  const std::string start = std::string("train classify --max-update 2 --save-dir model") + small;
  const auto refused = [&](const std::string& more, const std::string& message) { expect_failure(start + more, message); };
  expect_usage(start, "--data is missing");
  refused("--data none.tsv", "none.tsv");
  write("bad.tsv", "a\tx\nb\n");
  refused("--data bad.tsv", "bad.tsv: line 2 has 1 column");
  refused("--data train.tsv --valid bad.tsv", "bad.tsv: line 2");
  write("other.tsv", "a\tx\nb\ty\nc\tz\n");
  refused("--data train.tsv --test other.tsv", "other.tsv: line 3 has the class 'z', which the training text train.tsv does not have");
  write("one.tsv", "a\tx\nb\tx\n");
  refused("--data one.tsv", "all 2 texts have the class 'x'");
  refused("--data train.tsv --label-column kind", "no column 'kind'");
  expect_usage(start + "--data train.tsv --class-weights 1,2,3", "--class-weights has 3 numbers");
  expect_usage(start + "--data train.tsv --num-heads 3", "--num-heads, 3");
  refused("--data train.tsv --max-tokens 3", "--max-tokens 3");
  expect_usage(start + "--data train.tsv --max-length 2", "--max-length is 2");
  expect_failure("train classify --data train.tsv --from none --max-update 2 --save-dir model", "none/config.json");
  expect_usage(start + "--data train.tsv --toy 10", "--toy makes the texts");
  write("label.jsonl", "{\"text\": \"a\", \"label\": \"x\\ty\"}\n");
  refused("--data label.jsonl", "label.jsonl: line 1: the class");
  refused("--data train.tsv --second-column 2", "both column 2");
  EXPECT_FALSE(fs::exists(folder_ / "model"));
}

TEST_F(TrainEncoder, AnotherRunIsRefusedByName) {
  write("train.tsv", "a b\tx\nc d\ty\n");
  const std::string command = std::string("train classify --data train.tsv --max-update 2 --save-dir model") + small;
  ASSERT_EQ(run(command).code, 0) << read("stderr");
  const auto refused = [&](const std::string& more, const std::string& message) {
    const CommandResult r = run(command + more);
    EXPECT_EQ(r.code, 1);
    expect_parts(r.err, {message});
  };
  refused("--d-ff 32", "architecture.intermediate_size: 24 in the checkpoint, 32 now");
  refused("--class-weights balanced", "data.class_weights: \"none\" in the checkpoint, \"balanced\" now");
  refused("--lowercase", "vocabulary.lowercase: false in the checkpoint, true now");
  write("train.tsv", "a b\tx\nc c\ty\n");
  refused("", "data.training_fingerprint");
}

TEST_F(TrainEncoder, MaskedLanguageModelThenClassifier) {
  std::string text;
  for (const std::string& song : song_texts(200)) text += song + "\n";
  write("text", text);
  const std::string command =
      std::string("train mlm --text text --valid-text text --max-length 64 --max-tokens 2048 --max-update 6 --whole-word ") +
      "--warmup-updates 2 --save-dir mlm" + small;
  const CommandResult r = run(command);
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"training: 200 texts, ", "validation: 200 texts", "vocabulary 29, bert", "perplexity", "accuracy"});
  EXPECT_EQ(run("embed mlm --text 'sun rain'").code, 0);
  write("train.tsv", "sun rain\tx\nsea sand\ty\n");
  const CommandResult tuned = run("train classify --from mlm --data train.tsv --max-update 2 --save-dir tuned --threads 1");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_EQ(run("classify tuned --text 'sun rain'").code, 0);

  // Standard input is read once: with a vocabulary that is there already that is enough.
  expect_usage("train mlm --text - --max-update 2 --save-dir other", "standard input only once");
  EXPECT_EQ(run("train mlm --from mlm --text - --max-update 1 --save-dir piped --threads 1", text).code, 0) << read("stderr");
  write("empty", "\n\n");
  expect_failure("train mlm --text empty --max-update 2 --save-dir other", "empty: there is no text");
  expect_usage("train mlm --max-update 2 --save-dir other", "--text is missing");
  expect_failure("train mlm --text none --max-update 2 --save-dir other", "none");
  expect_usage("train mlm --text text --mask-probability 0 --max-update 2 --save-dir other", "--mask-probability is 0");
  EXPECT_FALSE(fs::exists(folder_ / "other"));
}

// A tokenizer's file of another name: the folder is trained further, embeds and classifies as any other.
TEST_F(TrainEncoder, KeepsATokenizerOfAnyName) {
  fs::create_directory(folder_ / "odd");
  fs::copy(case_folder("tokenizers") / "bert-wordpiece.json", folder_ / "odd/config.json");
  write("text", "a dog runs\na dog sleeps\n");
  const std::string shared = " --max-length 16 --max-update 1 --threads 1 --text text ";
  const CommandResult r = run("train mlm --tokenizer odd/config.json --d-model 16 --num-heads 2 --d-ff 24 --num-layers 1 --save-dir mlm" +
                              shared);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(read_json(folder_ / "mlm/config.json").at("model_type"), "bert");
  EXPECT_EQ(run("embed mlm --text 'a dog'").code, 0) << read("stderr");
  EXPECT_EQ(run("train mlm --from mlm --save-dir further" + shared).code, 0) << read("stderr");
}

TEST_F(TrainEncoder, ToyTextsAreWrittenBesideTheModel) {
  const CommandResult r = run(std::string("train classify --toy 100 --max-length 48 --max-update 2 --save-dir model") + small);
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"training: 100 texts of 2 classes (balanced 50, unbalanced 50)"});
  expect_parts(r.out, {"model/toy/test.tsv: 2000 texts"});
  EXPECT_TRUE(run("evaluate model --data model/toy/test.tsv").out.starts_with(r.out + "\nloss "));
  const auto toy = [&](const std::string& task, const std::string& part) {
    const CommandResult made = run("train " + task + " --toy 100 --max-length 48 --max-update 2 --save-dir '" + task + "'" + small);
    EXPECT_EQ(made.code, 0) << made.err;
    expect_parts(made.out, {part});
  };
  toy("tag", "tag/toy/test.conll: ");
  toy("classify --problem-type multi_label", "/toy/test.tsv: 2000 texts, micro-F1");
  toy("classify --problem-type regression", "/toy/test.tsv: 2000 texts, R²");
}

}  // namespace
}  // namespace transformer::test
