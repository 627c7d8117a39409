// A look inside models whose tokens are patches: of images and of series.
#include <algorithm>

#include "explain/seen.h"
#include "explain/windows.h"
#include "generate/shared/loop.h"
#include "transformer/explain/explainer.h"
#include "transformer/models/patchtst.h"
#include "transformer/models/vit.h"

namespace transformer {
namespace {

// What went into the first layer is the tokens' vectors and their positions'.
void split_vectors(SeenStack& stack, const Tensor& positions) {
  if (stack.hidden.empty() || positions.shape() != stack.hidden.front().shape()) return;
  stack.positions = positions;
  std::vector<float> tokens = stack.hidden.front().to_vector<float>();
  const std::vector<float> places = positions.to_vector<float>();
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] -= places[i];
  Context host({.device = Device::cpu(), .threads = 1});
  stack.tokens = Tensor::from<float>(host, positions.shape(), tokens);
}

// Of a packed tensor [samples · tokens, d] the rows of one sample, by itself.
Tensor rows_of(Context& host, const Tensor& x, std::int64_t sample, std::int64_t tokens) {
  return Tensor::from<float>(host, {tokens, x.cols()}, x.row_block(sample * tokens, tokens).to_vector<float>());
}

// The patches of a grid, called by their row and column, behind the special tokens.
SeenSide grid_side(std::string name, const std::vector<std::string>& special, std::int64_t rows, std::int64_t columns) {
  SeenSide side{.name = std::move(name), .rows = rows, .columns = columns, .first = std::ssize(special)};
  for (const std::string& token : special) side.tokens.push_back({.token = token, .text = token, .special = true});
  for (std::int64_t row = 1; row <= rows; ++row)
    for (std::int64_t column = 1; column <= columns; ++column) {
      const std::string place = fmt::format("{},{}", row, column);
      side.tokens.push_back({.token = place, .text = place});
    }
  return side;
}

void look_at(Context& ctx, const Vit& vit, const Tensor& pixels, Explanation& out) {
  const VitConfig& c = vit.config;
  StackTrace trace{.inner = true};
  static_cast<void>(vit(ctx, pixels, &trace));
  const std::vector<std::string> special = c.distillation ? std::vector<std::string>{"[CLS]", "[DIST]"} : std::vector<std::string>{"[CLS]"};
  out.sides = {grid_side("patches", special, c.height / c.patches.height, c.width / c.patches.width)};
  split_vectors(out.stacks.emplace_back(seen_stack(ctx, "stack", "patches", vit.stack.config, trace)), on_host(ctx, vit.positions.tensor));
  out.attentions = {seen_attention(ctx, "self", "patches", "patches", false, trace.attentions)};
}

// Of each stage the last block, in whose windows tokens look at each other, but of stages of very many tokens; and the roll-out through
// all.
void look_at(Context& ctx, const Swin& swin, const Tensor& pixels, Explanation& out) {
  constexpr std::int64_t most_tokens = 1024;
  const std::vector<SeenStage> stages = seen_stages(ctx, swin, pixels);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const Grid& grid = stages[i].grid;
    const std::string name = fmt::format("stage{}", i + 1);
    out.sides.push_back(grid_side(name, {}, grid.height, grid.width));
    if (grid.tokens() > most_tokens) continue;
    SeenAttention a{.name = name, .rows = name, .columns = name};
    a.layers = {over_grid(stages[i].blocks.back())};
    out.attentions.push_back(std::move(a));
  }
  if (out.attentions.empty()) fail("explain", "all stages have more than {} patches: give a smaller image", most_tokens);
  const Grid& last = stages.back().grid;
  out.sides.push_back(grid_side("pooled", {"[MEAN]"}, last.height, last.width));
  out.rolled = SeenMap{.rows = "pooled", .columns = "stage1", .values = window_rollout(stages)};
}

}  // namespace

