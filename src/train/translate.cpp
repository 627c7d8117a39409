#include "transformer/train/translate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/shared/share_out.h"
#include "io/shared/blank.h"
#include "io/shared/json.h"
#include "models/shared/purpose.h"
#include "tokenizers/shared/kinds.h"
#include "tokenizers/shared/tokenizer_config.h"
#include "train/batch_size.h"
#include "train/probability.h"
#include "train/shares.h"
#include "transformer/core/setting_error.h"
#include "transformer/generate/generation_config.h"
#include "transformer/models/classic.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;

PairSource open_pairs(const char* what, const std::string& source, const std::string& target, const std::string& tsv, Header header) {
  if (!tsv.empty()) {
    if (!source.empty() || !target.empty())
      wrong_setting("train translate", "", "the {} text is given twice: as a TSV file and as two files", what);
    return read_tsv(tsv, header);
  }
  if (source.empty() || target.empty())
    wrong_setting("train translate", "", "the {0} text is missing: give two files, `{1}source` and `{1}target`, or one, `{1}tsv`", what,
                  std::string_view(what) == "training" ? "" : "valid_");
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
  Opened text{.training = prefixed(open_pairs("training", config.source, config.target, config.tsv, config.header)), .validation = {}};
  if (!config.valid_source.empty() || !config.valid_target.empty() || !config.valid_tsv.empty())
    text.validation = prefixed(open_pairs("validation", config.valid_source, config.valid_target, config.valid_tsv, config.header));
  if (config.eval_bleu && !text.validation)
    wrong_setting("train translate", "eval_bleu", "needs validation text: give valid_source and valid_target");
  return text;
}

// By the longer side of the pairs, with one special token each.
std::int64_t max_tokens_for(const PairDataset& data) {
  std::int64_t longest = 0, sum = 0;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const std::int64_t tokens = std::max(std::ssize(data.source(i)), std::ssize(data.target(i))) + 1;
    longest = std::max(longest, tokens), sum += tokens;
  }
  return batch_for_tokens(data.size(), sum, longest, TranslateConfig::usual_max_tokens);
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

// Why no other tool opens such a model; "" when one does.
std::string why_not_open(const TransformerConfig& model) {
  return model.norm == NormPlace::pre ? why_not_pegasus(model) : why_not_marian(model);
}

// `separate`: each side has a vocabulary of its own. A run that goes on keeps its layout.
TranslateLayout decided(TranslateLayout given, TransformerConfig model, bool separate, const std::optional<fs::path>& resumed) {
  static_cast<void>(model.encoder_decoder());  // says what is wrong with its sizes
  model.tgt_vocab_size = separate ? 1 : 0;
  if (given == TranslateLayout::automatic) {
    if (TranslateLayout kept{}; resumed)
      return detail::read_value(nlohmann::json(model_type_of(read_json(*resumed / "config.json"))), kept, "arch"), kept;
    if (!why_not_open(model).empty()) return TranslateLayout::transformer;
    return model.norm == NormPlace::pre ? TranslateLayout::pegasus : TranslateLayout::marian;
  }
  const std::string why_not = given == TranslateLayout::marian ? why_not_marian(model)
      : given == TranslateLayout::pegasus                      ? why_not_pegasus(model)
                                                               : "";
  if (!why_not.empty()) fail("train translate", "{}: change that, or choose the layout transformer (--arch transformer)", why_not);
  return given;
}

// What a model that is trained further has already.
void check_not_set(const TranslateConfig& config) {
  const nlohmann::json given = to_json(config), defaults = to_json(TranslateConfig{});
  for (const char* key : {"arch", "tokenizer", "subwords", "vocab_size", "separate_vocabularies", "character_coverage", "normalization"})
    if (given.at(key) != defaults.at(key))
      wrong_setting("train translate", key,
                    "is {}, but a model that is trained further keeps its layout and its vocabulary: leave that out", given.at(key).dump());
}

// The keys of config.json that the dropouts are.
nlohmann::json changed_dropout(const FineTuning& start, const nlohmann::json& config) {
  nlohmann::json changes = nlohmann::json::object();
  if (!start.dropout && !start.attention_dropout && !start.ffn_dropout) return changes;
  const std::unique_ptr<Model> model = make_model(config);
  if (dynamic_cast<const EncoderDecoderModel*>(model.get()) == nullptr) return changes;  // it is refused
  const DropoutKeys& keys = find_family(config)->dropout;
  auto change = [&](const char* field, const std::optional<float>& value, const std::vector<std::string>& names) {
    if (value && names.empty())
      wrong_setting("train translate", field, "is set, but {} has one `dropout` for all: set that", architecture_of(*model));
    set_dropout(changes, "train translate", field, value, names);
  };
  change("dropout", start.dropout, keys.all);
  change("attention_dropout", start.attention_dropout, keys.attention);
  change("ffn_dropout", start.ffn_dropout, keys.feed_forward);
  return changes;
}

