#pragma once
// Sizes of the encoder-decoder that have a name.
//
//   TransformerConfig config;
//   apply_preset("base", config);

#include <string>
#include <string_view>
#include <vector>

#include "transformer/models/transformer.h"

namespace transformer {

//          d_model  heads  d_ff  layers  dropout
//   tiny       128      4   256     4+4      0.3   small sets of data, such as Multi30k
//   small      256      4  1024     4+4      0.1
//   base       512      8  2048     6+6      0.1   "Attention Is All You Need"
//   big       1024     16  4096     6+6      0.3   the same paper
std::vector<std::string> preset_names(const TransformerConfig&);

// Sets the sizes and the dropout of the embeddings and sublayers; all other settings, vocabularies among them, stay as they
// are. Error for a name that is not one of preset_names.
void apply_preset(std::string_view name, TransformerConfig& config);

}  // namespace transformer
