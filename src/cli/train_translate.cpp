// transformer train translate: an encoder-decoder from parallel text.
#include <memory>

#include "cli/train.h"
#include "cli/train_batch.h"
#include "transformer/models/presets.h"
#include "transformer/train/translate.h"

namespace transformer::cli {
namespace {

void say_what_was_read(const char* what, const PairReport& report) {
  if (report.total == 0) return;
  fmt::print(stderr, "{}: {} pairs", what, report.kept());
  if (report.kept() < report.total)
    fmt::print(stderr, "; left out: {} empty, {} too long, {} with too different lengths", report.empty, report.too_long,
               report.unbalanced);
  if (report.invalid_utf8 > 0) fmt::print(stderr, "; {} invalid UTF-8 sequences replaced", report.invalid_utf8);
  fmt::print(stderr, "\n");
}

struct TrainTranslate {
  static constexpr BatchSetting batches{TranslateConfig::usual_max_tokens, "/data/max_tokens", "tokens", "--max-tokens"};

  TransformerConfig model;
  FineTuning start;
  TranslateConfig data;
  TrainConfig training;
  ComputeConfig compute;
  SeedConfig seed;

  // With --from: the dropout that the user has set, and nothing that would make another model of the folder's. A file that
  // --dump-config wrote has all settings: there, those that differ from the defaults are set.
  FineTuning fine_tuning(const CLI::App& verb) const {
    FineTuning out = start;
    std::vector<std::string> given = fields_given(verb, model);
    take(given, "dropout", model.dropout, out.dropout);
    take(given, "attention_dropout", model.attention_dropout, out.attention_dropout);
    take(given, "ffn_dropout", model.ffn_dropout, out.ffn_dropout);
    take(given, "label_smoothing", model.label_smoothing, out.label_smoothing);
    refuse_with_from(
        verb, start.from, given,
        {"preset", "arch", "tokenizer", "subwords", "vocab_size", "separate_vocabularies", "character_coverage", "normalization"});
    return out;
  }

  TranslateTask task(Context& ctx, const FineTuning& fine_tuning) const {
    if (!start.from.empty()) return {ctx, data, fine_tuning};
    return {ctx, data, model, latest_checkpoint(training.save_dir)};
  }

  void run(const CLI::App& verb) {
    const FineTuning further = start.from.empty() ? start : fine_tuning(verb);
    check_lora(start.from, start.lora);
    check(training, first_process());
    data.max_tokens = batches.of(data.max_tokens, training);
    Context ctx(context_of(compute, seed));
    TranslateTask task = this->task(ctx, further);
    say_what_was_read("training", task.training_report());
    say_what_was_read("validation", task.validation_report());
    fmt::print(stderr, "model: {}, vocabulary {}, layout {}\n", task.size(), task.tokenizers().target->size(), task.layout());
    batches.say(data.max_tokens, task);
    train(ctx, task, training, start.lora);
  }
};

}  // namespace

void add_train_translate(CLI::App& verb) {
  CLI::App* translate = verb.add_subcommand(
      "translate", "an encoder-decoder from two text files, sentence by sentence; with --from, a ready one further");
  auto settings = std::make_shared<TrainTranslate>();
  settings->data.max_tokens = 0;  // as suits the data
  add_settings(*translate, settings->start, settings->data,
               part(settings->model, {.without = {"src_vocab_size", "tgt_vocab_size", "pad_id"}}), settings->training, settings->compute,
               settings->seed);
  translate->callback([settings, translate] { settings->run(*translate); });
}

}  // namespace transformer::cli
