#include "cli/evaluate_text.h"

#include <CLI/CLI.hpp>

#include "transformer/tokenizers/vocabulary.h"
#include "transformer/train/language.h"

namespace transformer::cli {

void evaluate_text(const std::string& folder, const std::string& adapter, const EvaluateText& settings, const ComputeConfig& compute) {
  if (folder.empty()) throw CLI::RequiredError("MODEL");
  if (!settings.text.empty() && !settings.bin.empty()) throw CLI::ValidationError("--text and --bin exclude each other");
  if (settings.context < 0) throw CLI::ValidationError(fmt::format("--context is {}: expected 0 or more", settings.context));
  Context ctx(compute.context());
  const std::unique_ptr<Model> model = load_model(ctx, folder, {.adapter = adapter});
  const auto* text = dynamic_cast<const TextModel*>(model.get());
  if (text == nullptr || text->text().task != TextTask::causal_lm)
    fail(folder, "is not a language model: expected a decoder such as GPT-2 or LLaMA");
  const TextConfig& c = text->text();
  const std::int64_t most = c.positions > 0 ? c.positions - c.position_offset : c.max_positions;
  const std::int64_t context = settings.context > 0 ? settings.context : std::min<std::int64_t>(most, 1024);
  if (c.positions > 0 && context > most) fail(folder, "sees {} tokens at most, but context is {}: choose a smaller one", most, context);

  const TokenizerPtr tokenizer = load_tokenizer(folder);
  const std::int32_t end = document_token(*tokenizer);
  if (settings.document_mask && end < 0)
    fail(folder, "document_mask needs a token between documents, but the tokenizer has no end of text");
  CorpusReport report;
  const TokenRow tokens = settings.bin.empty() ? read_tokens(settings.text, settings.documents, *tokenizer, end, report, ctx.threads())
                                               : TokenRow::open(settings.bin, *tokenizer);
  const TextScore score = score_tokens(ctx, *text, tokens, context, settings.document_mask ? end : -1);
  fmt::print("loss {:.4f}, perplexity {:.4f}, bits per byte {:.4f}: {} tokens of {} bytes in windows of {}\n", score.loss,
             score.perplexity(), score.bits_per_byte(), score.tokens, score.text_bytes, context);
  if (report.unknown > 0) fmt::print(stderr, "transformer: {} tokens are unknown to the vocabulary\n", report.unknown);
  if (report.invalid_utf8 > 0)
    fmt::print(stderr, "transformer: {} sequences of bytes that are not UTF-8 became U+FFFD\n", report.invalid_utf8);
}

}  // namespace transformer::cli
