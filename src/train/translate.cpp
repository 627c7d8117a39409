#include "transformer/train/translate.h"

#include <cmath>
#include <utility>

#include "text/blank.h"
#include "train/probability.h"
#include "transformer/generate/generation_config.h"
#include "transformer/io/json.h"
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

// The texts of a run. Both are opened, so that a missing file is known at once; validation is empty when there is none.
struct Opened {
  PairSource training, validation;
};

Opened open_text(const TranslateConfig& config) {
  // An empty source stays one.
  auto prefixed = [&](PairSource pairs) -> PairSource {
    if (config.source_prefix.empty()) return pairs;
    return [pairs = std::move(pairs), prefix = config.source_prefix](std::string& source, std::string& target) {
      if (!pairs(source, target)) return false;
      if (!is_blank(source)) source.insert(0, prefix);
      return true;
    };
  };
  Opened text{.training = prefixed(open_pairs("training", config.source, config.target, config.tsv)), .validation = {}};
  if (!config.valid_source.empty() || !config.valid_target.empty() || !config.valid_tsv.empty())
    text.validation = prefixed(open_pairs("validation", config.valid_source, config.valid_target, config.valid_tsv));
  if (config.eval_bleu && !text.validation) fail("train translate", "eval_bleu needs validation text: give valid_source and valid_target");
  return text;
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

TranslateLayout decided(TranslateLayout given, const TransformerConfig& model) {
  const std::string why_not = why_not_marian(model);
  if (given == TranslateLayout::automatic) return why_not.empty() ? TranslateLayout::marian : TranslateLayout::transformer;
  if (given == TranslateLayout::marian && !why_not.empty())
    fail("train translate", "{}: change that, or choose the layout transformer (--arch transformer)", why_not);
  return given;
}

// What a model that is trained further has already.
void check_not_set(const TranslateConfig& config) {
  const nlohmann::json given = to_json(config), defaults = to_json(TranslateConfig{});
  for (const char* key : {"arch", "tokenizer", "subwords", "vocab_size", "separate_vocabularies", "character_coverage", "normalization"})
    if (given.at(key) != defaults.at(key))
      fail("train translate", "{} is {}, but a model that is trained further keeps its layout and its vocabulary: leave that out", key,
           given.at(key).dump());
}

// The keys of config.json that the dropouts are.
nlohmann::json changed_dropout(const FineTuning& start, const nlohmann::json& config) {
  const auto type = config.value("model_type", nlohmann::json());
  const bool t5 = type == "t5", hugging_face = type == "marian" || type == "bart";
  nlohmann::json changes = nlohmann::json::object();
  auto change = [&](const char* field, const std::optional<float>& value, const char* key) {
    if (!value) return;
    if (t5 && std::string_view(field) != "dropout") fail("train translate", "{}: a T5 model has one dropout for all, set that", field);
    changes[key] = probability("train translate", field, *value);
  };
  change("dropout", start.dropout, t5 ? "dropout_rate" : "dropout");
  change("attention_dropout", start.attention_dropout, "attention_dropout");
  change("ffn_dropout", start.ffn_dropout, hugging_face ? "activation_dropout" : "ffn_dropout");
  return changes;
}

constexpr const char *source_file = "source.spm", *target_file = "target.spm";

nlohmann::json vocabulary_of(const Tokenizer& tokenizer) {
  nlohmann::json ids = nlohmann::json::object();
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) ids[tokenizer.piece(id)] = id;
  return ids;
}

// The files of Hugging Face's MarianTokenizer: two SentencePiece models, and the ids of their pieces.
void save_marian_tokenizers(const TokenizerPair& pair, const fs::path& folder) {
  const Tokenizer &source = *pair.source, &target = *pair.target;
  source.save(folder / source_file);
  target.save(folder / target_file);
  write_json(folder / "vocab.json", vocabulary_of(source));
  if (!pair.joint()) write_json(folder / "target_vocab.json", vocabulary_of(target));
  write_json(folder / "tokenizer_config.json",
             {{"tokenizer_class", "MarianTokenizer"},
              {"unk_token", source.piece(source.unk())},
              {"eos_token", source.piece(source.eos())},
              {"pad_token", source.piece(source.pad())},
              {"separate_vocabs", !pair.joint()}});
}

}  // namespace

TranslateTask::TranslateTask(Context& ctx, const TranslateConfig& config, TransformerConfig model, const std::optional<fs::path>& resumed)
    : ModelTask(ctx, "train translate"), config_(config) {
  // Everything that can be wrong with the files or the model is known before the first minute of work.
  config_.arch = decided(config.arch, model);
  const auto [training, validation] = open_text(config);
  check_fresh(resumed);
  make_tokenizers(resumed);
  target_ = tokenizers_.target->special_tokens();
  read(training, validation);
  build(std::move(model));
}

