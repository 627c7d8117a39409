#pragma once
// `train classify` and `train tag`: the settings that both have, and the course of a training.

#include <memory>
#include <string>
#include <vector>

#include "cli/train.h"
#include "cli/train_batch.h"
#include "cli/train_encoder.h"

namespace transformer::cli {

// Verb: a struct on this one, which has
//   static constexpr const char *file, *samples;     how made-up files end (".tsv"); what is counted ("texts")
//   std::vector<std::string> made_up();               toy.texts() of them, as a file has them; may change the settings of the data
//   void say_what_was_read(const Job& task) const;
template <class Verb, class Data, class Job>
struct LabelTraining {
  static constexpr BatchSetting batches{Data::usual_max_tokens, "/data/max_tokens", "tokens", "--max-tokens"};

  EncoderStart start;
  Data data;
  ToyConfig toy;
  EncoderConfig model;
  EncoderVocabulary vocabulary;
  TrainConfig training = encoder_training("");  // the metric that suits the labels
  ComputeConfig compute;
  SeedConfig seed;

  static void add(CLI::App& verb, const std::string& name, const std::string& help) {
    CLI::App* app = verb.add_subcommand(name, help);
    auto settings = std::make_shared<Verb>();
    add_settings(*app, settings->start, settings->data, settings->toy, settings->model, settings->vocabulary, settings->training,
                 settings->compute, settings->seed);
    app->callback([settings, app] { settings->run(*app); });
  }

 private:
  Verb& self() { return static_cast<Verb&>(*this); }

  void make_toy() {
    if (toy.toy == 0) return;
    if (!data.data.empty() || !data.valid.empty() || !data.test.empty())
      throw CLI::ValidationError("--toy makes the texts: leave --data, --valid and --test out");
    const std::vector<std::string> all = self().made_up();
    const auto file = [&](const std::string& name, std::int64_t begin, std::int64_t end) {
      std::string text;
      for (std::int64_t i = begin; i < end; ++i) text += all[static_cast<std::size_t>(i)];
      return write_toy(training.save_dir, name + Verb::file, text);
    };
    data.data = file("train", 0, toy.training());
    data.valid = file("valid", toy.training(), toy.validation());
    data.test = file("test", toy.validation(), toy.texts());
  }

  Job task(Context& ctx, const EncoderStart& further) const {
    if (!start.from.empty()) return {ctx, data, further};
    return {ctx, data, model, vocabulary, latest_checkpoint(training.save_dir)};
  }

  void run(const CLI::App& verb) {
    const EncoderStart further = encoder_start(verb, start, model, vocabulary);
    check_lora(start.from, start.lora);
    check(training, first_process());
    make_toy();
    data.max_tokens = batches.of(data.max_tokens, training);
    Context ctx(context_of(compute, seed));
    Job task = this->task(ctx, further);
    self().say_what_was_read(task);
    say_model(task);
    batches.say(data.max_tokens, task);
    use_best_metric(training, task);
    train(ctx, task, training, start.lora, [&] {
      task.load(ctx, training.save_dir);
      if (const auto result = task.test(ctx)) say_how_good(training.save_dir, data.valid, data.test, *result, Verb::samples);
    });
  }
};

}  // namespace transformer::cli
