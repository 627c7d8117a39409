// `transformer train translate` as its user meets it: killed, stopped, given other data, given nonsense.
#include <chrono>
#include <thread>

#include "cli/training.h"
#include "toys/corpus.h"

namespace transformer::test {
namespace {

namespace fs = std::filesystem;

class Train : public Training {
 protected:
  Train() {
    std::string source, target;
    for (const ToyPair& p : ToyCorpus(400).training()) source += p.source + "\n", target += p.target + "\n";
    write("train.en", source), write("train.ko", target);
    std::string few_sources, few_targets;
    for (const ToyPair& p : ToyCorpus(60).testing()) few_sources += p.source + "\n", few_targets += p.target + "\n";
    write("valid.en", few_sources), write("valid.ko", few_targets);
  }

  static std::vector<std::string> arguments(const std::string& folder) {
    return {"train",
            "translate",
            "--source",
            "train.en",
            "--target",
            "train.ko",
            "--valid-source",
            "valid.en",
            "--valid-target",
            "valid.ko",
            "--vocab-size",
            "400",
            "--d-model",
            "32",
            "--num-heads",
            "2",
            "--d-ff",
            "48",
            "--num-layers",
            "1",
            "--max-tokens",
            "400",
            "--lr",
            "0.01",
            "--warmup-updates",
            "20",
            "--max-epoch",
            "12",
            "--save-interval-updates",
            "5",
            "--threads",
            "2",
            "--average",
            "3",
            "--save-dir",
            folder};
  }
  // Refused after the data was read, so that more than the error is printed.
  void expect_refusal(const std::string& line, const std::string& message) const {
    const CommandResult r = run(line);
    EXPECT_EQ(r.code, 1) << line;
    expect_parts(r.err, {"\ntransformer: ", message});
  }
};

TEST_F(Train, AskedToStopItSavesAndSaysHowToGoOn) {
  const auto until = [](const std::string& folder, std::int64_t update) {
    std::vector<std::string> list = arguments(folder);
    list.insert(list.end(), {"--max-epoch", "0", "--max-update", std::to_string(update)});
    return list;
  };
  std::int64_t step = 0;
  for (const int signal : {SIGTERM, SIGINT}) {
    const pid_t child = start(until("stopped", 1'000'000));  // it does not end by itself
    for (int i = 0; i < 12000 && read("log").find("model: ") == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    kill(child, signal);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    const std::string log = read("log"), stopped = "stopped after step ";
    expect_parts(log, {stopped, "Run the same command again"});
    const std::int64_t before = std::exchange(step, std::stoll(log.substr(log.find(stopped) + stopped.size())));
    EXPECT_GT(step, before);
  }
  const std::int64_t end = step + 40;  // by then the checkpoints of the stops are gone
  ASSERT_EQ(run(words(until("stopped", end))).code, 0) << read("stderr");
  ASSERT_EQ(run(words(until("straight", end))).code, 0) << read("stderr");
  EXPECT_EQ(model_files("straight"), model_files("stopped"));
}

TEST_F(Train, OtherDataVocabularyOrArchitectureIsRefusedByName) {
  auto with = [](std::initializer_list<std::string> more) {
    std::vector<std::string> list = arguments("model");
    list.insert(list.end(), {"--max-update", "12"});
    list.insert(list.end(), more);
    return words(list);
  };
  ASSERT_EQ(run(with({})).code, 0) << read("stderr");
  const auto before = model_files("model");
  expect_refusal(with({"--d-model", "64"}), "architecture.d_model: 32 in the checkpoint, 64 now");
  expect_refusal(with({"--vocab-size", "420"}), "vocabulary.vocab_size: 400 in the checkpoint, 420 now");
  expect_refusal(with({"--max-tokens", "300"}), "data.max_tokens: 400 in the checkpoint, 300 now");
  expect_refusal(with({"--seed", "9"}), "training.seed: 1 in the checkpoint, 9 now");
  const std::string text = read("train.en");
  write("train.en", "A cat sleeps" + text.substr(text.find('\n')));
  expect_refusal(with({}), "data.training_fingerprint");
  write("train.en", text);
  EXPECT_EQ(model_files("model"), before);
  EXPECT_EQ(run(with({})).code, 0);
}

// A text that is longer than the model's positions would have ended the training in the middle, the same place each time.
TEST_F(Train, PairsThatAreTooLongForTheModelAreLeftOut) {
  for (const char* name : {"valid.en", "valid.ko"}) {
    const std::string text = read(name), sentence = text.substr(0, text.find('\n'));
    std::string longer;
    for (int i = 0; i < 20; ++i) longer += sentence + " ";
    write(name, text + longer + "\n");
  }
  for (const char* positions : {"sinusoidal", "learned"}) {
    std::vector<std::string> short_one = arguments(positions);
    short_one.insert(short_one.end(), {"--max-update", "4", "--max-len", "40", "--positions", positions});
    const CommandResult r = run(words(short_one));
    ASSERT_EQ(r.code, 0) << r.err;
    expect_parts(r.err, {"validation: 13 pairs; left out: 0 empty, 1 too long"});
  }
  std::vector<std::string> endless = arguments("endless");
  endless.insert(endless.end(), {"--max-update", "4", "--max-len", "40", "--positions", "alibi"});
  EXPECT_EQ(run(words(endless)).err.find("left out"), std::string::npos) << read("stderr");
}

TEST_F(Train, FineTunesAModelOfBefore) {
  std::vector<std::string> first = arguments("start");
  first.insert(first.end(), {"--max-update", "8"});
  ASSERT_EQ(run(words(first)).code, 0) << read("stderr");
  const std::string further =
      "train translate --from start --source train.en --target train.ko --valid-source valid.en --valid-target valid.ko --max-tokens 400 "
      "--lr 0.001 --warmup-updates 5 --save-interval-updates 5 --threads 2 --dropout 0 ";
  CommandResult r = run(further + "--save-dir straight --max-update 20");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"layout marian, from start"});
  ASSERT_EQ(run(further + "--save-dir twice --max-update 7").code, 0);
  ASSERT_EQ(run(further + "--save-dir twice --max-update 20").code, 0);
  EXPECT_TRUE(read("straight/model.safetensors") == read("twice/model.safetensors"));
  for (const char* name : {"source.spm", "target.spm", "vocab.json", "tokenizer_config.json", "generation_config.json"})
    EXPECT_TRUE(read(std::string("straight/") + name) == read(std::string("start/") + name)) << name;
  EXPECT_EQ(run("translate straight --text 'a cat sleeps'").code, 0);

