#pragma once
// What a model has and what it costs to run it, from its settings alone: no weights are needed.
//
//   auto model = make_model(config);
//   cost_of(*model).parameters;

#include <cstdint>
#include <map>
#include <string>

#include "transformer/models/encoder_decoder.h"
#include "transformer/models/model.h"

namespace transformer {

// FLOPs are those of one forward pass; training takes three times as many. A token attended to costs in addition, once for each
// token that looks at it.
struct ModelCost {
  std::map<std::string, std::int64_t> parts = {};  // parameters, as in "encoder self-attention"
  std::int64_t parameters = 0, in_layers = 0, in_feed_forward = 0;

  // Text: for each token (of the target, where there is an encoder) and each that it attends to.
  double token_flops = 0.0, attended_flops = 0.0;
  double source_token_flops = 0.0, source_attended_flops = 0.0;  // and for those of the source
  double cached_bytes = 0.0;  // of keys and values, in float32, for each token of a text that is generated

  // Images and series: for a whole image or a channel of a series, of so many patches and special tokens.
  double sample_flops = 0.0;
  std::int64_t sample_tokens = 0;
};

ModelCost cost_of(Model& model);
ModelCost cost_of(EncoderDecoder& model);

}  // namespace transformer
