// transformer train mlm: an encoder that says which words were hidden.
#include <memory>

#include "cli/train.h"
#include "cli/train_batch.h"
#include "cli/train_encoder.h"
#include "toys/shared/languages.h"
#include "transformer/train/mlm.h"

namespace transformer::cli {
namespace {

struct TrainMlm {
  static constexpr BatchSetting batches{MlmConfig::usual_max_tokens, "/data/max_tokens", "tokens", "--max-tokens"};

  EncoderStart start;
  MlmConfig data;
  ToyConfig toy;
  EncoderConfig model;
  EncoderVocabulary vocabulary;
  TrainConfig training = encoder_training("loss");
  ComputeConfig compute;
  SeedConfig seed;

  // Songs (toys/shared/languages.h) instead of files.
  void make_toy() {
    if (toy.toy == 0) return;
    if (!data.text.empty() || !data.valid_text.empty())
      throw CLI::ValidationError("--toy makes the texts: leave --text and --valid-text out");
    const auto all = song_texts(toy.texts());
    const auto file = [&](const char* name, std::int64_t begin, std::int64_t end) {
      std::string text;
      for (std::int64_t i = begin; i < end; ++i) text += all[static_cast<std::size_t>(i)] + "\n";
      return std::vector{write_toy(training.save_dir, name, text)};
    };
    data.text = file("train.txt", 0, toy.training());
    data.valid_text = file("valid.txt", toy.training(), toy.texts());
  }

  MlmTask task(Context& ctx, const EncoderStart& further) const {
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
    MlmTask task = this->task(ctx, further);
    fmt::print(stderr, "training: {} texts, {} tokens\n", task.training_texts(), task.training_tokens());
    if (task.validation_texts() > 0) fmt::print(stderr, "validation: {} texts\n", task.validation_texts());
    say(task.report());
    say_model(task);
    batches.say(data.max_tokens, task);
    train(ctx, task, training, start.lora);
  }
};

}  // namespace

void add_train_mlm(CLI::App& verb) {
  CLI::App* mlm = verb.add_subcommand("mlm", "a masked language model (BERT) from text; with --from, a ready encoder further");
  auto settings = std::make_shared<TrainMlm>();
  add_settings(*mlm, settings->start, settings->data, settings->toy, settings->model, settings->vocabulary, settings->training,
               settings->compute, settings->seed);
  mlm->callback([settings, mlm] { settings->run(*mlm); });
}

}  // namespace transformer::cli
