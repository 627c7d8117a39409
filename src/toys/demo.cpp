#include "toys/shared/demo.h"

#include "io/shared/atomic_file.h"
#include "toys/corpus.h"
#include "transformer/explain/picture.h"
#include "transformer/predict/translator.h"
#include "transformer/text/bleu.h"
#include "transformer/train/trainer.h"
#include "transformer/train/translate.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;
using Pairs = std::vector<std::pair<std::string, std::string>>;

constexpr std::int64_t vocabulary = 1000;
constexpr std::size_t validated = 512;  // held-out pairs that the validation loss is taken of

Pairs as_pairs(const std::vector<ToyPair>& from) {
  Pairs out;
  for (const ToyPair& p : from) out.emplace_back(p.source, p.target);
  return out;
}

TokenizerPtr train_tokenizer(const Pairs& pairs) {
  return train_sentencepiece(
      [&, i = std::size_t{0}](std::string& line) mutable {
    if (i == 2 * pairs.size()) return false;
    line = i % 2 == 0 ? pairs[i / 2].first : pairs[i / 2].second;
    return ++i, true;
      },
      {.vocab_size = vocabulary});
}

// "▁학교" → "학교": SentencePiece marks the beginning of a word. A mark on its own stays.
std::string shown(const std::string& piece) {
  constexpr std::string_view mark = "▁";
  return piece.starts_with(mark) && piece.size() > mark.size() ? piece.substr(mark.size()) : piece;
}

AttentionPicture picture_of(const Tokenizer& tokenizer, const std::string& source, const Translation& translation) {
  AttentionPicture picture{.caption = source + " → " + translation.text, .row_title = "Korean", .column_title = "English"};
  for (const std::int32_t id : tokenizer.encode(source)) picture.columns.push_back(shown(tokenizer.piece(id)));
  picture.columns.emplace_back("(end)");
  for (const std::int32_t id : translation.hypothesis.ids) picture.rows.push_back(shown(tokenizer.piece(id)));
  picture.rows.emplace_back("(end)");
  for (const std::vector<float>& row : translation.hypothesis.alignment)
    picture.values.insert(picture.values.end(), row.begin(), row.end());
  return picture;
}

}  // namespace

DemoResult run_demo(Context& ctx, const DemoOptions& options, const std::atomic<bool>* stop) {
  fmt::print(stderr, "Making {} English sentences and their Korean translations out of a grammar…\n", options.sentences);
  const ToyCorpus corpus(options.sentences);
  const Pairs training = as_pairs(corpus.training()), testing = as_pairs(corpus.testing());
  fmt::print(stderr, "{} pairs to train on, {} held out, for example: {} → {}\n", training.size(), testing.size(), training.back().first,
             training.back().second);

  const auto resumed = latest_checkpoint(options.out);
  const TokenizerPtr trained = resumed ? nullptr : train_tokenizer(training);
  const Pairs some(testing.begin(), testing.begin() + static_cast<std::ptrdiff_t>(std::min(validated, testing.size())));
  TranslateTask task(
      ctx, {.training = training, .validation = some, .tokenizers = {trained, trained}}, {.vocab_size = vocabulary, .max_tokens = 4096},
      {.d_model = 128, .num_heads = 4, .d_ff = 256, .num_layers = 2, .dropout = 0.05F, .attention_dropout = 0.0F, .ffn_dropout = 0.0F},
      resumed);
  const Tokenizer& tokenizer = *task.tokenizers().source;
  fmt::print(stderr, "Training a Transformer of {} parameters with {} subwords\n", count(task.parameters()), tokenizer.size());
  Trainer trainer(ctx, task,
                  {.save_dir = options.out,
                   .max_update = options.updates,
                   .lr = 4e-3F,
                   .lr_scheduler = Schedule::Kind::cosine,
                   .warmup_updates = options.updates / 10,
                   .validate_interval_updates = std::max(options.updates / 5, std::int64_t{1}),
                   .log_interval = 100},
                  stop);
  if (trainer.run().end == TrainResult::End::interrupted) {
    fmt::print(stderr, "stopped; run the same command again to go on\n");
    return {.interrupted = true};
  }

  const Translator translator = Translator::load(ctx, options.out);
  std::vector<std::string> sources, references;
  for (const auto& [source, reference] : testing) sources.push_back(source), references.push_back(reference);
  const std::vector<std::string> translated = translator.translate(ctx, sources, {.num_beams = 1});
  DemoResult result{.tested = static_cast<std::int64_t>(testing.size())};
  std::int64_t equal = 0;
  for (std::size_t i = 0; i < translated.size(); ++i) equal += translated[i] == references[i] ? 1 : 0;
  result.exact_match = 100.0 * static_cast<double>(equal) / static_cast<double>(result.tested);
  result.bleu = corpus_bleu(translated, {&references, 1}).score;
  fmt::print("held-out sentences: {}\nexact match: {:.1f} %\nBLEU: {:.2f}\n\n", result.tested, result.exact_match, result.bleu);

  std::vector<std::string> documents;
  for (const ToyPair& p : documents_sentences()) documents.push_back(p.source);
  const auto answers = translator.translate_n_best(ctx, documents, {.num_beams = 5}, {.alignment = true});
  for (std::size_t i = 0; i < documents.size(); ++i) fmt::print("{} → {}\n", documents[i], answers[i].front().text);

  // "I go to school" → "나는 학교에 간다": the verb goes last.
  const std::size_t chosen = 2;
  const fs::path picture = fs::path(options.out) / "attention.svg";
  AtomicFile file(picture);
  file.write(attention_svg(picture_of(tokenizer, documents[chosen], answers[chosen].front())));
  file.commit();
  result.picture = picture.string();
  fmt::print("\nWhere the model looked when it wrote \"{}\": {}\n", answers[chosen].front().text, result.picture);
  fmt::print("Try it: echo 'The mouse caught the cat' | transformer translate {}\n", options.out);
  fmt::print("Look inside: transformer serve {} and open http://127.0.0.1:8080\n", options.out);
  return result;
}

}  // namespace transformer
