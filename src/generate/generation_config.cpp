#include "transformer/generate/generation_config.h"

#include <array>
#include <cmath>

#include "io/shared/json.h"
#include "transformer/core/setting_error.h"

namespace transformer {
namespace {

using Json = nlohmann::json;

// Keys that do not change which tokens come: caches, what is reported beside them, speed.
constexpr std::array<std::string_view, 30> neutral = {"use_cache",
                                                      "cache_implementation",
                                                      "cache_config",
                                                      "max_cache_len",
                                                      "return_legacy_cache",
                                                      "output_attentions",
                                                      "output_hidden_states",
                                                      "output_scores",
                                                      "output_logits",
                                                      "return_dict_in_generate",
                                                      "num_assistant_tokens",
                                                      "num_assistant_tokens_schedule",
                                                      "assistant_confidence_threshold",
                                                      "assistant_lookbehind",
                                                      "target_lookbehind",
                                                      "assistant_early_exit",
                                                      "assistant_ensemble_weight",
                                                      "speculation_type",
                                                      "prompt_lookup_num_tokens",
                                                      "max_matching_ngram_size",
                                                      "use_mtp",
                                                      "compile_config",
                                                      "disable_compile",
                                                      "continuous_batching_config",
                                                      "prefill_chunk_size",
                                                      "transformers_version",
                                                      "_from_model_config",
                                                      "_commit_hash",
                                                      "low_memory",
                                                      "is_assistant"};

// Keys that would change them in a way that is not built here, and the value that asks for nothing.
struct Refused {
  std::string_view key;
  Json idle;
};
const std::vector<Refused>& refused() {
  static const std::vector<Refused> list{{"max_time", nullptr},        {"guidance_scale", 1.0},         {"watermarking_config", nullptr},
                                         {"top_h", nullptr},           {"penalty_alpha", 0.0},          {"dola_layers", nullptr},
                                         {"num_beam_groups", 1},       {"diversity_penalty", 0.0},      {"constraints", nullptr},
                                         {"force_words_ids", nullptr}, {"forced_decoder_ids", nullptr}, {"token_healing", false}};
  return list;
}

const std::vector<std::string>& honoured() {
  static const std::vector<std::string> list = [] {
    std::vector<std::string> names;
    const GenerationConfig config;
    GenerationConfig::visit(config, [&](std::string_view name, const auto&, std::string_view) { names.emplace_back(name); });
    return names;
  }();
  return list;
}

bool contains(const auto& list, std::string_view key) { return std::find(list.begin(), list.end(), key) != list.end(); }

// Hugging Face writes some values in several ways; this is the one way of the fields above.
Json one_way(std::string_view key, Json value) {
  if ((key == "eos_token_id" || key == "forced_eos_token_id") && value.is_number()) return Json::array({std::move(value)});
  if (key == "stop_strings" && value.is_string()) return Json::array({std::move(value)});
  if (key == "early_stopping" && value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (key == "sequence_bias" && value.is_array()) {
    for (Json& item : value)  // [[ids], bias]
      if (item.is_array() && item.size() == 2) item = Json{{"ids", item[0]}, {"bias", item[1]}};
  }
  return value;
}

// The keys of json that are fields, in one way; the others are judged. `all`: an unknown key is an Error.
GenerationConfig read(const Json& json, const std::string& where, bool all) {
  if (!json.is_object()) fail(where, "expected an object with the settings of generation");
  Json fields = Json::object();
  for (const auto& [key, value] : json.items()) {
    if (value.is_null() || contains(neutral, key)) continue;
    if (contains(honoured(), key)) {
      fields[key] = one_way(key, value);
      continue;
    }
    const auto found = std::find_if(refused().begin(), refused().end(), [&k = key](const Refused& r) { return r.key == k; });
    if (found != refused().end()) {
      if (value != found->idle)
        fail(where, "'{}' is {}: this is not supported; remove the key{}", key, value.dump(),
             found->idle.is_null() ? "" : " or set it to " + found->idle.dump());
    } else if (all) {
      fail(where, "unknown key '{}'{}", key, did_you_mean(key, honoured()));
    }
  }
  GenerationConfig config;
  try {
    from_json(fields, config);
  } catch (const Error& error) {
    fail(where, "{}", error.what());
  }
  return config;
}

}  // namespace

void check(const GenerationConfig& c) {
  auto at_least = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least) wrong_setting("generate", name, "is {}: expected {} or more", value, least);
  };
  // NaN is in no range.
  auto within = [](const char* name, double value, double low, double high) {
    if (!(value >= low && value <= high)) wrong_setting("generate", name, "is {}: expected a number from {} to {}", value, low, high);
  };
  auto positive = [](const char* name, double value) {
    if (!(value > 0.0) || !std::isfinite(value)) wrong_setting("generate", name, "is {}: expected a number above 0", value);
  };
  if (c.max_length) at_least("max_length", *c.max_length, 1);
  if (c.max_new_tokens) at_least("max_new_tokens", *c.max_new_tokens, 1);
  if (c.min_new_tokens) at_least("min_new_tokens", *c.min_new_tokens, 0);
  at_least("min_length", c.min_length, 0);
  at_least("num_beams", c.num_beams, 1);
  at_least("num_return_sequences", c.num_return_sequences, 1);
  at_least("top_k", c.top_k, 0);
  at_least("no_repeat_ngram_size", c.no_repeat_ngram_size, 0);
  at_least("encoder_no_repeat_ngram_size", c.encoder_no_repeat_ngram_size, 0);
  if (!(c.temperature >= 0.0) || !std::isfinite(c.temperature))
    wrong_setting("generate", "temperature", "is {}: expected a number above 0, or 0 for the best token", c.temperature);
  within("top_p", c.top_p, 0.0, 1.0);
  within("min_p", c.min_p, 0.0, 1.0);
  within("typical_p", c.typical_p, 0.0, 1.0);
  within("epsilon_cutoff", c.epsilon_cutoff, 0.0, 1.0);
  within("eta_cutoff", c.eta_cutoff, 0.0, 1.0);
  if (c.typical_p == 0.0) wrong_setting("generate", "typical_p", "is 0: expected a number above 0");
  positive("repetition_penalty", c.repetition_penalty);
  positive("encoder_repetition_penalty", c.encoder_repetition_penalty);
  if (!std::isfinite(c.length_penalty)) wrong_setting("generate", "length_penalty", "is {}: expected a finite number", c.length_penalty);
  for (const auto& word : c.bad_words_ids)
    if (word.empty()) wrong_setting("generate", "bad_words_ids", "has an empty list: expected the tokens of a word");
  for (const SequenceBias& item : c.sequence_bias)
    if (item.ids.empty()) wrong_setting("generate", "sequence_bias", "has an empty list: expected tokens and a number");
  for (const std::string& text : c.stop_strings)
    if (text.empty()) wrong_setting("generate", "stop_strings", "has an empty text, which would stop everything");
  if (const auto& decay = c.exponential_decay_length_penalty; !decay.empty()) {
    if (decay.size() != 2)
      wrong_setting("generate", "exponential_decay_length_penalty", "has {} numbers: expected 2, start and factor", decay.size());
    within("exponential_decay_length_penalty's start", decay[0], 0.0, 1e15);
    positive("exponential_decay_length_penalty's factor", decay[1]);
  }
  if (c.num_beams > 1 && c.do_sample)
    wrong_setting("generate", "num_beams",
                  "is {} with do_sample: drawing inside a beam is not supported; set num_beams to 1 or do_sample to false", c.num_beams);
  if (c.num_beams > 1 && !c.stop_strings.empty())
    wrong_setting("generate", "stop_strings", "are given with num_beams {}: set num_beams to 1", c.num_beams);
  if (c.num_beams > 1 && c.num_return_sequences > c.num_beams)
    wrong_setting("generate", "num_return_sequences", "is {}: a beam of {} gives at most that many", c.num_return_sequences, c.num_beams);
  if (c.num_beams == 1 && c.num_return_sequences > 1 && (!c.do_sample || c.temperature == 0.0))
    wrong_setting("generate", "num_return_sequences", "is {}: taking the best token gives one; set do_sample or num_beams",
                  c.num_return_sequences);
}

