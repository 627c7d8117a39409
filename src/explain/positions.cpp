#include "transformer/explain/positions.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "explain/svg.h"
#include "models/shared/purpose.h"
#include "transformer/models/encoder_decoder_model.h"
#include "transformer/models/patchtst.h"
#include "transformer/models/text.h"
#include "transformer/models/vit.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

constexpr double chart_width = 640.0;

PositionTable table_of(std::string kind, std::string columns, const Tensor& values) {
  return {.kind = std::move(kind),
          .columns = std::move(columns),
          .rows = values.rows(),
          .count = values.cols(),
          .values = values.to_host().to_vector<float>()};
}

// The first rows of a table, from `offset` on.
PositionTable rows_of_table(Context& ctx, const Tensor& table, std::int64_t offset, std::int64_t positions) {
  const std::int64_t rows = std::min(positions, table.dim(0) - offset);
  return table_of("learned", "dimension", cast(ctx, table.detach().row_block(offset, rows), DType::float32));
}

// Positions that act inside attention.
PositionTable in_attention(Context& ctx, const Stack& stack, std::int64_t positions) {
  if (const auto rope = stack.positions.rope(ctx, positions)) {
    Tensor cos = cast(ctx, rope->cos, DType::float32);
    return table_of("rotary", "pair of dimensions", cos.row_block(0, std::min(positions, cos.dim(0))));
  }
  const Tensor bias = stack.positions.bias(ctx, positions);  // [heads, 2·positions − 1]
  if (!bias.defined()) fail("explain", "the model has no positions: it does not know the order of its tokens");
  const std::vector<float> values = bias.to_host().to_vector<float>();
  PositionTable out{.kind = stack.config.positions == PositionKind::alibi ? "alibi" : "relative",
                    .columns = "head",
                    .rows = positions,
                    .count = bias.dim(0)};
  for (std::int64_t distance = 0; distance < positions; ++distance)
    for (std::int64_t head = 0; head < out.count; ++head)
      out.values.push_back(values[static_cast<std::size_t>(head * bias.cols() + positions - 1 - distance)]);
  return out;
}

void check_table(const PositionTable& t) {
  if (t.rows < 2 || t.count < 1 || std::ssize(t.values) != t.rows * t.count)
    fail("positions", "a table of {} x {} with {} values cannot be drawn", t.rows, t.count, t.values.size());
  for (const float v : t.values)
    if (!std::isfinite(v)) fail("positions", "{} cannot be drawn", v);
}

std::string rows_name(const PositionTable& t) { return t.kind == "relative" || t.kind == "alibi" ? "distance" : "position"; }

// Marks of an axis from 0 to count - 1: at most so many, at round steps.
std::vector<std::int64_t> marks(std::int64_t count, std::int64_t most) {
  std::int64_t step = 1;
  for (const std::int64_t by : {2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000, 10000})
    if ((count - 1) / step > most) step = by;
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < count; i += step) out.push_back(i);
  return out;
}

}  // namespace

PositionTable sinusoidal_positions(Context& ctx, std::int64_t positions, std::int64_t d) {
  return table_of("sinusoidal", "dimension", sinusoidal_table(ctx, positions, d));
}