constexpr const char *source_file = "source.spm", *target_file = "target.spm";

nlohmann::json vocabulary_of(const Tokenizer& tokenizer) {
  nlohmann::json ids = nlohmann::json::object();
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) ids[tokenizer.piece(id)] = id;
  return ids;
}

// Runs that began before translators had the ids of published Marian models: vocab.json has the pieces as SentencePiece numbers them.
bool has_piece_ids(const fs::path& folder) {
  if (!exists(folder / source_file)) return false;
  const TokenizerPtr pieces = load_tokenizer(folder / source_file);
  return read_json(folder / "vocab.json").value("<pad>", -1) == pieces->pad();
}

// The files of Hugging Face's MarianTokenizer: two SentencePiece models, and the ids of their pieces.
void save_marian_tokenizers(const TokenizerPair& pair, const fs::path& folder) {
  const Tokenizer &source = *pair.source, &target = *pair.target;
  source.save(folder / source_file);
  target.save(folder / target_file);
  write_json(folder / "vocab.json", vocabulary_of(source));
  if (!pair.joint()) write_json(folder / "target_vocab.json", vocabulary_of(target));
  const SpecialNames tokens{.pad = source.piece(source.pad()), .unk = source.piece(source.unk()), .eos = source.piece(source.eos())};
  write_json(folder / "tokenizer_config.json",
             tokenizer_config(tokens, {{"tokenizer_class", "MarianTokenizer"}, {"separate_vocabs", !pair.joint()}}));
}

// Tokens of a sequence that a fresh model takes.
std::int64_t longest_of(const TransformerConfig& model) {
  const bool endless = model.positions == PositionKind::none || model.positions == PositionKind::relative ||
      model.positions == PositionKind::alibi;
  return endless ? std::numeric_limits<std::int32_t>::max() : model.max_len;
}

}  // namespace

TranslateTask::TranslateTask(Context& ctx, const TranslateConfig& config, TransformerConfig model, const std::optional<fs::path>& resumed)
    : ModelTask(ctx, "train translate"), config_(config) {
  // Everything that can be wrong with the files or the model is known before the first minute of work.
  for (const auto& [flag, given] : {std::pair{"--source-lang", config.source_lang}, {"--target-lang", config.target_lang}})
    if (!given.empty()) fail("train translate", "{} is for a model of many languages that is trained further (--from)", flag);
  check_fresh(resumed);
  config_.arch = decided(config.arch, model, config.separate_vocabularies, resumed);
  const auto [training, validation] = open_text(config);
  take_tokenizers(resumed, [this] { return made_tokenizers(); });
  read(training, validation, longest_of(model));
  build(std::move(model));
}

TranslateTask::TranslateTask(Context& ctx, const TranslateConfig& config, const FineTuning& start)
    : ModelTask(ctx, "train translate"), config_(config) {
  check_not_set(config);
  const auto [training, validation] = open_text(config);
  open(start);
  read(training, validation, std::min(network()->encoder.max_length(), network()->decoder.max_length()));
}

TranslateTask::TranslateTask(Context& ctx, const Text& text, const TranslateConfig& config, TransformerConfig model,
                             const std::optional<fs::path>& resumed)
    : ModelTask(ctx, "train translate"), config_(config) {
  config_.arch = decided(config.arch, model, !text.tokenizers.joint(), resumed);
  take_tokenizers(resumed, [&] { return text.tokenizers; });
  read(from_memory(text.training), text.validation.empty() ? PairSource() : from_memory(text.validation), longest_of(model));
  build(std::move(model));
}

