#include "transformer/train/translate.h"

#include <cmath>
#include <utility>

#include "transformer/generate/translator.h"
#include "transformer/models/classic.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;

PairSource open_pairs(const char* what, const std::string& source, const std::string& target, const std::string& tsv) {
  if (!tsv.empty()) {
    if (!source.empty() || !target.empty()) fail("train translate", "the {} text is given twice: as a TSV file and as two files", what);
    return read_tsv(tsv);
  }
  if (source.empty() || target.empty())
    fail("train translate", "the {} text is missing: give two files, source and target, or one TSV file", what);
  return read_pairs(source, target);
}

// Pairs in memory as a source of pairs.
PairSource from_memory(const std::vector<std::pair<std::string, std::string>>& pairs) {
  return [&pairs, i = std::size_t{0}](std::string& source, std::string& target) mutable {
    if (i == pairs.size()) return false;
    std::tie(source, target) = pairs[i++];
    return true;
  };
}

PairBatch to_tensors(Context& ctx, const PairIds& ids) {
  auto tensor = [&](const std::vector<std::int32_t>& v) {
    return Tensor::from<std::int32_t>(ctx, {static_cast<std::int64_t>(v.size())}, v);
  };
  return {.source_ids = tensor(ids.source),
          .source = Sequences(ids.source_lengths),
          .target_ids = tensor(ids.target),
          .target = Sequences(ids.target_lengths),
          .labels = tensor(ids.labels)};
}

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace

TranslateTask::TranslateTask(Context& ctx, const TranslateConfig& config, TransformerConfig model, const std::optional<fs::path>& resumed)
    : config_(config), seed_(ctx.random().seed()) {
  // Everything that can be wrong with the files is known before the first minute of work.
  const PairSource pairs = open_pairs("training", config.source, config.target, config.tsv);
  const bool validates = !(config.valid_source.empty() && config.valid_target.empty() && config.valid_tsv.empty());
  PairSource validation;
  if (validates) validation = open_pairs("validation", config.valid_source, config.valid_target, config.valid_tsv);
  if (config.eval_bleu && !validates) fail("train translate", "eval_bleu needs validation text: give valid_source and valid_target");
  make_tokenizers(resumed);
  const PairFilter filter{.max_length = config.max_length, .max_ratio = config.max_ratio};
  training_ = PairDataset::load(pairs, *tokenizers_.source, *tokenizers_.target, filter, training_report_, ctx.threads());
  if (validates) {
    std::vector<std::pair<std::string, std::string>> kept;
    for (std::pair<std::string, std::string> pair; validation(pair.first, pair.second);) kept.push_back(pair);
    validation_ = PairDataset::load(from_memory(kept), *tokenizers_.source, *tokenizers_.target, filter, validation_report_, ctx.threads());
    if (config.eval_bleu)
      for (auto& [source, reference] : kept)
        validation_sources_.push_back(std::move(source)), validation_references_.push_back(std::move(reference));
  }
  build(ctx, std::move(model));
}

TranslateTask::TranslateTask(Context& ctx, Text text, const TranslateConfig& config, TransformerConfig model)
    : config_(config), seed_(ctx.random().seed()), tokenizers_(std::move(text.tokenizers)) {
  const PairFilter filter{.max_length = config.max_length, .max_ratio = config.max_ratio};
  training_ = PairDataset::load(from_memory(text.training), *tokenizers_.source, *tokenizers_.target, filter, training_report_,
                                ctx.threads());
  if (!text.validation.empty())
    validation_ = PairDataset::load(from_memory(text.validation), *tokenizers_.source, *tokenizers_.target, filter, validation_report_,
                                    ctx.threads());
  for (auto& [source, reference] : text.validation)
    validation_sources_.push_back(std::move(source)), validation_references_.push_back(std::move(reference));
  build(ctx, std::move(model));
}

