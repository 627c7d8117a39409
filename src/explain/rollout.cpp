#include "transformer/explain/rollout.h"

#include <algorithm>
#include <cmath>

#include "explain/svg.h"
#include "explain/windows.h"
#include "io/shared/base64.h"
#include "models/shared/purpose.h"
#include "transformer/autograd/autograd.h"
#include "transformer/core/error.h"
#include "transformer/models/vit.h"

namespace transformer {
namespace {

constexpr const char* where = "rollout";
constexpr std::int64_t shown = 336;  // pixels of the longer side of a small image, at least
constexpr std::uint8_t colour[] = {255, 106, 0};
constexpr float strongest = 0.8F;  // opacity

// Row i of a layer: the mean of the heads, and half of the token itself, so that it sums to 1.
std::vector<double> with_residual(const Tensor& given, std::int64_t sample) {
  const Tensor attention = given.to_host();
  const std::int64_t heads = attention.dim(1), n = attention.dim(2);
  const float* from = attention.data<float>() + sample * heads * n * n;
  std::vector<double> out(static_cast<std::size_t>(n * n));
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += static_cast<double>(from[static_cast<std::size_t>(head * n * n) + i]);
  for (std::int64_t row = 0; row < n; ++row) {
    double* values = out.data() + row * n;
    double sum = 0.0;
    for (std::int64_t i = 0; i < n; ++i) values[i] = 0.5 * values[i] / static_cast<double>(heads) + (i == row ? 0.5 : 0.0);
    for (std::int64_t i = 0; i < n; ++i) sum += values[i];
    for (std::int64_t i = 0; i < n; ++i) values[i] /= sum;
  }
  return out;
}

// Of values from 0 to the greatest, as shares of that.
std::vector<float> shares(const Rollout& r) {
  if (r.rows < 1 || r.columns < 1 || r.values.size() != static_cast<std::size_t>(r.rows * r.columns))
    fail(where, "{} values for {} x {} patches", r.values.size(), r.rows, r.columns);
  const float greatest = *std::max_element(r.values.begin(), r.values.end());
  std::vector<float> out(r.values);
  for (float& v : out) v = greatest > 0.0F ? v / greatest : 0.0F;
  return out;
}

// Small images are enlarged by a whole number.
Image enlarged(const Image& image) {
  const std::int64_t by = std::max<std::int64_t>(1, shown / std::max(image.height, image.width));
  return resize(with_channels(image, 3), image.height * by, image.width * by, Resample::nearest);
}

}  // namespace

std::vector<float> attention_rollout(const std::vector<Tensor>& attentions, std::int64_t sample) {
  if (attentions.empty()) fail(where, "no attention is given: expected that of one layer or more");
  const Shape& shape = attentions.front().shape();
  for (const Tensor& a : attentions)
    if (a.shape() != shape || a.rank() != 4 || a.dim(2) != a.dim(3) || a.dim(2) == 0 || a.dim(1) == 0)
      fail(where, "attention {}: expected [samples, heads, tokens, tokens], the same in all layers", a.shape());
  if (sample < 0 || sample >= shape[0]) fail(where, "there is no sample {}: the attentions are of {}", sample, shape[0]);
  const auto n = static_cast<std::size_t>(shape[2]);
  std::vector<double> product = with_residual(attentions.front(), sample);
  for (std::size_t layer = 1; layer < attentions.size(); ++layer) {
    const std::vector<double> next = with_residual(attentions[layer], sample);
    std::vector<double> sum(n * n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = 0; k < n; ++k)
        for (std::size_t j = 0; j < n; ++j) sum[i * n + j] += next[i * n + k] * product[k * n + j];
    product = std::move(sum);
  }
  return {product.begin(), product.end()};
}

Rollout image_rollout(Context& ctx, const Model& model, const Tensor& pixel_values) {
  const NoGradients no_gradients(ctx);
  if (const Swin* swin = swin_of(model)) {
    const std::vector<SeenStage> stages = seen_stages(ctx, *swin, pixel_values);
    const Grid& grid = stages.front().grid;
    const std::vector<float> all = window_rollout(stages);
    return {grid.height, grid.width, {all.begin(), all.begin() + grid.tokens()}};
  }
  const Vit* vit = vit_of(model);
  if (vit == nullptr) fail(where, "{} has no patches of an image: expected a ViT, DeiT or Swin model", architecture_of(model));
  const NamedTensors out = model.run(ctx, {{"pixel_values", pixel_values}}, {.attentions = true});
  std::vector<Tensor> attentions;
  for (std::size_t i = 0; out.contains(fmt::format("attentions.{}", i)); ++i) attentions.push_back(out.at(fmt::format("attentions.{}", i)));
  const std::vector<float> all = attention_rollout(attentions);
  const VitConfig& c = vit->config;
  const std::int64_t extra = c.distillation ? 2 : 1, tokens = attentions.front().dim(3);
  Rollout rollout{.rows = c.height / c.patches.height, .columns = c.width / c.patches.width};
  rollout.values.assign(all.begin() + extra, all.begin() + tokens);
  return rollout;
}

Image rollout_picture(const Image& image, const Rollout& rollout) {
  Image map{.height = rollout.rows, .width = rollout.columns, .channels = 1};
  for (const float share : shares(rollout)) map.pixels.push_back(static_cast<std::uint8_t>(std::lround(share * 255.0F)));
  Image out = enlarged(image);
  map = resize(map, out.height, out.width, Resample::bilinear);
  for (std::size_t i = 0; i < out.pixels.size(); ++i) {
    const float opacity = strongest * static_cast<float>(map.pixels[i / 3]) / 255.0F;
    out.pixels[i] = static_cast<std::uint8_t>(
        std::lround((1.0F - opacity) * static_cast<float>(out.pixels[i]) + opacity * static_cast<float>(colour[i % 3])));
  }
  return out;
}

std::string rollout_svg(const Image& image, const Rollout& rollout, const std::string& caption, Theme theme) {
  const std::vector<float> opacities = shares(rollout);
  const Image large = enlarged(image);
  const auto width = static_cast<double>(large.width), height = static_cast<double>(large.height);
  const double x = svg::margin, y = svg::margin;
  svg::Drawing d;
  d.add(R"(<image x="{:.1f}" y="{:.1f}" width="{:.0f}" height="{:.0f}" href="data:image/png;base64,{}"/>)"
        "\n",
        x, y, width, height, to_base64(encode_png(large)));
  const double cell_width = width / static_cast<double>(rollout.columns), cell_height = height / static_cast<double>(rollout.rows);
  for (std::size_t i = 0; i < opacities.size(); ++i) {
    const auto row = i / static_cast<std::size_t>(rollout.columns), column = i % static_cast<std::size_t>(rollout.columns);
    d.add(R"(<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" fill="#{:02x}{:02x}{:02x}" fill-opacity="{:.3f}">)",
          x + cell_width * static_cast<double>(column), y + cell_height * static_cast<double>(row), cell_width, cell_height, colour[0],
          colour[1], colour[2], strongest * opacities[i]);
    d.add("<title>row {}, column {}: {:.4g}</title></rect>\n", row + 1, column + 1, rollout.values[i]);
  }
  const svg::Text label = svg::label_of(caption, svg::longest_caption), title = svg::label_of(caption.empty() ? "attention" : caption);
  const double text_height = caption.empty() ? 0.0 : svg::font + svg::gap;
  if (!caption.empty()) d.text(x, y + height + text_height, label, "ink", "start");
  return d.document(std::max(width, label.width) + 2 * svg::margin, height + text_height + 2 * svg::margin, title, theme);
}

}  // namespace transformer