PositionTable positions_of(Context& ctx, const Model& model, std::int64_t positions) {
  const NoGradients no_gradients(ctx);
  if (positions < 2) fail("positions", "{} positions: expected 2 or more", positions);
  if (const auto* text = dynamic_cast<const TextModel*>(&model)) {
    const TextEmbedder& e = text->embedder();
    if (e.positions) return rows_of_table(ctx, e.positions->weight.tensor, e.offset, positions);
    if (!text->text().falcon_alibi) return in_attention(ctx, Stack(text->text().stack), positions);
    StackConfig alibi = text->text().stack;
    alibi.positions = PositionKind::alibi;
    return in_attention(ctx, Stack(alibi), positions);
  }
  if (const auto* pair = dynamic_cast<const EncoderDecoderModel*>(&model)) {
    const EmbeddedStack& side = pair->network.encoder;
    const PositionKind kind = side.positions.kind;
    if (kind == PositionKind::learned) return rows_of_table(ctx, side.positions.table.tensor, side.positions.offset, positions);
    if (kind == PositionKind::sinusoidal || kind == PositionKind::sinusoidal_halves || side.token_positions) {
      const std::int64_t d = side.stack.config.d_model, rows = std::min(positions, side.max_length());
      return table_of("sinusoidal", "dimension", sinusoidal_table(ctx, rows, d, kind != PositionKind::sinusoidal));
    }
    return in_attention(ctx, side.stack, positions);
  }
  if (const Vit* vit = vit_of(model)) return rows_of_table(ctx, vit->positions.tensor, 0, positions);
  if (const auto* series = dynamic_cast<const PatchTSTModel*>(&model))
    return rows_of_table(ctx, series->network().positions.tensor, 0, positions);
  fail("explain", "{} has no positions that can be shown", architecture_of(model));
}

std::string positions_svg(const PositionTable& t, Theme theme) {
  using namespace svg;
  check_table(t);
  const double cell_width = std::clamp(chart_width / static_cast<double>(t.count), 1.0, 24.0),
               cell_height = std::clamp(420.0 / static_cast<double>(t.rows), 1.0, 24.0);
  const Text row_title = label_of(rows_name(t) + " ↓"), column_title = label_of(t.columns + " →");
  const double left = margin + std::max(row_title.width, 6 * column) + gap, top = margin + 2 * (font + gap);
  const double width = cell_width * static_cast<double>(t.count), height = cell_height * static_cast<double>(t.rows);
  Drawing d;
  d.text(left - gap, margin + font, row_title, "soft", "end");
  d.text(left + gap, margin + font, column_title, "soft", "start");
  for (const std::int64_t i : marks(t.count, static_cast<std::int64_t>(width / 60)))
    d.text(left + cell_width * (static_cast<double>(i) + 0.5), top - gap, label_of(std::to_string(i)), "soft", "middle");
  for (const std::int64_t i : marks(t.rows, static_cast<std::int64_t>(height / 30)))
    d.text(left - gap, top + cell_height * (static_cast<double>(i) + 0.5) + font * 0.35, label_of(std::to_string(i)), "soft", "end");
  // Cells of one shade are one path: 20 shades on each side of 0.
  constexpr int shades = 20;
  double greatest = 0.0;
  for (const float v : t.values) greatest = std::max(greatest, std::abs(static_cast<double>(v)));
  std::array<std::array<std::string, shades + 1>, 2> paths;
  for (std::int64_t row = 0; row < t.rows; ++row)
    for (std::int64_t i = 0; i < t.count; ++i) {
      const double value = greatest > 0.0 ? static_cast<double>(t.at(row, i)) / greatest : 0.0;
      const auto shade = static_cast<std::size_t>(std::lround(std::abs(value) * shades));
      fmt::format_to(std::back_inserter(paths[value < 0.0 ? 1 : 0][shade]), "M{:.2f} {:.2f}h{:.2f}v{:.2f}h-{:.2f}z",
                     left + cell_width * static_cast<double>(i), top + cell_height * static_cast<double>(row), cell_width, cell_height,
                     cell_width);
    }
  for (std::size_t side = 0; side < 2; ++side)
    for (std::size_t shade = 1; shade <= shades; ++shade)
      if (!paths[side][shade].empty())
        d.add("<path class=\"{}\" fill-opacity=\"{:.2f}\" shape-rendering=\"crispEdges\" d=\"{}\"/>\n", side == 0 ? "cell" : "cold",
              static_cast<double>(shade) / shades, paths[side][shade]);
  d.add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="grid"/>)"
        "\n",
        left, top, width, height);
  // The scale: from the least to the greatest.
  const double scale_top = top + height + 2 * gap, step = 9.0;
  const Text least = label_of(fmt::format("{:.3g}", -greatest)), most = label_of(fmt::format("{:.3g}", greatest));
  d.text(left, scale_top + font - 3, least, "soft", "start");
  const double scale_left = left + least.width + gap;
  for (int i = -10; i <= 10; ++i)
    d.add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="12" class="{}" fill-opacity="{:.1f}"/>)"
          "\n",
          scale_left + step * (i + 10), scale_top, step, i < 0 ? "cold" : "cell", 0.1 * std::abs(i));
  d.text(scale_left + 21 * step + gap, scale_top + font - 3, most, "soft", "start");
  const Text title = label_of(fmt::format("positions: {}", t.kind));
  d.text(margin, scale_top + 2 * (font + gap), title, "ink", "start");
  return d.document(std::max({left + width, scale_left + 21 * step + gap + most.width, left + column_title.width}) + margin,
                    scale_top + 2 * (font + gap) + margin, title, theme);
}

