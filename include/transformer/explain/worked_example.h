#pragma once
// One head of attention step by step, in numbers of the model's own first layer:
//   scores = Q Kᵀ,  scaled = scores · scale (+ bias),  weights = softmax(scaled) over what a token may look at,  output = weights V
//
//   WorkedExample example = worked_example(explainer.text(ctx, "나는 학교에 간다"), /*head=*/0);
//   std::ofstream("example.svg") << example_svg(example);

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transformer/explain/explanation.h"
#include "transformer/explain/theme.h"

namespace transformer {

struct WorkedExample {
  std::vector<std::string> labels = {};  // of the tokens
  std::int64_t tokens = 0, head_dim = 0;
  double scale = 0.0;
  bool masked = false, biased = false;                        // a token sees itself and those before it; the bias of positions is added
  std::vector<float> q = {}, k = {}, v = {};                  // [tokens, head_dim], turned by rotary positions where there are any
  std::vector<float> scores = {}, scaled = {}, weights = {};  // [tokens, tokens]
  std::vector<float> output = {};                             // [tokens, head_dim]

  bool looks(std::int64_t i, std::int64_t j) const { return weights[static_cast<std::size_t>(i * tokens + j)] > 0.0F; }
};

// Of the encoder, where there are two stacks and none is named.
WorkedExample worked_example(const Explanation& seen, std::int64_t head = 0, std::string_view stack = {});

// An SVG document of its own: the matrices of each step, with their shapes; of many tokens and dimensions the first ones.
std::string example_svg(const WorkedExample& example, Theme theme = Theme::automatic);

}  // namespace transformer
