// transformer train tag: an encoder that gives each word of a text a tag.
#include <fmt/ranges.h>

#include <memory>

#include "cli/train.h"
#include "cli/train_batch.h"
#include "cli/train_encoder.h"
#include "toys/shared/labels.h"
#include "transformer/train/tag.h"

namespace transformer::cli {
namespace {

struct TrainTag {
  static constexpr BatchSetting batches{TagConfig::usual_max_tokens, "/data/max_tokens", "tokens", "--max-tokens"};

  EncoderStart start;
  TagConfig data;
  ToyConfig toy;
  EncoderConfig model;
  EncoderVocabulary vocabulary;
  TrainConfig training = encoder_training("");  // the metric that suits the tags
  ComputeConfig compute;
  SeedConfig seed;

  // Names of people and places (toys/shared/labels.h) instead of files.
  void make_toy() {
    if (toy.toy == 0) return;
    if (!data.data.empty() || !data.valid.empty() || !data.test.empty())
      throw CLI::ValidationError("--toy makes the texts: leave --data, --valid and --test out");
    const auto all = name_texts(toy.texts());
    const auto file = [&](const char* name, std::int64_t begin, std::int64_t end) {
      std::string text;
      for (std::int64_t i = begin; i < end; ++i) {
        const TaggedText& t = all[static_cast<std::size_t>(i)];
        for (std::size_t w = 0; w < t.words.size(); ++w) text += fmt::format("{} {}\n", t.words[w], t.tags[w]);
        text += "\n";
      }
      return write_toy(training.save_dir, name, text);
    };
    data.data = file("train.conll", 0, toy.training());
    data.valid = file("valid.conll", toy.training(), toy.validation());
    data.test = file("test.conll", toy.validation(), toy.texts());
  }

  TagTask task(Context& ctx, const EncoderStart& further) const {
    if (!start.from.empty()) return {ctx, data, further};
    return {ctx, data, model, vocabulary, latest_checkpoint(training.save_dir)};
  }

  void run(const CLI::App& verb) {
    const EncoderStart further = encoder_start(verb, start, model, vocabulary);
    check_lora(start.from, start.lora);
    check(training);
    make_toy();
    data.max_tokens = batches.of(data.max_tokens, training);
    Context ctx(compute.context(static_cast<std::uint64_t>(seed.seed)));
    TagTask task = this->task(ctx, further);
    const std::vector<std::string>& tags = task.tags();
    fmt::print(stderr, "training: {} texts, {} words with {} tags ({}{})\n", task.training().tokens.count(), task.training().words,
               tags.size(), fmt::join(tags.begin(), tags.begin() + std::min<std::ptrdiff_t>(std::ssize(tags), 20), ", "),
               tags.size() > 20 ? ", …" : "");
    if (task.validation_texts() > 0) fmt::print(stderr, "validation: {} texts\n", task.validation_texts());
    say(task.report());
    if (task.lost() > 0)
      fmt::print(stderr, "{} words have no token, or stand behind the end of what is read: their tags count for nothing\n", task.lost());
    say_model(task);
    batches.say(data.max_tokens, task);
    use_best_metric(training, task);
    if (train(ctx, task, training, start.lora).end == TrainResult::End::interrupted) return;
    task.load(ctx, training.save_dir);
    if (const auto result = task.test(ctx)) say_how_good(training.save_dir, data.valid, data.test, *result, "words");
  }
};

}  // namespace

void add_train_tag(CLI::App& verb) {
  CLI::App* tag = verb.add_subcommand(
      "tag", "tags of words (names of people and places, parts of speech) from tagged texts; with --from, by a ready encoder");
  auto settings = std::make_shared<TrainTag>();
  add_settings(*tag, settings->start, settings->data, settings->toy, settings->model, settings->vocabulary, settings->training,
               settings->compute, settings->seed);
  tag->callback([settings, tag] { settings->run(*tag); });
}

}  // namespace transformer::cli