std::string waves_svg(const PositionTable& t, std::vector<std::int64_t> columns, Theme theme) {
  using namespace svg;
  constexpr std::size_t most = 4;  // colours
  check_table(t);
  if (columns.empty()) columns = {0, t.count / 12, t.count * 2 / 5, t.count * 4 / 5};
  std::erase_if(columns, [&](std::int64_t c) { return c < 0 || c >= t.count; });
  std::sort(columns.begin(), columns.end());
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  if (columns.empty() || columns.size() > most) fail("positions", "{} curves cannot be drawn: expected 1 to {}", columns.size(), most);
  double low = INFINITY, high = -INFINITY;
  for (const std::int64_t c : columns)
    for (std::int64_t row = 0; row < t.rows; ++row)
      low = std::min(low, static_cast<double>(t.at(row, c))), high = std::max(high, static_cast<double>(t.at(row, c)));
  if (high - low < 1e-9) low -= 1.0, high += 1.0;
  const double height = 240.0, left = margin + 8 * column + gap, top = margin + font + 2 * gap, bottom = top + height;
  Drawing d;
  double at = left;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const Text label = label_of(fmt::format("{} {}", t.columns, columns[i]));
    d.add(R"(<line x1="{0:.1f}" y1="{2:.1f}" x2="{1:.1f}" y2="{2:.1f}" stroke-width="2" class="wave{3}"/>)"
          "\n",
          at, at + 20, margin + font * 0.65, i);
    d.text(at + 26, margin + font, label, "soft", "start");
    at += 26 + label.width + 2 * gap;
  }
  d.add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="grid"/>)"
        "\n",
        left, top, chart_width, height);
  const auto y = [&](double value) { return bottom - height * (value - low) / (high - low) * 0.92 - height * 0.04; };
  for (const double value : {low, (low + high) / 2, high}) {
    d.text(left - gap, y(value) + font * 0.35, label_of(fmt::format("{:.3g}", std::abs(value) < 1e-3 * (high - low) ? 0.0 : value)), "soft",
           "end");
    d.add(R"(<line x1="{0:.1f}" y1="{2:.1f}" x2="{1:.1f}" y2="{2:.1f}" class="grid"/>)"
          "\n",
          left, left + chart_width, y(value));
  }
  const auto x = [&](std::int64_t row) { return left + chart_width * static_cast<double>(row) / static_cast<double>(t.rows - 1); };
  for (const std::int64_t row : marks(t.rows, 10)) d.text(x(row), bottom + font + 4, label_of(std::to_string(row)), "soft", "middle");
  for (std::size_t i = 0; i < columns.size(); ++i) {
    std::string points;
    for (std::int64_t row = 0; row < t.rows; ++row)
      fmt::format_to(std::back_inserter(points), "{}{:.1f},{:.1f}", row == 0 ? "" : " ", x(row),
                     y(static_cast<double>(t.at(row, columns[i]))));
    d.add("<polyline class=\"wave{}\" points=\"{}\"/>\n", i, points);
  }
  const Text title = label_of(fmt::format("{} positions over the {}", t.kind, rows_name(t)));
  d.text(margin, bottom + 3 * font + gap, title, "ink", "start");
  return d.document(std::max(left + chart_width, at) + margin + 2 * column, bottom + 3 * font + gap + margin, title, theme);
}

}  // namespace transformer
