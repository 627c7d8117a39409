#include "transformer/train/language.h"

#include <algorithm>
#include <cmath>

#include "io/shared/json.h"
#include "nn/shared/check_sizes.h"
#include "tokenizers/shared/tokenizer_config.h"
#include "train/batch_size.h"
#include "train/language_text.h"
#include "train/probability.h"
#include "train/shares.h"
#include "transformer/core/shuffle.h"
#include "transformer/generate/generation_config.h"
#include "transformer/tokenizers/tokenizer_pair.h"
#include "transformer/tokenizers/vocabulary.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::optional<VocabularyKind> kind_of(const std::string& vocab) {
  for (const auto& [kind, name] : names(VocabularyKind{}))
    if (vocab == name) return kind;
  return {};
}

// What can be wrong with the settings alone.
void check(const LanguageConfig& c) {
  auto at_least = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least) wrong_setting("train lm", name, "is {}: expected {} or more", value, least);
  };
  at_least("context", c.context, 1);
  at_least("batch_size", c.batch_size, 0);
  if (c.context > (std::int64_t{1} << 30) / std::max<std::int64_t>(c.batch_size, 1))
    wrong_setting("train lm", "batch_size", "is {} and `context` {}: such a batch is too large", c.batch_size, c.context);
  if (!(c.valid_split >= 0.0 && c.valid_split < 1.0))
    wrong_setting("train lm", "valid_split", "is {}: expected a share in [0, 1)", c.valid_split);
  if (c.text.empty() == c.bin.empty())
    wrong_setting("train lm", "", "give the training data either as `text` or as a file of tokens, `bin`");
  if (!c.valid_text.empty() && !c.valid_bin.empty())
    wrong_setting("train lm", "", "the validation data are given twice: as valid_text and as valid_bin");
}

json changed_dropout(const LanguageStart& start, const json& config) {
  json changes = json::object();
  const Family* family = find_family(config);
  if (family == nullptr) return changes;  // it is refused
  if (start.dropout && family->dropout.all.empty())
    wrong_setting("train lm", "dropout", "is set, but a model of type \"{}\" has none but that of attention: set attention_dropout",
                  family->model_type);
  set_dropout(changes, "train lm", "dropout", start.dropout, family->dropout.all);
  set_dropout(changes, "train lm", "attention_dropout", start.attention_dropout, family->dropout.attention);
  return changes;
}

}  // namespace

json language_model_json(const LanguageModelConfig& c, std::int64_t vocabulary, std::int64_t context, std::int32_t end) {
  json out{{"vocab_size", vocabulary}, {"dtype", "float32"}};
  if (end >= 0) out.update({{"bos_token_id", end}, {"eos_token_id", end}});
  const Family& family = family_named(detail::write_value(c.arch, "arch").get<std::string>());
  const float attention = c.attention_dropout.value_or(c.dropout);
  static_cast<void>(probability("train lm", "attention_dropout", attention)),
      static_cast<void>(probability("train lm", "dropout", c.dropout));
  check_width("train lm", c.d_model, c.num_heads, c.arch == LanguageArch::llama);
  check_at_least("train lm", "num_layers", c.num_layers, 1);
  check_at_least("train lm", "d_ff", c.d_ff, 0);
  check_at_least("train lm", "num_kv_heads", c.num_kv_heads, 0);
  if (c.arch == LanguageArch::gpt2) {
    if (c.num_kv_heads != 0 && c.num_kv_heads != c.num_heads)
      wrong_setting("train lm", "num_kv_heads", "is {}: a GPT-2 has as many as num_heads; choose the layout llama (--arch llama)",
                    c.num_kv_heads);
    out.update(config_of(family, "LMHeadModel"));
    out.update({{"n_embd", c.d_model},
                {"n_head", c.num_heads},
                {"n_layer", c.num_layers},
                {"n_inner", c.d_ff > 0 ? json(c.d_ff) : json()},
                {"n_positions", context},
                {"tie_word_embeddings", c.tie_embeddings.value_or(true)}});
    set_dropout(out, "train lm", "dropout", c.dropout, family.dropout.all);
    set_dropout(out, "train lm", "attention_dropout", attention, family.dropout.attention);
    return out;
  }
  if (c.dropout != 0.0F)
    wrong_setting("train lm", "dropout", "is {}: a LLaMA has none but that of attention; set attention_dropout instead", c.dropout);
  out.update(config_of(family, "ForCausalLM"));
  out.update({{"hidden_size", c.d_model},
              {"num_attention_heads", c.num_heads},
              {"num_key_value_heads", c.num_kv_heads > 0 ? c.num_kv_heads : c.num_heads},
              {"num_hidden_layers", c.num_layers},
              {"intermediate_size", c.d_ff > 0 ? c.d_ff : (8 * c.d_model / 3 + 63) / 64 * 64},
              {"max_position_embeddings", context},
              {"rope_theta", 10000.0},
              {"rms_norm_eps", 1e-5},
              {"hidden_act", "silu"},
              {"tie_word_embeddings", c.tie_embeddings.value_or(false)}});
  set_dropout(out, "train lm", "attention_dropout", attention, family.dropout.attention);
  return out;
}

