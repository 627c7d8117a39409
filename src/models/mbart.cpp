// mBART: BART with norms before the sublayers and one behind each stack. What the decoder begins with is the last token of its labels:
// the language it writes (mBART), or the end token, behind which the language comes (mBART-50).
#include "models/bart_body.h"

namespace transformer::families {

namespace {

std::unique_ptr<Model> make_mbart(Settings& s) {
  return make_bart_body(s, mbart, {.pre_norm = true, .embedding_norm = true, .source_as_target = true, .wraps_labels = true});
}

}  // namespace

const Family mbart{.model_type = "mbart",
                   .make = make_mbart,
                   .classes = {"MBartForConditionalGeneration", "MBartModel"},
                   .dropout = bart_dropout(),
                   .lora_targets = {"q_proj", "v_proj"}};

}  // namespace transformer::families
