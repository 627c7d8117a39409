#include "models/shared/purpose.h"

#include "transformer/core/error.h"

namespace transformer {

std::string architecture_of(const Model& model) {
  const nlohmann::json& config = model.config();
  if (const auto it = config.find("architectures"); it != config.end() && it->is_array() && !it->empty() && it->front().is_string())
    return it->front().get<std::string>();
  return model_type_of(config);
}

std::string_view name_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::text_vectors: return "text_vectors";
    case Purpose::next_words: return "next_words";
    case Purpose::masked_words: return "masked_words";
    case Purpose::text_labels: return "text_labels";
    case Purpose::token_labels: return "token_labels";
    case Purpose::another_text: return "another_text";
    case Purpose::image_vectors: return "image_vectors";
    case Purpose::image_labels: return "image_labels";
    case Purpose::forecast: return "forecast";
    case Purpose::series_vectors: return "series_vectors";
    case Purpose::series_labels: return "series_labels";
  }
  fail("purpose", "{} is none", static_cast<int>(purpose));
}

std::string describe(Purpose purpose) {
  switch (purpose) {
    case Purpose::text_vectors: return "it gives vectors of text: see 'transformer embed'";
    case Purpose::next_words: return "it goes on from a text: see 'transformer generate'";
    case Purpose::masked_words: return "it fills in masked words: see 'transformer run', or 'transformer embed' for its vectors";
    case Purpose::text_labels: return "it classifies text: see 'transformer classify'";
    case Purpose::token_labels: return "it classifies the tokens of a text: see 'transformer classify'";
    case Purpose::another_text: return "it turns a text into another: see 'transformer translate' and 'transformer generate'";
    case Purpose::image_vectors: return "it gives vectors of images: see 'transformer run'";
    case Purpose::image_labels: return "it classifies images: see 'transformer classify --image'";
    case Purpose::forecast: return "it forecasts series of numbers: see 'transformer forecast'";
    case Purpose::series_vectors: return "it gives vectors of series of numbers: see 'transformer run'";
    case Purpose::series_labels: return "it classifies series of numbers: see 'transformer run'";
  }
  fail("purpose", "{} is none", static_cast<int>(purpose));
}

}  // namespace transformer