void TranslateTask::open(const FineTuning& start) {
  open_model(
      start.from, [&](const nlohmann::json& config) { return changed_dropout(start, config); },
      [](const Model& model) {
    return dynamic_cast<const EncoderDecoderModel*>(&model) != nullptr
        ? ""
        : "does not translate: expected one with an encoder and a decoder, such as Marian, BART or T5";
      },
      start.lora);
  tokenizers_ = translator_tokenizers(start.from, {.source_lang = config_.source_lang, .target_lang = config_.target_lang});
  target_ = target_tokens(tokenizers_, start.from);
  settings_.label_smoothing = start.label_smoothing;
  static_cast<void>(translator());  // says when the vocabularies do not fit
  for (const auto& [name, id] : {std::pair{"decoder_start_token_id", target_.bos}, std::pair{"eos_token_id", target_.eos}})
    if (id < 0 || id >= network()->target_vocabulary())
      fail(start.from, "{} is {}: expected a token of the vocabulary, which has {}", name, id, network()->target_vocabulary());
}

void TranslateTask::read(const PairSource& training, const PairSource& validation, std::int64_t longest) {
  --longest;  // one place is the start or the end token's
  const PairFilter filter{.max_length = config_.max_length == 0 ? longest : std::min(config_.max_length, longest),
                          .max_ratio = config_.max_ratio};
  const PairTokens tokens = pair_tokens(tokenizers_, target_);
  auto load = [&](const PairSource& pairs, PairReport& report) {
    return PairDataset::load(pairs, *tokenizers_.source, *tokenizers_.target, filter, report, context().threads(), tokens);
  };
  training_ = load(training, training_report_);
  if (config_.max_tokens == 0) config_.max_tokens = max_tokens_for(*training_);
  if (!validation) return;
  std::vector<std::pair<std::string, std::string>> kept;
  for (std::pair<std::string, std::string> pair; validation(pair.first, pair.second);) kept.push_back(pair);
  validation_ = load(from_memory(kept), validation_report_);
  if (!config_.eval_bleu) return;
  for (auto& [source, reference] : kept)
    validation_sources_.push_back(std::move(source)), validation_references_.push_back(std::move(reference));
}

std::shared_ptr<const EncoderDecoder> TranslateTask::network() const {
  auto model = std::dynamic_pointer_cast<const EncoderDecoderModel>(shared_model());
  return {model, &model->network};
}

Translator TranslateTask::translator() const { return {network(), tokenizers_, target_}; }

void TranslateTask::take_tokenizers(const std::optional<fs::path>& resumed, const std::function<TokenizerPair()>& fresh) {
  const bool as_before = resumed && has_piece_ids(*resumed), given = !config_.tokenizer.empty();
  if (!resumed || given) tokenizers_ = fresh();
  else if (!as_before) tokenizers_ = load_tokenizers(*resumed);
  else {
    tokenizers_.source = tokenizers_.target = load_tokenizer(*resumed / source_file);
    if (exists(*resumed / "target_vocab.json")) tokenizers_.target = load_tokenizer(*resumed / target_file);
  }
  const bool pieces = tokenizers_.source->kind() == "sentencepiece" && tokenizers_.target->kind() == "sentencepiece";
  if (pieces && !as_before && config_.arch == TranslateLayout::marian) tokenizers_ = marian_tokenizers(tokenizers_);
  if (pieces && config_.arch == TranslateLayout::pegasus) tokenizers_.source = tokenizers_.target = pegasus_tokenizer(*tokenizers_.source);
  target_ = tokenizers_.target->special_tokens();
  if (target_.bos < 0) target_.bos = target_.pad;  // as Marian and Pegasus begin
}

TokenizerPair TranslateTask::made_tokenizers() const {
  if (!config_.tokenizer.empty()) {
    if (config_.separate_vocabularies)
      fail("train translate", "a tokenizer was given for both languages, together with separate_vocabularies");
    const TokenizerPtr both = load_tokenizer(config_.tokenizer);
    return {both, both};
  }
  // SentencePiece has a token for the beginning of a text, which the layouts of other tools do not have.
  const std::int64_t others = other_tools() ? -1 : 0;
  auto train = [&](PairSide side) -> TokenizerPtr {
    const LineSource lines = lines_of(open_pairs("training", config_.source, config_.target, config_.tsv, config_.header), side);
    if (config_.subwords == Subwords::whitespace) return build_whitespace(lines, {.max_size = config_.vocab_size});
    return train_sentencepiece(lines,
                               {.kind = config_.subwords == Subwords::bpe ? SentencePieceKind::bpe : SentencePieceKind::unigram,
                                .vocab_size = config_.vocab_size,
                                .character_coverage = config_.character_coverage,
                                .normalization = config_.normalization},
                               others);
  };
  if (config_.separate_vocabularies) return {train(PairSide::source), train(PairSide::target)};
  const TokenizerPtr both = train(PairSide::both);
  return {both, both};
}

