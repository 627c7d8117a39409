// BART: the original encoder-decoder with learned positions, a norm of the embeddings and GELU. Adds to the logits a bias that is
// saved, but not trained.
#include "models/bart_body.h"

namespace transformer::families {

namespace {

std::unique_ptr<Model> make_bart(Settings& s) {
  return make_bart_body(s, bart, {.start = 2, .embedding_norm = true, .source_as_target = true});
}

}  // namespace

const Family bart{.model_type = "bart",
                  .make = make_bart,
                  .classes = {"BartForConditionalGeneration", "BartModel"},
                  .dropout = bart_dropout(),
                  .lora_targets = {"q_proj", "v_proj"}};

}  // namespace transformer::families