GenerationConfig read_generation_config(const Json& json, const std::string& where) { return read(json, where, true); }

GenerationConfig generation_config_of_model(const Json& json) {
  GenerationConfig config = read(json, "config.json", false);
  // BART's first checkpoints said it like this.
  if (const auto it = json.find("force_bos_token_to_be_generated"); it != json.end() && *it == true)
    config.forced_bos_token_id = config.bos_token_id;
  return config;
}

GenerationConfig load_generation_config(const std::filesystem::path& folder) {
  if (const auto path = folder / "generation_config.json"; std::filesystem::exists(path))
    return read_generation_config(read_json(path), path.string());
  if (const auto path = folder / "config.json"; std::filesystem::exists(path)) return generation_config_of_model(read_json(path));
  return {};
}

Json generation_json(const GenerationConfig& config) {
  const Json all = to_json(config), defaults = to_json(GenerationConfig{});
  Json out = Json::object();
  for (const auto& [key, value] : all.items()) {
    if (value == defaults[key]) continue;
    Json& written = out[key] = value;
    if ((key == "eos_token_id" || key == "forced_eos_token_id") && value.size() == 1) written = value[0];
    if (key == "early_stopping" && value != "never") written = value == "true";
    if (key == "sequence_bias")
      for (Json& item : written) item = Json::array({item["ids"], item["bias"]});
  }
  return out;
}

}  // namespace transformer
