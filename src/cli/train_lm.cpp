// transformer train lm: a language model from text.
#include <memory>

#include "cli/train.h"
#include "cli/train_batch.h"
#include "transformer/train/language.h"

namespace transformer::cli {
namespace {

void say_what_was_read(const char* what, const CorpusReport& report) {
  if (report.tokens == 0) return;
  fmt::print(stderr, "{}: {} tokens", what, report.tokens);
  if (report.text_bytes > 0) fmt::print(stderr, " of {} bytes", report.text_bytes);
  if (report.documents > 1) fmt::print(stderr, ", {} documents", report.documents);
  if (report.unknown > 0) fmt::print(stderr, "; {} are unknown to the vocabulary", report.unknown);
  if (report.invalid_utf8 > 0) fmt::print(stderr, "; {} invalid UTF-8 sequences replaced", report.invalid_utf8);
  fmt::print(stderr, "\n");
}

struct TrainLm {
  static constexpr BatchSetting batches{LanguageConfig::usual_batch_size, "/data/batch_size", "windows", "--batch-size"};

  LanguageModelConfig model;
  LanguageStart start;
  LanguageConfig data;
  TrainConfig training{.lr = 1e-3F,
                       .lr_scheduler = Schedule::Kind::cosine,
                       .usual_warmup = 100,
                       .usual_floor = 0.1F,
                       .adam_beta2 = 0.99F,
                       .adam_eps = 1e-8F,
                       .weight_decay = 0.1F,
                       .validate_interval_updates = 250,
                       .save_interval_updates = 250};
  ComputeConfig compute;
  SeedConfig seed;

  // With --from: the dropout that the user has set, and nothing that would make another model of the folder's.
  LanguageStart further(const CLI::App& verb) const {
    LanguageStart out = start;
    std::vector<std::string> given = fields_given(verb, model);
    take(given, "dropout", model.dropout, out.dropout);
    take(given, "attention_dropout", model.attention_dropout, out.attention_dropout);
    refuse_with_from(verb, start.from, given, {"vocab", "vocab_size", "character_coverage"});
    return out;
  }

  LanguageTask task(Context& ctx, const LanguageStart& from) const {
    if (!start.from.empty()) return {ctx, data, from};
    return {ctx, data, model, latest_checkpoint(training.save_dir)};
  }

  void run(const CLI::App& verb) {
    const LanguageStart from = start.from.empty() ? start : further(verb);
    check_lora(start.from, start.lora);
    check(training, first_process());
    data.batch_size = batches.of(data.batch_size, training);
    Context ctx(context_of(compute, seed));
    LanguageTask task = this->task(ctx, from);
    say_what_was_read("training", task.training_report());
    say_what_was_read("validation", task.validation_report());
    fmt::print(stderr, "model: {}, {}, vocabulary {}\n", model_type_of(task.model().config()), task.size(), task.tokenizer().size());
    batches.say(data.batch_size, task);
    train(ctx, task, training, start.lora);
  }
};

}  // namespace

void add_train_lm(CLI::App& verb) {
  CLI::App* lm = verb.add_subcommand("lm", "a language model from text, as GPT-2 or LLaMA; with --from, a ready one further");
  auto settings = std::make_shared<TrainLm>();
  settings->data.batch_size = 0;  // as suits the data
  add_settings(*lm, settings->start, settings->data, settings->model, settings->training, settings->compute, settings->seed);
  lm->callback([settings, lm] { settings->run(*lm); });
}

}  // namespace transformer::cli
