// M2M100 and NLLB: norms before the sublayers and one behind each stack, ReLU, sinusoids that count the tokens which are not padding. No
// bias of the logits.
#include "models/bart_body.h"

namespace transformer::families {

namespace {

std::unique_ptr<Model> make_m2m_100(Settings& s) {
  return make_bart_body(s, m2m_100,
                        {.vocabulary = 128112,
                         .start = 2,
                         .activation = "relu",
                         .attention_dropout = 0.1F,
                         .scale_embedding = true,
                         .positions = BartPositions::sinusoids_of_tokens,
                         .pre_norm = true,
                         .logits_bias = false,
                         .drops_layers = true});
}

}  // namespace

const Family m2m_100{.model_type = "m2m_100",
                     .make = make_m2m_100,
                     .classes = {"M2M100ForConditionalGeneration", "M2M100Model"},
                     .dropout = bart_dropout(),
                     .lora_targets = {"q_proj", "v_proj"}};

}  // namespace transformer::families