void TranslateTask::make_tokenizers(const std::optional<fs::path>& resumed) {
  if (!config_.tokenizer.empty()) {
    if (config_.separate_vocabularies)
      fail("train translate", "a tokenizer was given for both languages, together with separate_vocabularies");
    tokenizers_.source = tokenizers_.target = load_tokenizer(config_.tokenizer);
    return;
  }
  if (resumed) {
    tokenizers_ = load_tokenizers(*resumed);
    return;
  }
  auto train = [&](PairSide side) -> TokenizerPtr {
    const LineSource lines = lines_of(open_pairs("training", config_.source, config_.target, config_.tsv), side);
    if (config_.subwords == Subwords::whitespace) return build_whitespace(lines, {.max_size = config_.vocab_size});
    return train_sentencepiece(lines,
                               {.kind = config_.subwords == Subwords::bpe ? SentencePieceKind::bpe : SentencePieceKind::unigram,
                                .vocab_size = config_.vocab_size,
                                .character_coverage = config_.character_coverage,
                                .normalization = config_.normalization});
  };
  if (config_.separate_vocabularies) tokenizers_ = {train(PairSide::source), train(PairSide::target)};
  else tokenizers_.source = tokenizers_.target = train(PairSide::both);
}

void TranslateTask::build(Context& ctx, TransformerConfig model) {
  model.src_vocab_size = tokenizers_.source->size();
  model.tgt_vocab_size = tokenizers_.joint() ? 0 : tokenizers_.target->size();
  model.pad_id = tokenizers_.target->pad();
  model_ = std::make_shared<Transformer>(model);
  initialize(ctx, *model_);
}

std::vector<NamedParameter> TranslateTask::parameters() { return transformer::parameters(*model_); }

nlohmann::json TranslateTask::identity() const {
  auto vocabulary = [](const Tokenizer& t) { return nlohmann::json{{"size", t.size()}, {"fingerprint", hex(fingerprint(t))}}; };
  nlohmann::json out{{"data",
                      {{"training_pairs", training_->size()},
                       {"training_fingerprint", hex(training_->fingerprint())},
                       {"max_tokens", config_.max_tokens}}},
                     {"vocabulary",
                      {{"source", vocabulary(*tokenizers_.source)},
                       {"target", vocabulary(*tokenizers_.target)},
                       {"vocab_size", config_.vocab_size},
                       {"subwords", detail::write_value(config_.subwords, "subwords")},
                       {"separate_vocabularies", config_.separate_vocabularies},
                       {"character_coverage", config_.character_coverage},
                       {"normalization", config_.normalization}}},
                     {"architecture", to_json(model_->config)}};
  if (validation_) out["data"]["validation_fingerprint"] = hex(validation_->fingerprint());
  return out;
}

std::int64_t TranslateTask::plan(std::int64_t epoch) {
  plan_ = plan_epoch(*training_, config_.max_tokens, seed_, epoch);
  return static_cast<std::int64_t>(plan_.size());
}

Batch TranslateTask::prepare(std::int64_t index) const {
  PairIds ids = make_batch(*training_, plan_[static_cast<std::size_t>(index)]);
  const auto targets = static_cast<std::int64_t>(ids.labels.size()), tokens = static_cast<std::int64_t>(ids.source.size()) + targets;
  return {.content = std::move(ids), .targets = targets, .tokens = tokens};
}

Tensor TranslateTask::loss(Context& ctx, const Batch& batch) const {
  return model_->loss(ctx, to_tensors(ctx, *std::any_cast<PairIds>(&batch.content)));
}

// The loss without label smoothing, so that its exponential is the perplexity.
Metrics TranslateTask::validate(Context& ctx) {
  if (!validation_) return {};
  const NoGradients no_gradients(ctx);
  double sum = 0.0, count = 0.0;
  for (const auto& indices : plan_epoch(*validation_, std::max(config_.max_tokens, std::int64_t{8192}), 0, 0)) {
    const PairIds ids = make_batch(*validation_, indices);
    const auto targets = static_cast<double>(ids.labels.size());
    sum += static_cast<double>(model_->loss(ctx, to_tensors(ctx, ids), 0.0F).item()) * targets;
    count += targets;
  }
  Metrics measured{{"loss", sum / count}, {"perplexity", std::exp(sum / count)}};
  if (config_.eval_bleu) {
    const auto translated = Translator(model_, tokenizers_).translate(ctx, validation_sources_, {.beam = config_.eval_beam});
    measured.emplace_back("bleu", corpus_bleu(translated, {&validation_references_, 1}, {.tokenizer = config_.eval_tokenize}).score);
  }
  return measured;
}

void TranslateTask::save(const fs::path& folder) {
  save_tokenizers(tokenizers_, folder);
  save_transformer(*model_, folder);
}

void TranslateTask::load(Context& ctx, const fs::path& folder) { load_classic(ctx, *model_, folder); }

}  // namespace transformer
