#include "transformer/train/encoder.h"

#include <algorithm>

#include "io/shared/json.h"
#include "nn/shared/check_sizes.h"
#include "predict/shared/text_reader.h"
#include "train/probability.h"
#include "transformer/tokenizers/tokenizer_pair.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void check(const EncoderConfig& c) {
  for (const auto& [name, value] :
       {std::pair{"d_model", c.d_model}, {"num_heads", c.num_heads}, {"num_layers", c.num_layers}, {"d_ff", c.d_ff}})
    if (value < 1) wrong_setting("train", name, "is {}: expected 1 or more", value);
  check_width("train", c.d_model, c.num_heads);
}

json dropouts(const Family& family, const std::optional<float>& dropout, const std::optional<float>& attention) {
  json out = json::object();
  set_dropout(out, "train", "dropout", dropout, family.dropout.all);
  set_dropout(out, "train", "attention_dropout", attention, family.dropout.attention);
  return out;
}

}  // namespace

json encoder_config(const EncoderConfig& c, const std::string& head, const Tokenizer& tokenizer, std::int64_t longest) {
  check(c);
  const Family& family = family_named(detail::write_value(c.arch, "arch").get<std::string>());
  const std::int64_t padding = tokenizer.pad();
  if (padding < 0) fail("train", "the tokenizer has no token for padding ([PAD])");
  json out = config_of(family, head);
  out.update({{"vocab_size", tokenizer.size()}, {"pad_token_id", padding}, {"initializer_range", 0.02}});
  out.update(dropouts(family, c.dropout, c.attention_dropout));
  if (c.arch == EncoderArch::distilbert) {
    out.update({{"dim", c.d_model},
                {"n_heads", c.num_heads},
                {"n_layers", c.num_layers},
                {"hidden_dim", c.d_ff},
                {"activation", "gelu"},
                {"max_position_embeddings", longest},
                {"sinusoidal_pos_embds", false},
                {"seq_classif_dropout", out.at("dropout")}});
    return out;
  }
  const bool roberta = c.arch == EncoderArch::roberta;
  out.update({{"hidden_size", c.d_model},
              {"num_attention_heads", c.num_heads},
              {"num_hidden_layers", c.num_layers},
              {"intermediate_size", c.d_ff},
              {"hidden_act", "gelu"},
              {"max_position_embeddings", longest + (roberta ? padding + 1 : 0)},  // RoBERTa's positions begin behind that row
              {"type_vocab_size", 2},
              {"layer_norm_eps", roberta ? 1e-5 : 1e-12}});
  if (roberta) out.update({{"bos_token_id", tokenizer.special_tokens().cls}, {"eos_token_id", tokenizer.special_tokens().sep}});
  return out;
}

const TextModel& EncoderTask::network() const { return dynamic_cast<const TextModel&>(model()); }

std::string EncoderTask::layout() const {
  const std::string type = model_type_of(model().config());
  return started_from().empty() ? type : fmt::format("{}, from {}", type, started_from());
}

void EncoderTask::make_tokenizer(const EncoderConfig& config, const EncoderVocabulary& vocabulary, const LineSource& lines,
                                 const std::optional<fs::path>& resumed) {
  check(config);
  vocabulary_ = vocabulary;
  made_here_ = config.tokenizer.empty();
  if (!made_here_) tokenizer_ = load_tokenizer(config.tokenizer);
  else if (resumed) tokenizer_ = load_tokenizer(*resumed);
  else tokenizer_ = train_encoder_tokenizer(lines, vocabulary);
  if (tokenizer_->kind() != "huggingface")
    fail(config.tokenizer, "this {} tokenizer puts no special tokens around a text: expected one of Hugging Face's format (tokenizer.json)",
         tokenizer_->kind());
}

void EncoderTask::set_longest(std::int64_t max_length) {
  if (max_length < 3) wrong_setting(name(), "max_length", "is {}: expected 3 or more tokens", max_length);
  const std::int64_t most = longest_text(model());
  longest_ = most > 0 ? std::min(most, max_length) : max_length;
}

void EncoderTask::build(const EncoderConfig& config, const std::string& head, std::int64_t max_length, const json& more) {
  json settings = encoder_config(config, head, *tokenizer_, std::max<std::int64_t>(max_length, 1));
  if (more.is_object()) settings.update(more);
  build_model(settings);
  set_longest(max_length);
}

void EncoderTask::open(const EncoderStart& start, const std::string& head, std::int64_t max_length,
                       const std::function<json(const json& config)>& more) {
  const auto changes = [&](const json& config) {
    const Family* family = find_family(config);
    if (family == nullptr || family->class_with(head).empty()) return json::object();
    json out = dropouts(*family, start.dropout, start.attention_dropout);
    const json others = more(config);
    if (others.is_null()) return out;
    out.update(others);
    const json architectures = json::array({family->class_with(head)});
    if (config.value("architectures", json()) != architectures) out["architectures"] = architectures;
    return out;
  };
  open_model(
      start.from, changes,
      [](const Model& model) {
    const auto* text = dynamic_cast<const TextModel*>(&model);
    return text != nullptr && !text->text().stack.causal ? "" : "is not a text encoder: expected BERT, RoBERTa or DistilBERT";
      },
      start.lora);
  tokenizer_ = tokenizer_of(start.from);
  if (tokenizer_->size() > network().text().vocabulary)
    fail(start.from, "the tokenizer has {} tokens, but the model only {}: they do not belong together", tokenizer_->size(),
         network().text().vocabulary);
  set_longest(max_length);
}

json EncoderTask::encoder_identity() const {
  json out = model_identity();
  out["vocabulary"] = {{"size", tokenizer_->size()}, {"fingerprint", hex(fingerprint(*tokenizer_))}};
  if (made_here_) out["vocabulary"].update(to_json(vocabulary_));
  out["data"]["max_length"] = longest_;
  return out;
}

void EncoderTask::save_beside(const fs::path& folder) const {
  tokenizer_->save_into(folder);
  if (made_here_) write_json(folder / "tokenizer_config.json", encoder_tokenizer_config(longest_, network().text().types > 0));
}

}  // namespace transformer
