// Pegasus: Marian with norms before the sublayers and one behind each stack, one table for both sides, and its sinusoids in its files.
#include "transformer/models/pegasus.h"

#include "models/bart_body.h"
#include "models/translator_config.h"

namespace transformer {

std::string why_not_pegasus(const TransformerConfig& c) {
  if (std::string why = why_not(c, "a Pegasus model", NormPlace::pre); !why.empty()) return why;
  return c.tgt_vocab_size == 0 ? "" : "source and target have vocabularies of their own, but a Pegasus model has one for both";
}

nlohmann::json pegasus_config(const TransformerConfig& c, const TranslatorTokens& tokens) {
  if (const std::string why = why_not_pegasus(c); !why.empty()) fail("pegasus", "{}", why);
  nlohmann::json config = translator_config(c, tokens, "pegasus", "PegasusForConditionalGeneration");
  // Hugging Face knows these of the family; CTranslate2 reads them.
  config["normalize_before"] = config["add_final_layer_norm"] = true;
  config["normalize_embedding"] = false;
  return config;
}

namespace families {

namespace {

std::unique_ptr<Model> make_pegasus(Settings& s) {
  return make_bart_body(s, pegasus,
                        {.pad = 0,
                         .start = 0,
                         .positions = BartPositions::sinusoids,
                         .pre_norm = true,
                         .starts_with_padding = true,
                         .saves_positions = true});
}

}  // namespace

const Family pegasus{.model_type = "pegasus",
                     .make = make_pegasus,
                     .classes = {"PegasusForConditionalGeneration", "PegasusModel"},
                     .dropout = bart_dropout(),
                     .lora_targets = {"q_proj", "v_proj"}};

}  // namespace families

}  // namespace transformer
