#pragma once
// Training a masked language model: an encoder that says which tokens were hidden. The task behind `transformer train mlm`.
//
//   MlmConfig data{.text = {"train.txt"}, .valid_text = {"valid.txt"}};
//   Context ctx({.seed = 1});
//   MlmTask task(ctx, data, EncoderConfig{}, EncoderVocabulary{.vocab_size = 8000}, latest_checkpoint("model"));
//   Trainer(ctx, task, {.save_dir = "model", .max_epoch = 10}).run();
//
// As in BERT, of the tokens of a text 15 % are chosen, and at least one; special tokens never are. Of those that are chosen 80 %
// become [MASK], 10 % another token at random, and 10 % stay; the model must say what all of them were. Which ones are chosen is drawn
// anew in every epoch, from the seed, the epoch and the place of the token alone; in validation it is always the same.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "transformer/core/shuffle.h"
#include "transformer/text/token_lists.h"
#include "transformer/train/encoder.h"

namespace transformer {

struct MlmConfig {
  std::vector<std::string> text, valid_text;
  bool pack = false;
  float mask_probability = 0.15F;
  bool whole_word = false;
  static constexpr std::int64_t usual_max_tokens = 4096;
  std::int64_t max_tokens = 0;
  std::int64_t max_length = 128;

  static void visit(auto& self, auto&& field) {
    field("text", self.text, "training text, a text per line; several files are one behind the other; .gz too");
    field("valid_text", self.valid_text, "validation text");
    field("pack", self.pack, "join lines, with [SEP] between them, to texts of max_length tokens, instead of a text per line");
    field("mask_probability", self.mask_probability, "share of the tokens that are hidden");
    field("whole_word", self.whole_word, "hide all tokens of a word together");
    field("max_tokens", self.max_tokens, "tokens of a batch (0: 4096, or less where an epoch would have few updates)");
    field("max_length", self.max_length,
          "tokens of a text, special ones included; of longer lines the beginning is read, unless pack is set");
  }
};

// What a token is to the choice of masks.
enum class TokenRole : std::uint8_t { never, word, inside };  // special; begins a word (or stands for itself); goes on in it

// Texts as tokens, each with its role.
struct MlmTokens {
  TokenLists tokens;
  std::vector<TokenRole> roles;  // of all tokens, in their order
};

// Which tokens are hidden, and how.
struct MaskOptions {
  float probability = 0.15F;
  std::int32_t mask = 0;                    // the id of [MASK]
  std::vector<std::int32_t> ordinary = {};  // ids that may take the place of a token at random
};

// A batch without padding: text after text.
struct MaskedIds {
  std::vector<std::int32_t> ids;      // what the model is given
  std::vector<std::int64_t> lengths;  // of the texts
  std::vector<std::int64_t> places;   // of ids: those that it must tell
  std::vector<std::int32_t> targets;  // what they were
};

// The texts of a batch with some tokens hidden. The draws of a token are a function of `draws` and of its place in the data.
MaskedIds mask_tokens(const MlmTokens& data, const std::vector<std::int64_t>& indices, const RandomStream& draws,
                      const MaskOptions& options);

class MlmTask : public EncoderTask {
 public:
  // Reads the text and makes the vocabulary and a model with fresh weights. `resumed`: the checkpoint that training will go on from,
  // whose vocabulary is used.
  MlmTask(Context& ctx, const MlmConfig& config, const EncoderConfig& model, const EncoderVocabulary& vocabulary,
          const std::optional<std::filesystem::path>& resumed = std::nullopt);
  // Goes on from the weights of another model; one without a head for masks gets a new one.
  MlmTask(Context& ctx, const MlmConfig& config, const EncoderStart& start);

  const TextReport& report() const { return report_; }  // of all lines
  std::int64_t training_texts() const { return training_.tokens.count(); }
  std::int64_t training_tokens() const { return training_.tokens.total(); }
  std::int64_t validation_texts() const { return validation_ ? validation_->tokens.count() : 0; }

  nlohmann::json identity() const override;
  std::int64_t plan(std::int64_t epoch) override;
  Batch prepare(std::int64_t index, const Share& share = {}) const override;
  Tensor loss(Context& ctx, const Batch& batch) const override;
  Metrics validate(Context& ctx) override;  // loss, perplexity, accuracy: of hidden tokens
  std::vector<std::string> metrics() const override;

 private:
  void check_settings() const;
  void read();
  MlmTokens read(const std::vector<std::string>& files, const char* what);

  MlmConfig config_;
  MaskOptions masks_;
  TextReport report_;
  MlmTokens training_;
  std::optional<MlmTokens> validation_;
  std::int64_t epoch_ = 0;
  std::vector<std::vector<std::int64_t>> plan_;
};

}  // namespace transformer
