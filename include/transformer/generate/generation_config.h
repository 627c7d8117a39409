#pragma once
// How text is generated: the keys of generation_config.json, in Hugging Face's meaning and with its defaults.
//
//   GenerationConfig config = load_generation_config("folder");
//   config.max_new_tokens = 100;
//   auto found = generate(ctx, model, prompts, config);

#include <filesystem>

#include "transformer/io/config.h"

namespace transformer {

// When a beam search is done, given that `num_beams` finished hypotheses exist.
enum class EarlyStopping : std::uint8_t {
  no,     // when no running one has a better score, were it to end now
  yes,    // at once
  never,  // when no running one can get a better score at any length
};
inline EnumNames<EarlyStopping> names(EarlyStopping) {
  return {{EarlyStopping::no, "false"}, {EarlyStopping::yes, "true"}, {EarlyStopping::never, "never"}};
}

// Adds `bias` to the logit of the last id wherever the others stand before it.
struct SequenceBias {
  std::vector<std::int32_t> ids = {};
  double bias = 0.0;
  static void visit(auto& self, auto&& field) {
    field("ids", self.ids, "a sequence of tokens");
    field("bias", self.bias, "added to the logit of its last token where the others come before it");
  }
};

struct GenerationConfig {
  // Lengths. A length counts the prompt, or the start token where an encoder reads the prompt.
  std::optional<std::int64_t> max_length = {};
  std::optional<std::int64_t> max_new_tokens = {};  // wins over max_length; neither: 20
  std::int64_t min_length = 0;
  std::optional<std::int64_t> min_new_tokens = {};
  std::vector<std::string> stop_strings = {};

  // One sequence token by token (num_beams 1), the best or drawn, or beam search.
  bool do_sample = false;
  std::int64_t num_beams = 1;
  std::int64_t num_return_sequences = 1;
  double length_penalty = 1.0;
  EarlyStopping early_stopping = EarlyStopping::no;

  // The distribution that is drawn from; only with do_sample. Temperature 0 takes the best token.
  double temperature = 1.0;
  std::int64_t top_k = 50;
  double top_p = 1.0;
  double min_p = 0.0;
  double typical_p = 1.0;
  double epsilon_cutoff = 0.0;
  double eta_cutoff = 0.0;

  // What changes the logits in every mode.
  double repetition_penalty = 1.0;
  double encoder_repetition_penalty = 1.0;
  std::int64_t no_repeat_ngram_size = 0;
  std::int64_t encoder_no_repeat_ngram_size = 0;
  std::vector<std::vector<std::int32_t>> bad_words_ids = {};
  std::vector<SequenceBias> sequence_bias = {};
  std::optional<std::int32_t> forced_bos_token_id = {};
  std::vector<std::int32_t> forced_eos_token_id = {};
  std::vector<std::int32_t> suppress_tokens = {};
  std::vector<std::int32_t> begin_suppress_tokens = {};
  std::vector<double> exponential_decay_length_penalty = {};  // empty, or {start, factor}
  bool remove_invalid_values = false;
  bool renormalize_logits = false;

  // Special tokens.
  std::optional<std::int32_t> bos_token_id = {};
  std::vector<std::int32_t> eos_token_id = {};  // any of them ends a sequence
  std::optional<std::int32_t> pad_token_id = {};
  std::optional<std::int32_t> decoder_start_token_id = {};

  static void visit(auto& self, auto&& field) {
    field("max_length", self.max_length, "tokens a sequence has at most, the prompt counted");
    field("max_new_tokens", self.max_new_tokens, "tokens generated at most");
    field("min_length", self.min_length, "tokens a sequence has at least, the prompt counted");
    field("min_new_tokens", self.min_new_tokens, "tokens generated at least");
    field("stop_strings", self.stop_strings, "texts that end the generation");
    field("do_sample", self.do_sample, "draw tokens instead of taking the best");
    field("num_beams", self.num_beams, "hypotheses kept (1: no beam search)");
    field("num_return_sequences", self.num_return_sequences, "sequences given for each prompt");
    field("length_penalty", self.length_penalty, "beam search: score = sum of log-probabilities / length ^ penalty");
    field("early_stopping", self.early_stopping, "beam search: stop when num_beams hypotheses are finished");
    field("temperature", self.temperature, "logits are divided by it: below 1 is more certain, 0 takes the best");
    field("top_k", self.top_k, "draw from this many tokens (0: all)");
    field("top_p", self.top_p, "draw from the most probable tokens that together have this probability");
    field("min_p", self.min_p, "draw from tokens with at least this share of the best one's probability");
    field("typical_p", self.typical_p, "draw from the most typical tokens that together have this probability");
    field("epsilon_cutoff", self.epsilon_cutoff, "draw from tokens with at least this probability");
    field("eta_cutoff", self.eta_cutoff, "the same with a limit that falls where the model is uncertain");
    field("repetition_penalty", self.repetition_penalty, "above 1: tokens that were there are less probable");
    field("encoder_repetition_penalty", self.encoder_repetition_penalty, "above 1: tokens of the prompt are more probable");
    field("no_repeat_ngram_size", self.no_repeat_ngram_size, "no sequence of this many tokens comes twice (0: it may)");
    field("encoder_no_repeat_ngram_size", self.encoder_no_repeat_ngram_size, "no sequence of this many tokens of the prompt comes again");
    field("bad_words_ids", self.bad_words_ids, "sequences of tokens that are not generated");
    field("sequence_bias", self.sequence_bias, "sequences of tokens that are made more or less probable");
    field("forced_bos_token_id", self.forced_bos_token_id, "the token after the start token");
    field("forced_eos_token_id", self.forced_eos_token_id, "the last token at max_length");
    field("suppress_tokens", self.suppress_tokens, "tokens that are never generated");
    field("begin_suppress_tokens", self.begin_suppress_tokens, "tokens that are not generated first");
    field("exponential_decay_length_penalty", self.exponential_decay_length_penalty,
          "two numbers: after so many tokens the end becomes more probable, by this factor each");
    field("remove_invalid_values", self.remove_invalid_values, "replace logits that are not finite");
    field("renormalize_logits", self.renormalize_logits, "log-probabilities again after all changes");
    field("bos_token_id", self.bos_token_id, "the token that text begins with");
    field("eos_token_id", self.eos_token_id, "the tokens that end a sequence");
    field("pad_token_id", self.pad_token_id, "what fills short sequences in a table of ids");
    field("decoder_start_token_id", self.decoder_start_token_id, "what the decoder begins with, where there is an encoder");
  }
};

// Error that names the field whose value cannot be, or the two that exclude each other.
void check(const GenerationConfig& config);

// From the text of generation_config.json. Every key is honoured; or has no influence on what is generated (caches, outputs,
// assistants) and is skipped; or is refused by name when it asks for anything. null means not set. `where` is for messages.
GenerationConfig read_generation_config(const nlohmann::json& json, const std::string& where = "generation_config.json");
// From config.json of older checkpoints, which had these keys among others; keys that are not about generation are skipped.
GenerationConfig generation_config_of_model(const nlohmann::json& config);
// A checkpoint's folder: generation_config.json, without it config.json, without that the defaults.
GenerationConfig load_generation_config(const std::filesystem::path& folder);

// What differs from the defaults, as Hugging Face writes it; read_generation_config gives the same configuration back.
nlohmann::json generation_json(const GenerationConfig& config);

}  // namespace transformer
