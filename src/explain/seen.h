#pragma once
// What the explainers of each kind of model share: from a trace to what is shown of it.

#include "transformer/core/context.h"
#include "transformer/explain/explanation.h"
#include "transformer/predict/classifier.h"

namespace transformer {

Tensor on_host(Context& ctx, const Tensor& x);  // float32, in the host's memory; undefined stays so
SeenStack seen_stack(Context& ctx, std::string name, std::string side, const StackConfig& config, const StackTrace& trace);
SeenAttention seen_attention(Context& ctx, std::string name, std::string rows, std::string columns, bool masked,
                             const std::vector<Tensor>& layers);

// Of a regression both numbers are the value itself.
SeenChoice choice_of(const Label& label, const Classifier& classifier);

}  // namespace transformer
