#pragma once
// Between the names of a checkpoint's tensors and ours: a family is a table of these rules.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transformer/io/safetensors.h"
#include "transformer/nn/parameter.h"

namespace transformer {

// "encoder.layers.{i}.mha.q_linear" ↔ part 0 of "encoder.stack.layers.{i}.attention.qkv". Names are prefixes up to a
// dot or the end, so that one rule serves weight and bias; {i} stands for any number, the same on both sides.
struct NameRule {
  std::string_view theirs, ours;
  int part = -1;  // which part of a fused matrix (Parameter::parts); -1: all of it
};

// One tensor of the checkpoint and where its rows lie in one of ours.
struct Binding {
  std::string theirs;
  NamedParameter ours;
  std::int64_t row = 0, rows = 0;
  Shape shape() const;                  // of their tensor
  Tensor slice(const Tensor& t) const;  // their rows of ours (of the weight, its gradient, …)
};

// Applies the rules to all parameters; Error if a parameter is covered by no rule, or only partly.
std::vector<Binding> bind_names(const std::vector<NamedParameter>& parameters, const std::vector<NameRule>& rules);

// Copies the checkpoint into the parameters (taking memory for those that have none, as leaves of the tape). All
// missing, unexpected and mis-shaped tensors are reported in one Error, and then nothing was changed. Tensors whose
// name begins with one of `ignored` (buffers that are computed, not trained) may be there or not.
void load(Context& ctx, const std::vector<Binding>& bindings, const SafetensorsFile& file,
          const std::vector<std::string_view>& ignored = {});

// The parameters under the checkpoint's names, as views.
std::vector<std::pair<std::string, Tensor>> named_tensors(const std::vector<Binding>& bindings);

}  // namespace transformer
