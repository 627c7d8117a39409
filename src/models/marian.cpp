// Marian: BART with sinusoids (all sines, then all cosines) and without the norm of the embeddings. Published models begin their
// targets with <pad>, whose embedding is zero.
#include "transformer/models/marian.h"

#include "models/bart_body.h"
#include "models/translator_config.h"

namespace transformer {

std::string why_not_marian(const TransformerConfig& c) { return why_not(c, "a Marian model", NormPlace::post); }

nlohmann::json marian_config(const TransformerConfig& c, const TranslatorTokens& tokens) {
  if (const std::string why = why_not_marian(c); !why.empty()) fail("marian", "{}", why);
  const bool shared = c.tgt_vocab_size == 0;
  nlohmann::json config = translator_config(c, tokens, "marian", "MarianMTModel");
  config["decoder_vocab_size"] = shared ? c.src_vocab_size : c.tgt_vocab_size;
  config["share_encoder_decoder_embeddings"] = shared;
  return config;
}

namespace families {

namespace {

std::unique_ptr<Model> make_marian(Settings& s) {
  return make_bart_body(s, marian,
                        {.vocabulary = 58101,
                         .pad = 58100,
                         .start = 58100,
                         .positions = BartPositions::sinusoids,
                         .two_tables = true,
                         .starts_with_padding = true});
}

}  // namespace

const Family marian{.model_type = "marian",
                    .make = make_marian,
                    .classes = {"MarianMTModel", "MarianModel"},
                    .dropout = bart_dropout(),
                    .lora_targets = {"q_proj", "v_proj"}};

}  // namespace families

}  // namespace transformer