TranslateTask::TranslateTask(Context& ctx, const TranslateConfig& config, const FineTuning& start)
    : ModelTask(ctx, "train translate"), config_(config) {
  check_not_set(config);
  const auto [training, validation] = open_text(config);
  open(start);
  read(training, validation);
}

TranslateTask::TranslateTask(Context& ctx, Text text, const TranslateConfig& config, TransformerConfig model)
    : ModelTask(ctx, "train translate"), config_(config), tokenizers_(std::move(text.tokenizers)),
      target_(tokenizers_.target->special_tokens()) {
  config_.arch = decided(config.arch, model);
  read(from_memory(text.training), text.validation.empty() ? PairSource() : from_memory(text.validation));
  build(std::move(model));
}

void TranslateTask::open(const FineTuning& start) {
  open_model(
      start.from, [&](const nlohmann::json& config) { return changed_dropout(start, config); },
      [](const Model& model) {
    return dynamic_cast<const Seq2SeqModel*>(&model) != nullptr
        ? ""
        : "does not translate: expected one with an encoder and a decoder, such as Marian, BART or T5";
      },
      start.lora);
  tokenizers_ = load_tokenizers(start.from);
  target_ = target_tokens(*tokenizers_.target, start.from);
  settings_.label_smoothing = start.label_smoothing;
  static_cast<void>(translator());  // says when the vocabularies do not fit
  for (const auto& [name, id] : {std::pair{"decoder_start_token_id", target_.bos}, std::pair{"eos_token_id", target_.eos}})
    if (id < 0 || id >= network()->target_vocabulary())
      fail(start.from, "{} is {}: expected a token of the vocabulary, which has {}", name, id, network()->target_vocabulary());
}

void TranslateTask::read(const PairSource& training, const PairSource& validation) {
  PairFilter filter{.max_length = config_.max_length, .max_ratio = config_.max_ratio};
  if (!started_from().empty()) {  // one place is the start or the end token's
    const std::int64_t longest = std::min(network()->encoder.max_length(), network()->decoder.max_length()) - 1;
    filter.max_length = filter.max_length == 0 ? longest : std::min(filter.max_length, longest);
  }
  const PairTokens tokens = pair_tokens(*tokenizers_.source, target_);
  auto load = [&](const PairSource& pairs, PairReport& report) {
    return PairDataset::load(pairs, *tokenizers_.source, *tokenizers_.target, filter, report, context().threads(), tokens);
  };
  training_ = load(training, training_report_);
  if (!validation) return;
  std::vector<std::pair<std::string, std::string>> kept;
  for (std::pair<std::string, std::string> pair; validation(pair.first, pair.second);) kept.push_back(pair);
  validation_ = load(from_memory(kept), validation_report_);
  if (!config_.eval_bleu) return;
  for (auto& [source, reference] : kept)
    validation_sources_.push_back(std::move(source)), validation_references_.push_back(std::move(reference));
}

std::shared_ptr<const EncoderDecoder> TranslateTask::network() const {
  auto model = std::dynamic_pointer_cast<const Seq2SeqModel>(shared_model());
  return {model, &model->network};
}

Translator TranslateTask::translator() const { return {network(), tokenizers_, target_}; }

