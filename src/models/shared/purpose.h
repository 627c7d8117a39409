#pragma once
// What a model is made for, in words, so that a command that cannot use it can say which one can.

#include <string>
#include <string_view>

#include "transformer/models/model.h"

namespace transformer {

std::string_view name_of(Purpose purpose);  // "text_labels"
// "it classifies text: see 'transformer classify'"
std::string describe(Purpose purpose);

// The name of the model's class in Hugging Face Transformers, or its model_type where config.json has none.
std::string architecture_of(const Model& model);

}  // namespace transformer