  expect_usage(further + "--save-dir other --max-update 5 --d-model 512 --vocab-size 8000",
               "--d-model, --vocab-size: the model and its vocabulary are");
  expect_usage(further + "--save-dir other --max-update 5 --preset base", "--preset: the model");
  expect_refusal(further + "--save-dir twice --max-update 30 --from straight", "start.weights: ");
  expect_refusal(further + "--save-dir twice --max-update 30 --dropout 0.5", "architecture.dropout: 0.0 in the checkpoint, 0.5 now");
  expect_failure(further + "--save-dir other --max-update 5 --from nowhere", "nowhere");
  expect_failure(words(arguments("twice")), "name its folder again (--from)");
}

TEST_F(Train, BadInputIsNamedAndNothingIsWritten) {
  auto with = [](std::initializer_list<std::string> more) {
    std::vector<std::string> list = arguments("model");
    list.insert(list.end(), more);
    return words(list);
  };
  expect_failure(with({"--source", "none.en"}), "none.en");
  expect_failure(with({"--valid-target", "none.ko"}), "none.ko");
  write("short.ko", "하나\n둘\n");
  expect_failure(with({"--target", "short.ko"}), "short.ko");
  write("empty", "");
  expect_failure(with({"--source", "empty", "--target", "empty"}), "empty");
  expect_failure(with({"--save-dir", "train.en/inside"}), "train.en/inside");
  expect_failure(with({"--save-dir", "/proc/model"}), "/proc/model");
  expect_usage(with({"--vocab-size", "5"}), "--vocab-size");
  expect_refusal(with({"--max-tokens", "3"}), "--max-tokens 3");
  EXPECT_FALSE(fs::exists(folder_ / "model/model.safetensors"));
}

}  // namespace
}  // namespace transformer::test
