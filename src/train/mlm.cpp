#include "transformer/train/mlm.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/shared/hash.h"
#include "core/shared/share_out.h"
#include "generate/shared/loop.h"
#include "io/shared/blank.h"
#include "io/shared/characters.h"
#include "io/shared/chunks.h"
#include "io/shared/utf8.h"
#include "predict/shared/text_reader.h"
#include "text/shared/plan.h"
#include "train/batch_size.h"
#include "train/shares.h"
#include "transformer/core/setting_error.h"
#include "transformer/ops/cross_entropy.h"
#include "transformer/ops/embedding.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* mlm_head = "ForMaskedLM";
constexpr std::uint32_t mask_use = 2;  // of epoch_stream; 0 and 1 are the plan's

// Does a token that begins at `at` begin a word? Words end at white space, at punctuation and around Chinese characters, as in BERT.
bool begins_word(std::string_view text, std::size_t at) {
  if (at == 0 || at >= text.size()) return true;
  std::size_t next = at, before = at;
  const char32_t c = next_character(text, next), previous = previous_character(text, before);
  for (const char32_t edge : {c, previous})
    if (is_white_space(edge) || is_any_punctuation(edge) || is_ideograph(edge)) return true;
  return false;
}

// The roles of a text's tokens; without whole words every token stands for itself.
std::vector<TokenRole> roles_of(const Tokenizer& tokenizer, const Encoding& e, std::string_view text, bool whole_word) {
  std::vector<TokenRole> roles;
  for (std::size_t i = 0; i < e.size(); ++i) {
    if (e.added[i] != 0 || tokenizer.is_special(e.ids[i])) roles.push_back(TokenRole::never);
    else if (!whole_word || roles.empty() || roles.back() == TokenRole::never) roles.push_back(TokenRole::word);
    else {
      // Parts of one character have the place of all of it. A token that is a space alone, or none of the text, goes on too.
      const bool same = e.places[i].begin == e.places[i - 1].begin || e.places[i].begin >= e.places[i].end;
      roles.push_back(!same && begins_word(text, static_cast<std::size_t>(e.places[i].begin)) ? TokenRole::word : TokenRole::inside);
    }
  }
  return roles;
}

// Lines one behind the other, with `last` behind each, cut into texts of equal length.
class Packer {
 public:
  Packer(MlmTokens& out, std::int64_t longest, std::int32_t first, std::int32_t last)
      : out_(out), longest_(longest), first_(first), last_(last) {
    begin();
  }
  void add(const std::vector<std::int32_t>& ids, const std::vector<TokenRole>& roles) {
    for (std::size_t i = 0; i < ids.size(); ++i) push(ids[i], roles[i]);
    if (last_ >= 0 && !empty()) push(last_, TokenRole::never);  // empty: the line ended where the text did
  }
  void finish() {
    if (!empty()) end();
  }

 private:
  void begin() {
    ids_.clear(), roles_.clear();
    if (first_ >= 0) ids_.push_back(first_), roles_.push_back(TokenRole::never);
  }
  bool empty() const { return std::ssize(ids_) == (first_ >= 0 ? 1 : 0); }
  void push(std::int32_t id, TokenRole role) {
    ids_.push_back(id), roles_.push_back(role);
    if (std::ssize(ids_) + (last_ >= 0 ? 1 : 0) >= longest_) end();
  }
  void end() {
    if (last_ >= 0 && ids_.back() != last_) ids_.push_back(last_), roles_.push_back(TokenRole::never);
    if (std::any_of(roles_.begin(), roles_.end(), [](TokenRole r) { return r != TokenRole::never; })) {  // there is something to hide
      out_.tokens.add(ids_);
      out_.roles.insert(out_.roles.end(), roles_.begin(), roles_.end());
    }
    begin();
  }

  MlmTokens& out_;
  std::int64_t longest_;
  std::int32_t first_, last_;
  std::vector<std::int32_t> ids_;
  std::vector<TokenRole> roles_;
};

TextInput to_input(Context& ctx, const MaskedIds& batch) {
  return {.ids = Tensor::from<std::int32_t>(ctx, {std::ssize(batch.ids)}, batch.ids), .sequences = Sequences(batch.lengths)};
}

// The hidden states of the places that count [places, d]: the head computes those alone.
Tensor hidden_places(Context& ctx, const TextModel& model, const MaskedIds& batch) {
  const Tensor h = model.hidden(ctx, to_input(ctx, batch));
  return embedding(ctx, Tensor::from<std::int64_t>(ctx, {std::ssize(batch.places)}, batch.places), h, 1.0F, h.dtype());
}

Tensor targets_of(Context& ctx, const MaskedIds& batch) {
  return Tensor::from<std::int32_t>(ctx, {std::ssize(batch.targets)}, batch.targets);
}

// A file that is missing, or that all are empty, is known at once. Standard input is not touched: it can be read only once.
void check_text(const std::vector<std::string>& files) {
  bool found = files.empty() || std::find(files.begin(), files.end(), "-") != files.end();
  for (const std::string& file : files) {
    if (file == "-") continue;
    LineReader reader(file);
    for (std::string line; !found && reader.next(line);) found = !is_blank(line);
  }
  if (!found) fail(fmt::format("{}", fmt::join(files, ", ")), "there is no text: expected a text per line");
}

}  // namespace