Explanation Explainer::image(Context& ctx, const Image& image, const ExplainOptions& options) const {
  Explanation out = of_kind("image");
  if (!processor_) fail("explain", "the model's folder has no preprocessor_config.json: put it there");
  const Inference inference(ctx);
  out.image = encode_png(processor_->shape(image));
  const Tensor pixels = (*processor_)(ctx, {image});
  if (const Vit* vit = vit_of(*model_)) look_at(ctx, *vit, pixels, out);
  else if (const Swin* swin = swin_of(*model_)) look_at(ctx, *swin, pixels, out);
  else fail("explain", "{} is of a family that cannot be shown", out.architecture);
  if (classifier_) {
    SeenPrediction& labels = out.predictions.emplace_back(SeenPrediction{.side = out.sides.back().name});
    const std::vector<Label> found = classifier_->images(ctx, std::span(&image, 1), {.top_k = options.top}).front();
    for (const Label& label : found) labels.choices.push_back(choice_of(label, *classifier_));
  }
  return out;
}

Explanation Explainer::series(Context& ctx, const SeriesTable& table, const ExplainOptions& options) const {
  Explanation out = of_kind("series");
  const auto& model = dynamic_cast<const PatchTSTModel&>(*model_);
  const PatchTSTConfig& c = model.series();
  const std::int64_t channels = std::ssize(table.channels), rows = table.rows();
  if (channels != c.channels) fail("explain", "the series has {} channels: the model takes {}", channels, c.channels);
  if (rows < c.context) fail("explain", "the series has {} rows: the model looks back on {}", rows, c.context);
  if (options.channel < 0 || options.channel >= channels)
    fail("explain", "there is no channel {}: the series has {}, from 0", options.channel, channels);
  const SeriesNotes* notes = forecaster_ ? forecaster_->notes() : nullptr;
  const Scaler scaler = notes != nullptr ? notes->scaler : Scaler::none(channels);
  const Inference inference(ctx);
  std::vector<float> past;
  for (std::int64_t row = rows - c.context; row < rows; ++row)
    for (std::int64_t i = 0; i < channels; ++i) past.push_back(scaled_value(table, row, i, scaler));
  const PatchTST& network = model.network();
  StackTrace trace{.inner = true};
  const ScaledSeries scaled = scale_series(ctx, Tensor::from<float>(ctx, {1, c.context, channels}, past), {}, c.scaling);
  static_cast<void>(network.encode(ctx, scaled.values, &trace));

  SeenSeries& seen = out.series;
  seen = {.channels = table.channels, .channel = options.channel};
  for (std::int64_t row = rows - c.context; row < rows; ++row) seen.history.push_back(table.at(row, options.channel));
  const std::int64_t first = c.context - (c.patch + c.stride * (c.patches() - 1));  // whole patches end with the last value
  for (std::int64_t i = 0; i < c.patches(); ++i) seen.patches.emplace_back(first + i * c.stride, first + i * c.stride + c.patch);
  if (forecaster_) {
    const SeriesTable next = forecaster_->forecast(ctx, table).point;
    const auto target = std::find(next.channels.begin(), next.channels.end(), table.channels[static_cast<std::size_t>(options.channel)]);
    for (std::int64_t row = 0; target != next.channels.end() && row < next.rows(); ++row)
      seen.forecast.push_back(next.at(row, target - next.channels.begin()));
  }

  SeenSide side{.name = "patches"};
  if (c.cls_token) side.tokens.push_back({.token = "[CLS]", .text = "[CLS]", .special = true});
  for (const auto& [begin, end] : seen.patches) {
    const std::string place = fmt::format("{} … {}", begin + 1 - c.context, end - c.context);  // rows before the forecast, the last one 0
    side.tokens.push_back({.token = place, .text = place});
  }
  out.sides = {std::move(side)};
  SeenStack stack = seen_stack(ctx, "stack", "patches", network.stack.config, trace);
  Context host({.device = Device::cpu(), .threads = 1});
  for (auto* tensors : {&stack.hidden, &stack.feed_forwards, &stack.projections})
    for (Tensor& x : *tensors) x = rows_of(host, x, options.channel, network.tokens());
  split_vectors(stack, on_host(ctx, network.positions.tensor));
  out.stacks = {std::move(stack)};
  out.attentions = {seen_attention(ctx, "self", "patches", "patches", false, trace.attentions)};
  out.attentions.front().sample = options.channel;
  return out;
}

}  // namespace transformer