void TranslateTask::make_tokenizers(const std::optional<fs::path>& resumed) {
  if (!config_.tokenizer.empty()) {
    if (config_.separate_vocabularies)
      fail("train translate", "a tokenizer was given for both languages, together with separate_vocabularies");
    tokenizers_.source = tokenizers_.target = load_tokenizer(config_.tokenizer);
    return;
  }
  if (resumed) {
    if (!exists(*resumed / source_file)) return void(tokenizers_ = load_tokenizers(*resumed));
    tokenizers_.source = tokenizers_.target = load_tokenizer(*resumed / source_file);
    if (config_.separate_vocabularies) tokenizers_.target = load_tokenizer(*resumed / target_file);
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

std::string TranslateTask::layout() const {
  if (!started_from().empty()) return fmt::format("{}, from {}", model().config().value("model_type", "transformer"), started_from());
  if (marian()) return "marian";
  const std::string why_not = why_not_marian(settings_);
  return why_not.empty() ? "transformer" : fmt::format("transformer ({})", why_not);
}

MarianTokens TranslateTask::tokens() const {
  const Tokenizer& t = *tokenizers_.target;
  return {.start = t.bos(), .end = t.eos(), .padding = t.pad()};
}

void TranslateTask::build(TransformerConfig model) {
  model.src_vocab_size = tokenizers_.source->size();
  model.tgt_vocab_size = tokenizers_.joint() ? 0 : tokenizers_.target->size();
  model.pad_id = tokenizers_.target->pad();
  settings_ = std::move(model);
  build_model(marian() ? marian_config(settings_, tokens()) : classic_config(settings_));
}

nlohmann::json TranslateTask::identity() const {
  auto vocabulary = [](const Tokenizer& t) { return nlohmann::json{{"size", t.size()}, {"fingerprint", hex(fingerprint(t))}}; };
  nlohmann::json out = model_identity();
  if (started_from().empty()) {
    out["architecture"] = to_json(settings_);
    out["architecture"]["arch"] = detail::write_value(config_.arch, "arch");
  } else {
    out["architecture"]["label_smoothing"] = detail::write_value(settings_.label_smoothing, "label_smoothing");
  }
  out["data"] = {
      {"training_pairs", training_->size()}, {"training_fingerprint", hex(training_->fingerprint())}, {"max_tokens", config_.max_tokens}};
  out["vocabulary"] = {{"source", vocabulary(*tokenizers_.source)},
                       {"target", vocabulary(*tokenizers_.target)},
                       {"vocab_size", config_.vocab_size},
                       {"subwords", detail::write_value(config_.subwords, "subwords")},
                       {"separate_vocabularies", config_.separate_vocabularies},
                       {"character_coverage", config_.character_coverage},
                       {"normalization", config_.normalization}};
  if (validation_) out["data"]["validation_fingerprint"] = hex(validation_->fingerprint());
  return out;
}

std::int64_t TranslateTask::plan(std::int64_t epoch) {
  plan_ = plan_epoch(*training_, config_.max_tokens, seed(), epoch);
  return static_cast<std::int64_t>(plan_.size());
}

Batch TranslateTask::prepare(std::int64_t index) const {
  PairIds ids = make_batch(*training_, plan_[static_cast<std::size_t>(index)]);
  const auto targets = static_cast<std::int64_t>(ids.labels.size()), tokens = static_cast<std::int64_t>(ids.source.size()) + targets;
  return {.content = std::move(ids), .targets = targets, .tokens = tokens};
}

Tensor TranslateTask::loss(Context& ctx, const Batch& batch) const {
  return network()->loss(ctx, to_tensors(ctx, *std::any_cast<PairIds>(&batch.content)), settings_.label_smoothing);
}

// The loss without label smoothing, so that its exponential is the perplexity.
Metrics TranslateTask::validate(Context& ctx) {
  if (!validation_) return {};
  const NoGradients no_gradients(ctx);
  double sum = 0.0, count = 0.0;
  for (const auto& indices : plan_epoch(*validation_, std::max(config_.max_tokens, std::int64_t{8192}), 0, 0)) {
    const PairIds ids = make_batch(*validation_, indices);
    const auto targets = static_cast<double>(ids.labels.size());
    sum += static_cast<double>(network()->loss(ctx, to_tensors(ctx, ids), 0.0F).item()) * targets;
    count += targets;
  }
  Metrics measured{{"loss", sum / count}, {"perplexity", std::exp(sum / count)}};
  if (config_.eval_bleu) {
    const auto translated = translator().translate(ctx, validation_sources_, {.beam = config_.eval_beam});
    measured.emplace_back("bleu", corpus_bleu(translated, {&validation_references_, 1}, {.tokenizer = config_.eval_tokenize}).score);
  }
  return measured;
}

std::vector<std::string> TranslateTask::metrics() const {
  if (!validation_) return {};
  std::vector<std::string> names{"loss", "perplexity"};
  if (config_.eval_bleu) names.emplace_back("bleu");
  return names;
}

void TranslateTask::save_beside(const fs::path& folder) const {
  const bool subwords = tokenizers_.source->kind() == "sentencepiece" && tokenizers_.target->kind() == "sentencepiece";
  if (marian() && subwords) save_marian_tokenizers(tokenizers_, folder);
  else save_tokenizers(tokenizers_, folder);
  if (!marian()) return;
  const auto [start, end, padding] = tokens();
  const GenerationConfig generation{.forced_eos_token_id = {static_cast<std::int32_t>(end)},
                                    .bos_token_id = static_cast<std::int32_t>(start),
                                    .eos_token_id = {static_cast<std::int32_t>(end)},
                                    .pad_token_id = static_cast<std::int32_t>(padding),
                                    .decoder_start_token_id = static_cast<std::int32_t>(start)};
  write_json(folder / "generation_config.json", generation_json(generation));
}

}  // namespace transformer
