#pragma once
// Every task of `transformer train`, small: the files it trains on, and its command without --save-dir. It saves every few updates,
// validates, and averages its last checkpoints, so that all of that is under test; a whole run should take a second or two.

#include <fmt/ranges.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "support/toy_images.h"
#include "toys/corpus.h"
#include "toys/shared/labels.h"
#include "toys/shared/languages.h"
#include "transformer/toys/prices.h"

namespace transformer::test {

using Write = std::function<void(const std::string& name, const std::string& content)>;

struct TaskCase {
  std::string name;
  void (*data)(const Write& write);
  std::vector<std::string> arguments;
  std::string first = {};  // a command that is run before
};

inline std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line);
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

inline void toy_pairs(const Write& write) {
  auto both = [&](const std::string& name, const std::vector<ToyPair>& pairs) {
    std::string source, target;
    for (const ToyPair& p : pairs) source += p.source + "\n", target += p.target + "\n";
    write(name + ".en", source), write(name + ".ko", target);
  };
  both("train", ToyCorpus(400).training());
  both("valid", ToyCorpus(60).testing());
}

inline void toy_text(const Write& write) {
  std::string text;
  for (const ToyPair& p : ToyCorpus(300).training()) text += p.source + ".\n";
  write("text", text);
}

inline void toy_images(const Write& write) { write_idx(write, ToyImages(240), ToyImages(60, 2)); }

inline void toy_series(const Write& write) { write("prices.csv", write_table(toy_prices(600))); }

inline void toy_languages(const Write& write) {
  std::string brackets, songs;
  for (const BracketText& t : bracket_texts(400)) brackets += t.text + (t.balanced ? "\tyes\n" : "\tno\n");
  for (const std::string& song : song_texts(300)) songs += song + "\n";
  write("train.tsv", brackets), write("songs", songs);
}

inline void toy_labels(const Write& write) {
  std::string several, numbers, tagged;
  for (const SwitchText& t : switch_texts(400)) several += fmt::format("{}\t{}\n", t.text, fmt::join(t.on, ","));
  for (const ShoppingText& t : shopping_texts(400)) numbers += fmt::format("{}\t{}\n", t.text, t.total);
  for (const TaggedText& t : name_texts(300)) {
    for (std::size_t i = 0; i < t.words.size(); ++i) tagged += t.words[i] + " " + t.tags[i] + "\n";
    tagged += "\n";
  }
  write("several.tsv", several), write("numbers.tsv", numbers), write("tagged.conll", tagged);
}

inline const std::vector<TaskCase> task_cases{
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

}  // namespace transformer::test