LanguageTask::LanguageTask(Context& ctx, const LanguageConfig& config, const LanguageModelConfig& model,
                           const std::optional<fs::path>& resumed)
    : ModelTask(ctx, "train lm"), config_(config) {
  check(config_);
  static_cast<void>(make_model(language_model_json(model, 1, config_.context, -1)));  // what is wrong with its sizes is said first
  check_fresh(resumed);
  read(resumed);
  build_model(language_model_json(model, tokenizer_->size(), config_.context, end_));
}

LanguageTask::LanguageTask(Context& ctx, const LanguageConfig& config, const LanguageStart& start)
    : ModelTask(ctx, "train lm"), config_(config) {
  check(config_);
  const json given = to_json(config_), defaults = to_json(LanguageConfig{});
  for (const char* key : {"vocab", "vocab_size", "character_coverage"})
    if (given.at(key) != defaults.at(key))
      wrong_setting("train lm", key, "is {}, but a model that is trained further keeps its vocabulary: leave that out",
                    given.at(key).dump());
  open_model(
      start.from, [&](const json& its) { return changed_dropout(start, its); },
      [&](const Model& model) -> std::string {
        const auto* text = dynamic_cast<const TextModel*>(&model);
        if (text == nullptr || text->text().task != TextTask::causal_lm)
          return "is not a language model: expected a decoder such as GPT-2 or LLaMA";
        const std::int64_t most = text->text().positions > 0 ? text->text().positions - text->text().position_offset : config_.context;
        return config_.context > most
            ? fmt::format("sees {} tokens at most, but context is {}: choose a smaller one", most, config_.context)
            : "";
      },
      start.lora);
  tokenizer_ = load_tokenizer(start.from);
  if (tokenizer_->size() > text_model().text().vocabulary)
    fail(start.from, "the tokenizer has {} tokens, but the model's vocabulary has {}", tokenizer_->size(), text_model().text().vocabulary);
  read(std::nullopt);
}

