#include "models/shared/purpose.h"

#include "transformer/models/seq2seq.h"
#include "transformer/models/text.h"

namespace transformer {

std::string architecture_of(const Model& model) {
  const nlohmann::json& config = model.config();
  if (const auto it = config.find("architectures"); it != config.end() && it->is_array() && !it->empty() && it->front().is_string())
    return it->front().get<std::string>();
  const auto type = config.find("model_type");
  return type != config.end() && type->is_string() ? type->get<std::string>() : "transformer";
}

std::string purpose_of(const Model& model) {
  const std::string name = architecture_of(model);
  if (const auto* text = dynamic_cast<const TextModel*>(&model)) {
    switch (text->text().task) {
      case TextTask::hidden: return "it gives vectors of text: see 'transformer embed'";
      case TextTask::causal_lm: return "it goes on from a text: see 'transformer generate'";
      case TextTask::masked_lm: return "it fills in masked words: see 'transformer run', or 'transformer embed' for its vectors";
      case TextTask::sequence_labels: return "it classifies text: see 'transformer classify'";
      case TextTask::token_labels: return "it classifies the tokens of a text: see 'transformer classify'";
    }
  }
  if (dynamic_cast<const Seq2SeqModel*>(&model) != nullptr)
    return name.ends_with("Model") && !name.ends_with("LMHeadModel") && !name.ends_with("MTModel")
        ? "it gives vectors of text: see 'transformer embed'"
        : "it turns a text into another: see 'transformer translate' and 'transformer generate'";
  if (name.starts_with("PatchTST") || name.starts_with("patchtst")) return "it reads series of numbers: see 'transformer run'";
  return name.ends_with("Model") ? "it gives vectors of images: see 'transformer run'"
                                 : "it classifies images: see 'transformer classify --image'";
}

}  // namespace transformer
