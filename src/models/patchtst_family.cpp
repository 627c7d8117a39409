#include <fmt/format.h>

#include "models/families.h"
#include "models/fresh_weights.h"
#include "transformer/models/label_loss.h"
#include "transformer/models/patchtst.h"
#include "transformer/nn/feed_forward.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/shape.h"

namespace transformer {

Purpose PatchTSTModel::purpose() const {
  switch (series().head) {
    case SeriesHead::none: return Purpose::series_vectors;
    case SeriesHead::prediction: return Purpose::forecast;
    case SeriesHead::regression:
    case SeriesHead::classification: return Purpose::series_labels;
  }
  fail("PatchTST", "its head has no purpose");
}

NamedTensors PatchTSTModel::compute(Context& ctx, const NamedTensors& inputs, const RunOptions& options) const {
  const PatchTSTConfig& c = net_.config;
  const char* wanted = c.head == SeriesHead::prediction ? "future_values" : "target_values";
  std::vector<std::string> known{"past_values", "past_observed_mask"};
  if (c.head != SeriesHead::none) known.emplace_back(wanted);
  check_inputs(inputs, known);
  const Tensor* observed = optional_input(inputs, "past_observed_mask", 3);
  const ScaledSeries series = scale_series(ctx, input(inputs, "past_values", 3), observed != nullptr ? *observed : Tensor(), c.scaling);
  StackTrace trace;
  const bool traced = options.hidden_states || options.attentions;
  const Tensor x = net_.encode(ctx, series.values, traced ? &trace : nullptr);

  NamedTensors out;
  if (c.head == SeriesHead::none) out["last_hidden_state"] = x;
  if (c.head == SeriesHead::none || c.head == SeriesHead::prediction) {
    out["loc"] = series.location;
    out["scale"] = series.scale;
  }
  const auto target = inputs.find(wanted);
  if (c.head == SeriesHead::prediction && c.quantiles.empty()) {
    const Tensor y = add(ctx, mul(ctx, net_.predict(ctx, x), series.scale), series.location);
    out["prediction_outputs"] = y;
    if (target != inputs.end()) out["loss"] = mean_squared_error(ctx, y, target->second);
  } else if (c.head == SeriesHead::prediction) {
    const auto each = [&](const Tensor& t) { return reshape(ctx, t, {t.dim(0), 1, c.channels, 1}); };
    const Tensor y = add(ctx, mul(ctx, net_.predict(ctx, x), each(series.scale)), each(series.location));
    out["quantile_outputs"] = y;
    out["prediction_outputs"] = reshape(ctx, slice(ctx, y, 3, c.median(), 1), {y.dim(0), c.ahead, c.channels});
    if (target != inputs.end()) out["loss"] = pinball_loss(ctx, y, target->second, c.quantiles);
  } else if (c.head == SeriesHead::regression) {
    const Tensor y = net_.predict(ctx, x);
    out["regression_outputs"] = y;
    if (target != inputs.end()) out["loss"] = mean_squared_error(ctx, y, target->second);
  } else if (c.head == SeriesHead::classification) {
    const Tensor y = net_.predict(ctx, x);
    out["prediction_logits"] = y;
    if (target != inputs.end()) out["loss"] = label_loss(ctx, y, target->second, ProblemType::single_label);
  }
  // As Hugging Face: what goes into each layer, but not what comes out of the last.
  for (std::size_t i = 0; options.hidden_states && i + 1 < trace.hidden_states.size(); ++i)
    out[fmt::format("hidden_states.{}", i)] = reshape(ctx, trace.hidden_states[i], x.shape());
  for (std::size_t i = 0; options.attentions && i < trace.attentions.size(); ++i)
    out[fmt::format("attentions.{}", i)] = trace.attentions[i];
  return out;
}

std::string why_not_quantiles(const std::vector<double>& quantiles) {
  if (quantiles.size() > 999) return "expected at most 999 of them";
  for (const double q : quantiles)
    if (!(q > 0.0 && q < 1.0)) return "expected numbers between 0 and 1, such as 0.1, 0.5 and 0.9";
  if (!std::is_sorted(quantiles.begin(), quantiles.end(), std::less_equal<>())) return "expected each to be larger than the one before";
  return "";
}

std::vector<Binding> PatchTSTModel::bindings() {
  const PatchTSTConfig& c = net_.config;
  const std::string encoder = c.head == SeriesHead::none ? "encoder." : "model.encoder.", layer = encoder + "layers.{i}.",
                    ours = "stack.layers.{i}.";
  const std::string embedder = encoder + "embedder.input_embedding";
  std::vector<NameRule> rules{
      c.shared_embedding ? NameRule{.theirs = embedder, .ours = "embeddings.0"}
                         : NameRule{.theirs = embedder + ".{i}", .ours = "embeddings.{i}"},
      {.theirs = encoder + "positional_encoder.cls_token", .ours = "cls_token", .shape = Shape{1, 1, 1, c.stack.d_model}},
      {.theirs = encoder + "positional_encoder.position_enc", .ours = "positions"},
      {.theirs = layer + "self_attn.q_proj", .ours = ours + "attention.qkv", .part = 0},
      {.theirs = layer + "self_attn.k_proj", .ours = ours + "attention.qkv", .part = 1},
      {.theirs = layer + "self_attn.v_proj", .ours = ours + "attention.qkv", .part = 2},
      {.theirs = layer + "self_attn.out_proj", .ours = ours + "attention.out"},
      {.theirs = layer + "ff.0", .ours = ours + "feed_forward.in"},
      {.theirs = layer + "ff.3", .ours = ours + "feed_forward.out"},
  };
  for (const auto& [theirs, mine] : {std::pair{"norm_sublayer1", "attention_norm"}, std::pair{"norm_sublayer3", "feed_forward_norm"}}) {
    if (!c.stack.batch_norm) {
      rules.push_back({.theirs = layer + theirs, .ours = ours + mine});
      continue;
    }
    const std::string norm = layer + theirs + ".batchnorm", our_norm = ours + mine;
    for (const char* part : {".weight", ".bias", ".running_mean"}) rules.push_back({.theirs = norm + part, .ours = our_norm + part});
    rules.push_back({.theirs = norm + ".running_var", .ours = our_norm + ".running_variance"});
    rules.push_back({.theirs = norm + ".num_batches_tracked", .ours = our_norm + ".batches", .shape = Shape{}, .stored = DType::int64});
  }
  const bool by_channel = c.head == SeriesHead::prediction && !c.shared_projection;
  const std::string of_channel = by_channel ? ".{i}" : "", projection = by_channel ? "head.projections.{i}" : "head.projection",
                    our_head = by_channel ? "heads.{i}" : "heads.0";
  // The median's head is Hugging Face's; those of the other quantiles lie beside it, under their places in the list.
  if (c.quantiles.size() > 1)
    for (int q = 0; q < std::ssize(c.quantiles); ++q)
      rules.push_back({.theirs = q == c.median() ? projection : fmt::format("head.quantile_projections.{}", q) + of_channel,
                       .ours = our_head,
                       .part = q});
  else if (by_channel) rules.push_back({.theirs = projection, .ours = our_head});
  else rules.push_back({.theirs = c.head == SeriesHead::classification ? "head.linear" : "head.projection", .ours = "heads.0"});
  return bind_names(parameters(), rules);
}

namespace {

SeriesHead head_of(const std::string& architecture) {
  if (architecture == "PatchTSTForPrediction") return SeriesHead::prediction;
  if (architecture == "PatchTSTForRegression") return SeriesHead::regression;
  if (architecture == "PatchTSTForClassification") return SeriesHead::classification;
  return SeriesHead::none;
}

SeriesScaling scaling_of(Settings& s) {
  const nlohmann::json* given = s.find("scaling");
  if (given == nullptr || *given == "std") return SeriesScaling::deviation;
  if (*given == "mean" || *given == true) return SeriesScaling::mean;
  if (given->is_null() || *given == false) return SeriesScaling::none;
  s.refuse("scaling", "expected \"std\", \"mean\", true (which is \"mean\"), false or null");
}

SeriesPooling pooling_of(Settings& s) {
  const auto name = s.maybe<std::string>("pooling_type", "mean");
  if (!name) return SeriesPooling::none;
  if (*name == "mean") return SeriesPooling::mean;
  if (*name == "max") return SeriesPooling::max;
  s.refuse("pooling_type", "expected \"mean\", \"max\" or null");
}

std::vector<double> quantiles_of(Settings& s, SeriesHead head) {
  const std::vector<double> given = s.maybe<std::vector<double>>("quantiles").value_or(std::vector<double>{});
  if (given.empty()) return given;
  if (head != SeriesHead::prediction) s.refuse("quantiles", "only PatchTSTForPrediction can have them");
  if (const std::string wrong = why_not_quantiles(given); !wrong.empty()) s.refuse("quantiles", wrong);
  if (std::find(given.begin(), given.end(), 0.5) == given.end()) s.refuse("quantiles", "0.5, the median, must be among them");
  return given;
}

// One of two words.
bool first_of(Settings& s, std::string_view key, const std::string& first, const std::string& second) {
  const std::string given = s.get(key, first);
  if (given != first && given != second) s.refuse(key, fmt::format("expected \"{}\" or \"{}\"", first, second));
  return given == first;
}

std::unique_ptr<Model> make_patchtst(Settings& s) {
  PatchTSTConfig c;
  c.head = head_of(s.architecture(families::patchtst.classes));
  s.alias("hidden_size", "d_model");
  c.stack = {.d_model = s.size("d_model", 128),
             .heads = s.size("num_attention_heads", 4),
             .d_ff = s.size("ffn_dim", 512),
             .layers = s.layers("num_hidden_layers", 3),
             .norm_place = s.get("pre_norm", true) ? NormPlace::pre : NormPlace::post,
             .norm_eps = s.get("norm_eps", 1e-5F),
             .batch_norm = first_of(s, "norm_type", "batchnorm", "layernorm"),
             .feed_forward = feed_forward_of(s.activation("activation_function", "gelu"), false),
             .ffn_bias = s.get("bias", true),
             .dropout = s.get("path_dropout", 0.0F),
             .attention_dropout = s.get("attention_dropout", 0.0F),
             .ffn_dropout = s.get("ff_dropout", 0.0F)};
  c.channels = s.size("num_input_channels", 1);
  c.context = s.size("context_length", 32);
  c.patch = s.size("patch_length", 1);
  c.stride = s.size("patch_stride", 1);
  if (c.context <= c.patch) s.refuse("context_length", "it must be larger than patch_length");
  c.shared_embedding = s.get("share_embedding", true);
  c.sincos_positions = first_of(s, "positional_encoding_type", "sincos", "random");
  c.cls_token = s.get("use_cls_token", false);
  c.position_dropout = s.get("positional_dropout", 0.0F);
  c.scaling = scaling_of(s);
  c.pooling = pooling_of(s);
  c.shared_projection = s.get("share_projection", true);
  c.head_dropout = s.get("head_dropout", 0.0F);
  c.ahead = s.size("prediction_length", 24);
  c.quantiles = quantiles_of(s, c.head);
  c.targets = s.size("num_targets", 1);
  if ((!c.shared_embedding || !c.shared_projection) && c.channels > 65536)
    s.refuse("num_input_channels", "expected at most 65536 where each has a layer of its own");
  if (const auto range = s.maybe<std::vector<float>>("output_range")) {
    if (range->size() != 2) s.refuse("output_range", "expected two numbers or null");
    if (c.head == SeriesHead::regression) c.range = {range->at(0), range->at(1)};
  }
  if (!c.cls_token && c.pooling == SeriesPooling::none && (c.head == SeriesHead::regression || c.head == SeriesHead::classification))
    s.refuse("pooling_type", "this head needs \"mean\" or \"max\", or use_cls_token");
  if (c.head == SeriesHead::prediction || c.head == SeriesHead::regression)
    s.only("loss", "mse", "heads that give a distribution are not supported");
  else s.neutral({"loss"});
  s.only("channel_attention", false, "attention between channels is not supported");
  if (c.head == SeriesHead::none) s.only("do_mask_input", false, "masked input, which is for pretraining, is not supported");
  // Of heads with a distribution, and of pretraining.
  s.neutral({"do_mask_input", "distribution_output", "num_parallel_samples", "mask_type", "random_mask_ratio", "num_forecast_mask_patches",
             "channel_consistent_masking", "unmasked_channel_indices", "mask_value"});
  const float range = s.get("init_std", 0.02F);
  auto model = std::make_unique<PatchTSTModel>(c);
  draw_normal(model->parameters(), range);
  return model;
}

}  // namespace

const Family families::patchtst{
    .model_type = "patchtst",
    .make = make_patchtst,
    .classes = {"PatchTSTForPrediction", "PatchTSTForRegression", "PatchTSTForClassification", "PatchTSTModel"},
    .dropout = {.all = {"path_dropout", "ff_dropout", "positional_dropout"}, .attention = {"attention_dropout"}},
    .lora_targets = {"q_proj", "v_proj"}};

const Family& patchtst_family() { return families::patchtst; }

}  // namespace transformer