// Vocabulary and data. Everything that is given is opened before the first long work.
void LanguageTask::read(const std::optional<fs::path>& resumed) {
  const std::optional<VocabularyKind> kind = kind_of(config_.vocab);
  if (!tokenizer_ && !kind) {
    if (!fs::exists(config_.vocab))
      wrong_setting("train lm", "vocab", "is '{}': expected char, byte, bpe, unigram, or the file or folder of a tokenizer", config_.vocab);
    tokenizer_ = load_tokenizer(config_.vocab);
  }
  if (!tokenizer_ && resumed) tokenizer_ = load_tokenizer(*resumed);
  if (!config_.bin.empty() && !tokenizer_ && config_.vocab == "byte") tokenizer_ = make_vocabulary({}, {.kind = VocabularyKind::bytes});
  if (!config_.bin.empty() && !tokenizer_)
    wrong_setting("train lm", "vocab",
                  "is '{}', but tokens cannot be learned from a file of tokens: give the tokenizer that it was made with", config_.vocab);

  LoadedText text, valid;
  if (!config_.valid_text.empty()) valid = load_text(config_.valid_text, config_.documents);
  if (!config_.text.empty()) {
    text = load_text(config_.text, config_.documents);
    if (config_.valid_text.empty() && config_.valid_bin.empty() && config_.valid_split > 0.0) valid = split_text(text, config_.valid_split);
  }
  if (!tokenizer_) {
    const LineSource parts = [&text, at = std::size_t{0}](std::string& part) mutable {
      if (at == text.parts.size()) return false;
      part = text.parts[at++].text;
      return true;
    };
    tokenizer_ = make_vocabulary(
        parts, {.kind = kind.value(), .vocab_size = config_.vocab_size, .character_coverage = config_.character_coverage});
  }
  end_ = document_token(*tokenizer_);
  if (config_.document_mask && end_ < 0)
    wrong_setting("train lm", "document_mask", "needs a token between documents, but the tokenizer has no end of text");

  auto encode = [&](const LoadedText& from, CorpusReport& report) {
    return encode_text(from, *tokenizer_, end_, report, context().threads());
  };
  auto open = [&](const std::string& path, CorpusReport& report) {
    TokenRow row = TokenRow::open(path, *tokenizer_);
    report = {.tokens = row.size(), .text_bytes = row.text_bytes()};
    return row;
  };
  if (!config_.bin.empty()) training_ = open(config_.bin, training_report_);
  else training_ = encode(text, training_report_);
  if (!config_.valid_bin.empty()) validation_ = open(config_.valid_bin, validation_report_);
  else if (!valid.parts.empty()) validation_ = encode(valid, validation_report_);
  else if (!config_.bin.empty() && config_.valid_split > 0.0) {
    const std::int64_t all = training_.size(), cut = static_cast<std::int64_t>(static_cast<double>(all) * (1.0 - config_.valid_split));
    validation_ = training_.part(cut, all);
    training_ = training_.part(0, cut);
    for (auto* side : {&training_report_, &validation_report_}) {
      const TokenRow& row = side == &training_report_ ? training_ : validation_;
      *side = {.tokens = row.size(), .text_bytes = row.text_bytes()};
    }
  }
  check_rows();
  if (config_.batch_size == 0) config_.batch_size = batch_for(training_.size() / config_.context, LanguageConfig::usual_batch_size, 4);
}

void LanguageTask::check_rows() const {
  if (training_.size() <= config_.context)
    fail("train lm", "the training text has {} tokens: a window of context {} needs {}; give more text, or a smaller context",
         training_.size(), config_.context, config_.context + 1);
  if (validation_.size() == 1) fail("train lm", "the validation text has one token: expected 2 or more");
}

const TextModel& LanguageTask::text_model() const { return dynamic_cast<const TextModel&>(model()); }

json LanguageTask::identity() const {
  json out = model_identity();
  out["vocabulary"] = {{"size", tokenizer_->size()}, {"fingerprint", hex(fingerprint(*tokenizer_))}};
  if (started_from().empty() && kind_of(config_.vocab))
    out["vocabulary"].update(
        {{"vocab", config_.vocab}, {"vocab_size", config_.vocab_size}, {"character_coverage", config_.character_coverage}});
  out["data"] = {{"training_tokens", training_.size()},
                 {"training_fingerprint", hex(training_.fingerprint())},
                 {"context", config_.context},
                 {"batch_size", config_.batch_size},
                 {"windows", detail::write_value(config_.windows, "windows")},
                 {"document_mask", config_.document_mask}};
  if (validation_.size() > 0) out["data"]["validation_fingerprint"] = hex(validation_.fingerprint());
  return out;
}