std::string TranslateTask::layout() const {
  if (!started_from().empty()) return fmt::format("{}, from {}", model_type_of(model().config()), started_from());
  const std::string name = detail::write_value(config_.arch, "arch"), why_not = other_tools() ? "" : why_not_open(settings_);
  return why_not.empty() ? name : fmt::format("{} ({})", name, why_not);
}

TranslatorTokens TranslateTask::tokens() const { return {.start = target_.bos, .end = target_.eos, .padding = target_.pad}; }

void TranslateTask::build(TransformerConfig model) {
  model.src_vocab_size = tokenizers_.source->size();
  model.tgt_vocab_size = tokenizers_.joint() ? 0 : tokenizers_.target->size();
  model.pad_id = target_.pad;
  settings_ = std::move(model);
  build_model(config_.arch == TranslateLayout::marian        ? marian_config(settings_, tokens())
                  : config_.arch == TranslateLayout::pegasus ? pegasus_config(settings_, tokens())
                                                             : classic_config(settings_));
  dynamic_cast<EncoderDecoderModel&>(this->model()).complete_fresh(context());
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

Batch TranslateTask::prepare(std::int64_t index, const Share& share) const {
  const auto tokens_of = [&](std::int64_t i) { return std::ssize(training_->source(i)) + std::ssize(training_->target(i)) + 2; };
  const std::vector<std::int64_t> pairs = part_of(plan_[static_cast<std::size_t>(index)], share, tokens_of);
  if (pairs.empty()) return {};
  PairIds ids = make_batch(*training_, pairs);
  const auto targets = static_cast<std::int64_t>(ids.labels.size()), tokens = static_cast<std::int64_t>(ids.source.size()) + targets;
  if (context().backend().has_passes())
    round_sizes(ids,
                {.longest_source = network()->encoder.max_length(),
                 .longest_target = network()->decoder.max_length(),
                 .ignored = static_cast<std::int32_t>(network()->settings.ignored_label)});
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
  const auto plan = plan_epoch(*validation_, std::max(config_.max_tokens, std::int64_t{8192}), 0, 0);
  share_out<double>(
      ctx, std::ssize(plan),
      [&](std::int64_t i) {
    const PairIds ids = make_batch(*validation_, plan[static_cast<std::size_t>(i)]);
    const auto targets = static_cast<double>(ids.labels.size());
    return std::vector{static_cast<double>(network()->loss(ctx, to_tensors(ctx, ids), 0.0F).item()) * targets, targets};
      },
      [&](std::int64_t, const std::vector<double>& batch) { sum += batch[0], count += batch[1]; });
  Metrics measured{{"loss", sum / count}, {"perplexity", std::exp(sum / count)}};
  if (config_.eval_bleu) {
    // Each process translates some, of all lengths.
    Communicator& processes = ctx.communicator();
    const auto step = static_cast<std::size_t>(processes.size());
    std::vector<std::string> mine, translated(validation_sources_.size());
    for (auto i = static_cast<std::size_t>(processes.rank()); i < translated.size(); i += step) mine.push_back(validation_sources_[i]);
    mine = translator().translate(ctx, mine, {.num_beams = config_.eval_beam});
    share_out<char>(
        ctx, std::ssize(translated),
        [&](std::int64_t i) {
      const std::string& text = mine[static_cast<std::size_t>(i) / step];
      return std::vector<char>(text.begin(), text.end());
        },
        [&](std::int64_t i, const std::vector<char>& text) { translated[static_cast<std::size_t>(i)].assign(text.begin(), text.end()); });
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
  const bool pieces = tokenizers_.source->kind() == "sentencepiece" && tokenizers_.target->kind() == "sentencepiece";
  if (config_.arch == TranslateLayout::marian && pieces) save_marian_tokenizers(tokenizers_, folder);
  else save_tokenizers(tokenizers_, folder);
  if (!other_tools()) return;
  const std::int32_t start = target_.bos, end = target_.eos, padding = target_.pad;
  GenerationConfig generation{
      .forced_eos_token_id = {end}, .eos_token_id = {end}, .pad_token_id = padding, .decoder_start_token_id = start};
  if (start == padding) generation.bad_words_ids = {{padding}};
  else generation.bos_token_id = start;
  write_json(folder / "generation_config.json", generation_json(generation));
}

}  // namespace transformer