MaskedIds mask_tokens(const MlmTokens& data, const std::vector<std::int64_t>& indices, const RandomStream& draws,
                      const MaskOptions& options) {
  MaskedIds out;
  for (const std::int64_t index : indices) {
    const auto ids = data.tokens.at(index);
    const std::int64_t begin = data.tokens.begin(index);
    const auto role = [&](std::size_t i) { return data.roles[static_cast<std::size_t>(begin) + i]; };
    // Three draws per token: is it chosen (a word: by its first token's), what becomes of it, and which token takes its place.
    const auto place = [&](std::size_t i, std::uint64_t use) { return 3 * (static_cast<std::uint64_t>(begin) + i) + use; };
    const auto first = static_cast<std::int64_t>(out.ids.size());
    const std::size_t chosen_before = out.places.size();
    const auto hide = [&](std::size_t i) {
      out.places.push_back(first + static_cast<std::int64_t>(i));
      out.targets.push_back(ids[i]);
      const float what = draws.uniform(place(i, 1));
      std::int32_t& id = out.ids[static_cast<std::size_t>(first) + i];
      if (what < 0.8F) id = options.mask;
      else if (what < 0.9F && !options.ordinary.empty())
        id = options.ordinary[(std::uint64_t{draws.bits(place(i, 2))} * options.ordinary.size()) >> 32];
    };
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    out.lengths.push_back(std::ssize(ids));
    float least = 2.0F;
    std::size_t likeliest = ids.size();
    for (std::size_t i = 0, word = 0; i < ids.size(); ++i) {
      if (role(i) == TokenRole::never) continue;
      if (role(i) == TokenRole::word || i == 0 || role(i - 1) == TokenRole::never) word = i;
      const float value = draws.uniform(place(word, 0));
      if (value < least) least = value, likeliest = i;
      if (value < options.probability) hide(i);
    }
    if (out.places.size() > chosen_before || likeliest == ids.size()) continue;
    hide(likeliest);  // at least one: the word that came closest
    for (std::size_t i = likeliest + 1; i < ids.size() && role(i) == TokenRole::inside; ++i) hide(i);
  }
  return out;
}

MlmTask::MlmTask(Context& ctx, const MlmConfig& config, const EncoderConfig& model, const EncoderVocabulary& vocabulary,
                 const std::optional<fs::path>& resumed)
    : EncoderTask(ctx, "train mlm"), config_(config) {
  check_settings();
  check_fresh(resumed);
  if (model.tokenizer.empty() && std::find(config.text.begin(), config.text.end(), "-") != config.text.end())
    wrong_setting("train mlm", "text",
                  "is '-': it is read twice, for the vocabulary and to train, and standard input only once; write it into a file, or "
                  "give a `tokenizer`");
  make_tokenizer(model, vocabulary, read_lines(config.text), resumed);
  build(model, mlm_head, config.max_length);
  read();
}

MlmTask::MlmTask(Context& ctx, const MlmConfig& config, const EncoderStart& start) : EncoderTask(ctx, "train mlm"), config_(config) {
  check_settings();
  open(start, mlm_head, config.max_length, [](const json&) { return json::object(); });
  read();
}

void MlmTask::check_settings() const {
  if (config_.text.empty()) wrong_setting("train mlm", "text", "is missing: expected files with a text per line");
  for (const auto* files : {&config_.text, &config_.valid_text}) check_text(*files);
  if (!(config_.mask_probability > 0.0F && config_.mask_probability < 1.0F))
    wrong_setting("train mlm", "mask_probability", "is {}: expected a value between 0 and 1", config_.mask_probability);
}

void MlmTask::read() {
  masks_ = {.probability = config_.mask_probability, .mask = tokenizer().special_tokens().mask};
  if (masks_.mask < 0) fail("train mlm", "the tokenizer has no token for masks ([MASK])");
  for (std::int32_t id = 0; id < tokenizer().size(); ++id)
    if (!tokenizer().is_special(id) && !tokenizer().piece(id).empty()) masks_.ordinary.push_back(id);
  training_ = read(config_.text, "training");
  if (!config_.valid_text.empty()) validation_ = read(config_.valid_text, "validation");
  if (config_.max_tokens == 0) config_.max_tokens = max_tokens_for(training_.tokens, MlmConfig::usual_max_tokens);
  static_cast<void>(plan_epoch(training_.tokens, config_.max_tokens, 0, 0));  // says when a text is too long for a batch
}