std::int64_t LanguageTask::plan(std::int64_t epoch) {
  epoch_ = epoch;
  const std::int64_t targets = training_.size() - 1;  // at least one window
  if (config_.windows == WindowOrder::random) {
    windows_ = (targets / config_.context + config_.batch_size - 1) / config_.batch_size * config_.batch_size;  // whole batches
  } else {
    const std::int64_t slack = std::min(config_.context, targets - config_.context + 1);
    offset_ = static_cast<std::int64_t>(epoch_stream(seed(), epoch, 1).bits(0)) % slack;
    windows_ = (targets - offset_) / config_.context;
    order_ = shuffled(windows_, seed(), epoch);
  }
  return (windows_ + config_.batch_size - 1) / config_.batch_size;
}

Batch LanguageTask::prepare(std::int64_t index, const Share& share) const {
  WindowBatch batch;
  const std::int64_t first = index * config_.batch_size;
  const SampleRange range = range_of(share, std::min(config_.batch_size, windows_ - first));
  const RandomStream random = epoch_stream(seed(), epoch_);
  for (std::int64_t i = first + range.begin; i < first + range.end; ++i) {
    const auto element = 2 * static_cast<std::uint64_t>(i);
    const std::uint64_t number = std::uint64_t{random.bits(element)} << 32 | random.bits(element + 1);
    const std::int64_t begin = config_.windows == WindowOrder::random
        ? static_cast<std::int64_t>(number % static_cast<std::uint64_t>(training_.size() - config_.context))
        : offset_ + order_[static_cast<std::size_t>(i)] * config_.context;
    batch.add(training_, begin, config_.context, config_.document_mask ? end_ : -1);
  }
  const auto tokens = static_cast<std::int64_t>(batch.ids.size());
  return {.content = std::move(batch), .targets = tokens, .tokens = tokens};
}

Tensor LanguageTask::loss(Context& ctx, const Batch& batch) const {
  return std::any_cast<WindowBatch>(&batch.content)->loss(ctx, text_model());
}

Metrics LanguageTask::validate(Context& ctx) {
  if (validation_.size() == 0) return {};
  const TextScore score = score_tokens(ctx, text_model(), validation_, config_.context, config_.document_mask ? end_ : -1);
  Metrics measured{{"loss", score.loss}, {"perplexity", score.perplexity()}};
  if (score.text_bytes > 0) measured.emplace_back("bits_per_byte", score.bits_per_byte());
  return measured;
}

std::vector<std::string> LanguageTask::metrics() const {
  if (validation_.size() == 0) return {};
  return {"loss", "perplexity", "bits_per_byte"};
}

void LanguageTask::save_beside(const fs::path& folder) const {
  tokenizer_->save_into(folder);
  GenerationConfig generation{.do_sample = true, .temperature = 0.8, .top_k = 200};
  if (end_ >= 0) {
    generation.bos_token_id = end_;
    generation.eos_token_id = {end_};
  }
  write_json(folder / "generation_config.json", generation_json(generation));
  if (tokenizer_->kind() != "huggingface") {  // the folder of a LLaMA would put <s> before a text, where this model has seen none
    return write_json(folder / "tokenizer_config.json",
                      tokenizer_config(special_names(*tokenizer_), {{"add_bos_token", false}, {"add_eos_token", false}}));
  }
  if (!kind_of(config_.vocab)) return;
  const std::string end(end_of_text), unknown = tokenizer_->unk() >= 0 ? tokenizer_->piece(tokenizer_->unk()) : "";
  write_json(folder / "tokenizer_config.json",
             tokenizer_config({.unk = unknown, .bos = end, .eos = end},
                              {{"tokenizer_class", "PreTrainedTokenizerFast"},
                               {"model_max_length", config_.context},
                               {"clean_up_tokenization_spaces", false}}));
}

}  // namespace transformer
