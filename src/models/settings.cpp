#include "transformer/models/settings.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

namespace transformer {
namespace {

// What any configuration may have and what does not change the numbers of a model: where it comes from, how Hugging Face's
// classes return things, the names of classes, special tokens, settings of generation (which generation reads).
constexpr std::array common = {"model_type",
                               "architectures",
                               "transformers_version",
                               "_name_or_path",
                               "_commit_hash",
                               "_attn_implementation",
                               "_attn_implementation_autoset",
                               "attn_implementation",
                               "_num_labels",
                               "auto_map",
                               "torch_dtype",
                               "dtype",
                               "torchscript",
                               "use_bfloat16",
                               "return_dict",
                               "output_hidden_states",
                               "output_attentions",
                               "output_past",
                               "use_cache",
                               "gradient_checkpointing",
                               "finetuning_task",
                               "id2label",
                               "label2id",
                               "num_labels",
                               "task_specific_params",
                               "tokenizer_class",
                               "prefix",
                               "tf_legacy_loss",
                               "chunk_size_feed_forward",
                               "initializer_range",
                               "bos_token_id",
                               "eos_token_id",
                               "pad_token_id",
                               "sep_token_id",
                               "decoder_start_token_id",
                               "max_length",
                               "min_length",
                               "max_new_tokens",
                               "do_sample",
                               "early_stopping",
                               "num_beams",
                               "num_beam_groups",
                               "diversity_penalty",
                               "temperature",
                               "top_k",
                               "top_p",
                               "typical_p",
                               "repetition_penalty",
                               "length_penalty",
                               "no_repeat_ngram_size",
                               "encoder_no_repeat_ngram_size",
                               "bad_words_ids",
                               "num_return_sequences",
                               "output_scores",
                               "return_dict_in_generate",
                               "forced_bos_token_id",
                               "forced_eos_token_id",
                               "remove_invalid_values",
                               "exponential_decay_length_penalty",
                               "suppress_tokens",
                               "begin_suppress_tokens",
                               "cross_attention_hidden_size"};

constexpr std::int64_t largest_size = std::int64_t{1} << 28, most_layers = 2'000;

std::int64_t checked(std::string_view key, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most) fail("config.json", "{} is {}: expected {} to {}", key, value, least, most);
  return value;
}

}  // namespace

Settings::Settings(const nlohmann::json& config) : config_(config) {
  if (!config_.is_object()) fail("config.json", "expected a JSON object");
  model_type_ = require<std::string>("model_type");
  for (const char* key : common) known_.emplace(key);
  only("pruned_heads", nlohmann::json::object(), "models without some of their heads are not supported");
  only("tie_encoder_decoder", false, "an encoder and a decoder with the same weights are not supported");
  only("quantization_config", nullptr, "quantized weights are not supported: use the checkpoint they were made from");
}

const nlohmann::json* Settings::find(std::string_view key) {
  known_.emplace(key);
  const auto it = config_.find(key);
  return it == config_.end() ? nullptr : &*it;
}

void Settings::check_small(std::string_view key, std::int64_t value) {
  checked(key, value, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max());
}

void Settings::missing(std::string_view key) { fail("config.json", "the key '{}' is missing", key); }

std::int64_t Settings::size(std::string_view key, std::int64_t fallback) { return checked(key, get(key, fallback), 1, largest_size); }

std::optional<std::int64_t> Settings::maybe_size(std::string_view key) {
  const auto value = maybe<std::int64_t>(key);
  if (value) checked(key, *value, 1, largest_size);
  return value;
}

std::int64_t Settings::layers(std::string_view key, std::int64_t fallback) { return checked(key, get(key, fallback), 0, most_layers); }

Activation Settings::activation(std::string_view key, std::string_view fallback) {
  return activation_named(key, get(key, std::string(fallback)));
}

Activation Settings::activation_named(std::string_view key, std::string_view name) const {
  static const std::vector<std::pair<std::string, Activation>> known{
      {"gelu", Activation::gelu},           {"gelu_python", Activation::gelu},
      {"gelu_new", Activation::gelu_tanh},  {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu_fast", Activation::gelu_tanh}, {"gelu_accurate", Activation::gelu_tanh},
      {"relu", Activation::relu},           {"silu", Activation::silu},
      {"swish", Activation::silu}};
  std::vector<std::string> names;
  for (const auto& [known_name, kind] : known) {
    if (known_name == name) return kind;
    names.push_back(known_name);
  }
  fail("config.json", "{}: the activation '{}' is not supported, only {}", key, name, fmt::join(names, ", "));
}

std::string Settings::architecture(const std::vector<std::string>& known) {
  const auto given = maybe<std::vector<std::string>>("architectures");
  if (!given || given->empty()) return known.front();
  for (const std::string& name : *given)
    if (std::find(known.begin(), known.end(), name) != known.end()) return name;
  fail("config.json", "architectures has {}: of model_type {} there are {}", fmt::join(*given, ", "), model_type_, fmt::join(known, ", "));
}

std::int64_t Settings::labels() {
  if (const nlohmann::json* names = find("id2label"); names != nullptr && !names->is_null()) {
    if (!names->is_object() || names->empty()) fail("config.json", "id2label: expected an object with a name for each class");
    return static_cast<std::int64_t>(names->size());
  }
  return checked("num_labels", maybe<std::int64_t>("num_labels").value_or(2), 1, largest_size);
}

void Settings::only(std::string_view key, const nlohmann::json& value, std::string_view why) {
  const nlohmann::json* given = find(key);
  if (given != nullptr && *given != value && !given->is_null())
    fail("config.json", "{} is {}: only {} is possible; {}", key, given->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
         value.dump(), why);
}

void Settings::neutral(std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) known_.emplace(key);
}

void Settings::alias(std::string_view other, std::string_view key) {
  known_.emplace(other);
  const auto it = config_.find(other);
  if (it == config_.end()) return;
  const nlohmann::json value = *it;
  config_.erase(it);
  if (const auto first = config_.find(key); first != config_.end() && *first != value)
    fail("config.json", "{} and {} are two names of one setting, but their values differ", other, key);
  config_[std::string(key)] = value;
}

void Settings::refuse(std::string_view key, std::string_view why) const {
  const auto it = config_.find(key);
  const std::string value = it == config_.end() ? "not given" : it->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  fail("config.json", "{} is {}: {}", key, value, why);
}

void Settings::done() const {
  const std::vector<std::string> known(known_.begin(), known_.end());
  std::string unknown;
  constexpr std::size_t enough = 10'000;  // bytes
  for (const auto& [key, value] : config_.items())
    if (!known_.contains(key) && unknown.size() < enough) unknown += fmt::format("\n  unknown key '{}'{}", key, did_you_mean(key, known));
  if (!unknown.empty()) fail("config.json", "not all of it is understood, so the model might be another one than it says:{}", unknown);
}

}  // namespace transformer
