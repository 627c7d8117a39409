#pragma once
// What one pass through a model shows: tokens, vectors, attention of every layer and head, activity of the FFNs, what comes out.
// An Explainer (explain/explainer.h) makes it; pictures (explain/picture.h) and JSON are made of it.
//
//   Explanation seen = explainer.text(ctx, "나는 학교에 간다");
//   std::vector<float> weights = seen.map({.attention = "self", .layer = 0, .head = 3});    // [tokens, tokens]
//   std::string answer = to_json(seen, {.layer = 0, .head = 3}).dump();

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transformer/nn/stack.h"

namespace transformer {

struct SeenToken {
  std::int64_t id = -1;    // -1: none, as of a patch
  std::string token = {};  // as the vocabulary has it
  std::string text = {};   // as people read it
  bool special = false;    // stands for no part of the text
  bool operator==(const SeenToken&) const = default;
};

// Tokens that stand on one side of an attention map.
struct SeenSide {
  // text, or source, target (what the decoder reads) and written (what it then says), or patches; of Swin stage1 …, and pooled, what comes
  // out of the last one behind its mean
  std::string name = {};
  std::vector<SeenToken> tokens = {};
  std::int64_t rows = 0, columns = 0;  // of the grid that patches of an image are; 0: they are none
  std::int64_t first = 0;              // tokens in front of those of the grid
};

// One stack, with what was seen in it. Tensors are float32 in the host's memory.
struct SeenStack {
  std::string name = {};                   // encoder, decoder; "stack" where there is one
  std::string side = {};                   // whose tokens go through it
  StackConfig config = {};                 //
  Tensor tokens = {}, positions = {};      // [tokens, d]: the vectors of the tokens and of their places; undefined: there are none
  std::vector<Tensor> hidden = {};         // [tokens, d]: the input of each layer, then the output of the last
  std::vector<Tensor> feed_forwards = {};  // of each layer [tokens, d_ff]
  std::vector<Tensor> projections = {};    // of each layer: Q, K and V side by side, as they meet
  Tensor bias = {}, relative_bias = {};    // on the scores, see AttentionOptions; undefined: there are none
};

struct SeenAttention {
  std::string name = {};                // self; or encoder, decoder and cross
  std::string rows = {}, columns = {};  // names of the sides: who looks, and at what
  bool masked = false;                  // a token sees itself and those before it
  std::vector<Tensor> layers = {};      // [samples, heads, rows, columns] float32 in the host's memory
  std::int64_t sample = 0;              // of these

  std::int64_t heads() const { return layers.empty() ? 0 : layers.front().dim(1); }
};

// Values [rows, columns] of the tokens of two sides, given by their names.
struct SeenMap {
  std::string rows = {}, columns = {};
  std::vector<float> values = {};
};

// What may be said at one place, most probable first.
struct SeenChoice {
  std::int64_t id = -1;
  std::string text = {};
  double logit = 0.0, probability = 0.0;  // of all there are, at temperature 1
};
struct SeenPrediction {
  std::int64_t position = 0;  // of the side
  std::string side = {};      //
  std::vector<SeenChoice> choices = {};
};

// Another translation that the search kept.
struct SeenAlternative {
  std::string text = {};
  double score = 0.0;  // Σ log p / length ^ penalty
};

struct SeenSeries {
  std::vector<std::string> channels = {};
  std::int64_t channel = 0;                                         // the one that attention is shown of
  std::vector<double> history = {}, forecast = {};                  // of it, in its own units
  std::vector<std::pair<std::int64_t, std::int64_t>> patches = {};  // rows of the history [begin, end)
};

// One of the attention maps.
struct MapChoice {
  std::string attention = {};  // its name; empty: the one between two sides, or the only one
  std::int64_t layer = 0;      // from 0; -1: the last
  std::int64_t head = 0;       // from 0; -1: the mean of all
};

struct Explanation {
  std::string kind = {};          // text, translation, image, series
  std::string architecture = {};  // as Hugging Face calls it
  std::string purpose = {};       // next_words, masked_words, text_labels …: the name of its Purpose (models/model.h)
  std::int64_t vocabulary = 0;    // 0: none
  std::vector<SeenSide> sides = {};
  std::vector<SeenStack> stacks = {};  // none of Swin, whose layers are in stages
  std::vector<SeenAttention> attentions = {};
  std::optional<SeenMap> rolled = {};  // of Swin: its roll-out
  std::vector<SeenPrediction> predictions = {};
  std::vector<SeenAlternative> alternatives = {};
  std::string text = {};   // what its tokens say; of a translation, what was written
  std::string image = {};  // what a model of images saw: a PNG file
  SeenSeries series = {};

  // Error says what there is.
  const SeenAttention& attention(std::string_view name) const;
  const SeenSide& side(std::string_view name) const;
  const SeenStack& stack(std::string_view name) const;
  std::vector<float> map(const MapChoice& choice) const;   // [rows, columns]
  SeenMap rollout(std::string_view attention = {}) const;  // of an attention of one side, or Swin's; see explain/rollout.h
  bool has_rollout(std::string_view attention = {}) const;
};

// What of it is written as JSON (docs/explain.md has the shape).
struct JsonView {
  MapChoice map = {};
  std::int64_t thumbnails = 0;  // > 0: all heads of the layer too, as maps of at most this many rows and columns
  bool rollout = false;
  bool example = false;          // the worked example of the map's head
  bool map_only = false;         // nothing but the maps: for another layer or head of what was seen before
  std::int64_t dimensions = 32;  // of vectors that are shown, from the first
};
nlohmann::json to_json(const Explanation& seen, const JsonView& view = {});

}  // namespace transformer
