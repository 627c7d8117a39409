// Killed at random moments and resumed, every task ends with the bits of a run that was never stopped.
//
// A task is one row: the files it trains on, and its command without --save-dir. It saves every few updates, validates, and averages
// its last checkpoints, so that all of that is under test; a whole run should take a second or two.
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <thread>

#include "cli/training.h"
#include "support/toy_images.h"
#include "toys/corpus.h"
#include "toys/shared/labels.h"
#include "toys/shared/languages.h"
#include "transformer/toys/prices.h"
#include "transformer/train/trainer.h"

namespace transformer::test {
namespace {

using Write = std::function<void(const std::string& name, const std::string& content)>;

struct ResumeCase {
  std::string name;
  void (*data)(const Write& write);
  std::vector<std::string> arguments;
  std::string first = {};  // a command that is run before
};

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line);
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

void toy_pairs(const Write& write) {
  auto both = [&](const std::string& name, const std::vector<ToyPair>& pairs) {
    std::string source, target;
    for (const ToyPair& p : pairs) source += p.source + "\n", target += p.target + "\n";
    write(name + ".en", source), write(name + ".ko", target);
  };
  both("train", ToyCorpus(400).training());
  both("valid", ToyCorpus(60).testing());
}

void toy_text(const Write& write) {
  std::string text;
  for (const ToyPair& p : ToyCorpus(300).training()) text += p.source + ".\n";
  write("text", text);
}

void toy_images(const Write& write) { write_idx(write, ToyImages(240), ToyImages(60, 2)); }

void toy_series(const Write& write) { write("prices.csv", write_table(toy_prices(600))); }

void toy_languages(const Write& write) {
  std::string brackets, songs;
  for (const BracketText& t : bracket_texts(400)) brackets += t.text + (t.balanced ? "\tyes\n" : "\tno\n");
  for (const std::string& song : song_texts(300)) songs += song + "\n";
  write("train.tsv", brackets), write("songs", songs);
}

void toy_labels(const Write& write) {
  std::string several, numbers, tagged;
  for (const SwitchText& t : switch_texts(400)) several += fmt::format("{}\t{}\n", t.text, fmt::join(t.on, ","));
  for (const ShoppingText& t : shopping_texts(400)) numbers += fmt::format("{}\t{}\n", t.text, t.total);
  for (const TaggedText& t : name_texts(300)) {
    for (std::size_t i = 0; i < t.words.size(); ++i) tagged += t.words[i] + " " + t.tags[i] + "\n";
    tagged += "\n";
  }
  write("several.tsv", several), write("numbers.tsv", numbers), write("tagged.conll", tagged);
}

const std::vector<ResumeCase> cases{
    {"classify", toy_languages,
     split("train classify --data train.tsv --valid train.tsv --subwords whitespace --class-weights 1,2 --max-length 64 --max-tokens 400 "
           "--d-model 32 --num-heads 2 --d-ff 48 --num-layers 1 --dropout 0.1 --lr 0.005 --warmup-updates 10 --max-epoch 4 "
           "--save-interval-updates 5 --threads 2 --average 3")},
    {"classify_several", toy_labels,
     split(
         "train classify --data several.tsv --valid several.tsv --label-separator , --subwords whitespace --max-length 64 --max-tokens 400 "
         "--d-model 32 --num-heads 2 --d-ff 48 --num-layers 1 --dropout 0.1 --lr 0.005 --warmup-updates 10 --max-epoch 6 "
         "--save-interval-updates 5 --threads 2 --average 3")},
    {"classify_numbers", toy_labels,
     split("train classify --data numbers.tsv --valid numbers.tsv --arch distilbert --subwords whitespace --max-length 64 --max-tokens 400 "
           "--d-model 32 --num-heads 2 --d-ff 48 --num-layers 1 --dropout 0.1 --lr 0.005 --warmup-updates 10 --max-epoch 6 "
           "--save-interval-updates 5 --threads 2 --average 3")},
    {"forecast", toy_series,
     split("train forecast --csv prices.csv --preset documents --dropout 0.2 --attention-dropout 0.1 --head-dropout 0.1 --batch-size 32 "
           "--lr 0.003 --max-epoch 14 --save-interval-updates 5 --threads 2 --average 3")},
    {"forecast_quantiles", toy_series,
     split("train forecast --csv prices.csv --preset documents --quantiles 0.1,0.9 --dropout 0.2 --head-dropout 0.1 --batch-size 32 "
           "--lr 0.003 --max-epoch 14 --save-interval-updates 5 --threads 2 --average 3")},
    {"image", toy_images,
     split("train image --idx . --patch-size 2 --d-model 32 --num-heads 2 --num-layers 2 --d-ff 64 --dropout 0.1 --stochastic-depth 0.2 "
           "--flip --crop-padding 1 --randaugment 1,3 --random-erasing 0.2 --mixup 0.4 --cutmix 1 --batch-size 16 --lr 0.005 "
           "--warmup-updates 10 --max-epoch 10 --save-interval-updates 5 --threads 2 --average 3")},
    {"lm", toy_text,
     split("train lm --text text --d-model 32 --num-heads 2 --num-layers 2 --context 32 --batch-size 8 --dropout 0.1 --windows shuffled "
           "--lr 0.01 --warmup-updates 10 --max-epoch 3 --validate-interval-updates 40 --save-interval-updates 7 --threads 2 --average 3")},
    {"lora", toy_text,
     split("train lm --from base --text text --lora-rank 4 --lora-dropout 0.1 --context 32 --batch-size 8 --windows shuffled --lr 0.01 "
           "--warmup-updates 10 --max-epoch 3 --validate-interval-updates 40 --save-interval-updates 7 --threads 2 --average 3"),
     "train lm --text text --d-model 32 --num-heads 2 --num-layers 2 --context 32 --max-update 3 --threads 2 --save-dir base"},
    {"mlm", toy_languages,
     split("train mlm --text songs --valid-text songs --subwords bpe --vocab-size 80 --whole-word --max-length 64 --max-tokens 600 "
           "--arch roberta --d-model 32 --num-heads 2 --d-ff 48 --num-layers 1 --dropout 0.1 --lr 0.005 --warmup-updates 10 --max-epoch 2 "
           "--save-interval-updates 5 --threads 2 --average 3")},
    {"tag", toy_labels,
     split("train tag --data tagged.conll --valid tagged.conll --arch roberta --subwords whitespace --max-length 64 --max-tokens 400 "
           "--d-model 32 --num-heads 2 --d-ff 48 --num-layers 1 --dropout 0.1 --lr 0.005 --warmup-updates 10 --max-epoch 6 "
           "--save-interval-updates 5 --threads 2 --average 3")},
    {"translate", toy_pairs,
     split("train translate --source train.en --target train.ko --valid-source valid.en --valid-target valid.ko --vocab-size 400 "
           "--d-model 32 --num-heads 2 --d-ff 48 --num-layers 1 --max-tokens 400 --lr 0.01 --warmup-updates 20 --max-epoch 12 "
           "--save-interval-updates 5 --threads 2 --average 3")},
};

class Resume : public Training, public testing::WithParamInterface<ResumeCase> {
 protected:
  static std::vector<std::string> command(const std::string& folder) {
    std::vector<std::string> list = GetParam().arguments;
    list.insert(list.end(), {"--save-dir", folder});
    return list;
  }
};

TEST_P(Resume, KilledTenTimesEndsWithTheSameBits) {
  GetParam().data([this](const std::string& name, const std::string& content) { write(name, content); });
  if (const std::string& first = GetParam().first; !first.empty()) {
    ASSERT_EQ(run(first).code, 0) << read("stderr");
  }
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run(words(command("straight"))).code, 0) << read("stderr");
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
  const double longest = std::min(whole.count() / 6, 0.3);  // ten lives together are too short to finish
  std::mt19937 random(20170612);
  const auto newest = [&] {
    const auto checkpoint = latest_checkpoint(folder_ / "killed");
    return checkpoint ? checkpoint->filename().string() : "";
  };
  const auto wait = [&](double most) {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::uniform_real_distribution(0.0, most)(random)));
  };
  int killed = 0, further = 0;
  for (int i = 0; i < 10; ++i) {
    const std::string before = newest();
    const pid_t child = start(command("killed"));
    if (i % 2 == 0) {
      wait(longest);  // at any moment, or
    } else {          // soon after it has come further
      const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(2);
      while (newest() == before && std::chrono::steady_clock::now() < limit) wait(0.002);
      wait(longest / 4);
    }
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    killed += WIFSIGNALED(status) ? 1 : 0;
    further += newest() != before ? 1 : 0;
  }
  EXPECT_GE(killed, Device::usual().kind == Device::Kind::cuda ? 5 : 10);  // a GPU may be done before: most of a life goes into its start
  EXPECT_GE(further, 5);  // it was resumed from somewhere
  ASSERT_EQ(run(words(command("killed"))).code, 0) << read("stderr");
  const auto expected = model_files("straight"), got = model_files("killed");
  EXPECT_GT(expected.size(), 6U);
  for (const auto& [name, bytes] : expected) {
    ASSERT_TRUE(got.contains(name)) << name;
    EXPECT_TRUE(got.at(name) == bytes) << name << " differs";
  }
  EXPECT_EQ(got.size(), expected.size());
}

INSTANTIATE_TEST_SUITE_P(Tasks, Resume, testing::ValuesIn(cases), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace transformer::test