MlmTokens MlmTask::read(const std::vector<std::string>& files, const char* what) {
  MlmTokens out;
  const SpecialTokens& special = tokenizer().special_tokens();
  Packer packer(out, longest(), special.cls >= 0 ? special.cls : special.bos, special.sep >= 0 ? special.sep : special.eos);
  const TextReader reader(shared_tokenizer(), config_.pack ? 0 : longest());
  const LineSource lines = read_lines(files);
  const auto wanted = [&](std::string& line) {
    while (lines(line))
      if (!is_blank(line)) return true;
    return false;
  };
  for (std::vector<std::string> part; read_chunk(
           wanted, [] { return true; }, 8192, part);) {
    for (std::string& line : part)
      if (!is_valid_utf8(line)) line = sanitize_utf8(line, report_.invalid_utf8);
    const std::vector<Encoding> all = reader.read(context(), part, &report_);
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::vector<TokenRole> roles = roles_of(tokenizer(), all[i], part[i], config_.whole_word);
      if (std::all_of(roles.begin(), roles.end(), [](TokenRole r) { return r == TokenRole::never; })) continue;  // nothing to hide
      if (!config_.pack) {
        out.tokens.add(all[i].ids);
        out.roles.insert(out.roles.end(), roles.begin(), roles.end());
        continue;
      }
      std::vector<std::int32_t> ids;
      std::vector<TokenRole> inner;
      for (std::size_t t = 0; t < all[i].size(); ++t)
        if (all[i].added[t] == 0) ids.push_back(all[i].ids[t]), inner.push_back(roles[t]);
      packer.add(ids, inner);
    }
  }
  if (config_.pack) packer.finish();
  if (out.tokens.count() == 0) fail(files.front(), "the {} text has no line with a token that could be hidden", what);
  return out;
}

json MlmTask::identity() const {
  const auto fingerprint_of = [](const MlmTokens& data) {
    Hash hash;
    data.tokens.add_to(hash);
    for (const TokenRole role : data.roles) hash.word(static_cast<std::uint64_t>(role));
    return hex(hash.finish());
  };
  json out = encoder_identity();
  out["data"].update({{"training_texts", training_.tokens.count()},
                      {"training_fingerprint", fingerprint_of(training_)},
                      {"max_tokens", config_.max_tokens},
                      {"mask_probability", detail::write_value(config_.mask_probability, "mask_probability")}});
  if (validation_) out["data"]["validation_fingerprint"] = fingerprint_of(*validation_);
  return out;
}

std::int64_t MlmTask::plan(std::int64_t epoch) {
  epoch_ = epoch;
  plan_ = plan_epoch(training_.tokens, config_.max_tokens, seed(), epoch);
  return static_cast<std::int64_t>(plan_.size());
}

Batch MlmTask::prepare(std::int64_t index, const Share& share) const {
  const auto tokens_of = [&](std::int64_t i) { return std::ssize(training_.tokens.at(i)); };
  const std::vector<std::int64_t> indices = part_of(plan_[static_cast<std::size_t>(index)], share, tokens_of);
  if (indices.empty()) return {};
  MaskedIds batch = mask_tokens(training_, indices, epoch_stream(seed(), epoch_, mask_use), masks_);
  const std::int64_t targets = std::ssize(batch.targets), tokens = std::ssize(batch.ids);
  return {.content = std::move(batch), .targets = targets, .tokens = tokens};
}

Tensor MlmTask::loss(Context& ctx, const Batch& batch) const {
  const auto& ids = *std::any_cast<MaskedIds>(&batch.content);
  return cross_entropy(ctx, network().logits(ctx, hidden_places(ctx, network(), ids)), targets_of(ctx, ids));
}

Metrics MlmTask::validate(Context& ctx) {
  if (!validation_) return {};
  const Inference inference(ctx);
  double sum = 0.0, count = 0.0, right = 0.0;
  const auto plan = plan_epoch(validation_->tokens, std::max(config_.max_tokens, std::int64_t{8192}), 0, 0);
  const auto measure = [&](std::int64_t number) {
    const MaskedIds batch = mask_tokens(*validation_, plan[static_cast<std::size_t>(number)], epoch_stream(0, 0, mask_use), masks_);
    const Tensor logits = network().logits(ctx, hidden_places(ctx, network(), batch));
    const auto loss = static_cast<double>(
        cross_entropy(ctx, logits, targets_of(ctx, batch), {.reduction = CrossEntropyOptions::sum}).item());
    double right = 0.0;
    const std::vector<float> values = cast(ctx, logits, DType::float32).to_vector<float>();
    const auto classes = static_cast<std::ptrdiff_t>(logits.cols());
    for (std::size_t i = 0; i < batch.targets.size(); ++i) {
      const auto row = values.begin() + static_cast<std::ptrdiff_t>(i) * classes;
      right += std::max_element(row, row + classes) - row == batch.targets[i] ? 1.0 : 0.0;
    }
    return std::vector{loss, static_cast<double>(batch.targets.size()), right};
  };
  share_out<double>(ctx, std::ssize(plan), measure,
                    [&](std::int64_t, const std::vector<double>& batch) { sum += batch[0], count += batch[1], right += batch[2]; });
  return {{"loss", sum / count}, {"perplexity", std::exp(sum / count)}, {"accuracy", right / count}};
}

std::vector<std::string> MlmTask::metrics() const {
  if (!validation_) return {};
  return {"loss", "perplexity", "accuracy"};
}

}  // namespace transformer
