#pragma once
// PatchTST: a series cut into patches is a sequence. Every channel is a series of its own, and all of them go through the
// same encoder; each is scaled to its own mean and deviation on the way in, and back on the way out.
//
//   auto model = load_model(ctx, "patchtst-etth1");
//   model->run(ctx, {{"past_values", x}}).at("prediction_outputs");    // [batch, context, channels] → [batch, ahead, channels]
//
// With quantiles, which are ours and not Hugging Face's, there is a head for each of them: "quantile_outputs" is [batch, ahead, channels,
// quantiles], each as its head gives it, and "prediction_outputs" the median's, whose head is the one that Hugging Face knows.

#include <algorithm>

#include "transformer/models/model.h"
#include "transformer/nn/embedding.h"
#include "transformer/nn/stack.h"

namespace transformer {

enum class SeriesScaling : std::uint8_t { none, mean, deviation };  // by the mean of |x|; or to mean 0 and deviation 1
enum class SeriesPooling : std::uint8_t { none, mean, max };        // of the patches, in front of the head
enum class SeriesHead : std::uint8_t { none, prediction, regression, classification };

struct PatchTSTConfig {
  StackConfig stack = {};
  std::int64_t channels = 1, context = 32;  // of a sample
  std::int64_t patch = 1, stride = 1;
  bool shared_embedding = true;  // one projection of patches for all channels
  bool sincos_positions = true;  // sines and cosines, not trained; otherwise a table that is
  bool cls_token = false;        // a token in front of the patches, which the head reads
  float position_dropout = 0.0F;
  SeriesScaling scaling = SeriesScaling::deviation;
  SeriesPooling pooling = SeriesPooling::mean;
  SeriesHead head = SeriesHead::prediction;
  bool shared_projection = true;  // one head for all channels (prediction)
  float head_dropout = 0.0F;
  std::int64_t ahead = 24;                            // values predicted
  std::vector<double> quantiles = {};                 // of prediction: increasing, the median among them; empty: one value, no more
  std::int64_t targets = 1;                           // of regression; the classes of classification
  std::optional<std::pair<float, float>> range = {};  // regression: between these two

  std::int64_t patches() const { return (context - patch) / stride + 1; }
  std::int64_t median() const { return std::find(quantiles.begin(), quantiles.end(), 0.5) - quantiles.begin(); }
};

// "" for an increasing list of numbers between 0 and 1, and otherwise what is wrong with it.
std::string why_not_quantiles(const std::vector<double>& quantiles);

// A batch in its own scale.
struct ScaledSeries {
  Tensor values, location, scale;  // [batch, context, channels], [batch, 1, channels]: x = values · scale + location
};
// observed: 1 where a value was seen, 0 where it is missing; undefined: all were.
ScaledSeries scale_series(Context& ctx, const Tensor& x, const Tensor& observed, SeriesScaling scaling);

struct PatchTST {
  PatchTSTConfig config;
  std::vector<Linear> embeddings;  // one, or one per channel: patch → d
  Parameter cls_token;             // [1, d]
  Parameter positions;             // [tokens, d]
  Stack stack;
  std::vector<Linear> heads;  // one, or one per channel

  explicit PatchTST(const PatchTSTConfig& config);
  std::int64_t tokens() const { return positions.shape[0]; }  // of a channel
  Tensor embed(Context& ctx, const Tensor& values) const;     // scaled values → [batch · channels · tokens, d]
  Tensor encode(Context& ctx, const Tensor& values, StackTrace* trace = nullptr) const;  // → [batch, channels, tokens, d]
  // Of the encoder's output: [batch, ahead, channels] (and quantiles) in the series' own scale, or [batch, targets].
  Tensor predict(Context& ctx, const Tensor& hidden) const;
  void visit(auto&& f) {
    f("embeddings", embeddings), f("cls_token", cls_token), f("positions", positions), f("stack", stack), f("heads", heads);
  }
};

class PatchTSTModel final : public Model {
 public:
  explicit PatchTSTModel(const PatchTSTConfig& config) : net_(config) {}

  const PatchTSTConfig& series() const { return net_.config; }
  const PatchTST& network() const { return net_; }
  Purpose purpose() const override;
  NamedTensors compute(Context& ctx, const NamedTensors& inputs, const RunOptions& options) const override;
  std::vector<NamedParameter> parameters() override { return transformer::parameters(net_); }
  std::vector<NamedLinear> linears() override { return transformer::linears(net_); }
  std::vector<Binding> bindings() override;
  LoadRules load_rules() const override { return {.base = "model."}; }

 private:
  PatchTST net_;
};

const Family& patchtst_family();

}  // namespace transformer
