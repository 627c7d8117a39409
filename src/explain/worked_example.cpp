#include "transformer/explain/worked_example.h"

#include <algorithm>
#include <cmath>

#include "explain/svg.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

constexpr std::int64_t shown_tokens = 8, shown_dimensions = 5;
constexpr double number_width = 54.0, number_height = 22.0;

std::size_t place(std::int64_t i) { return static_cast<std::size_t>(i); }

// A matrix with the labels of its rows, and what of it is left out.
struct Matrix {
  std::string title;
  std::int64_t rows, columns;
  const std::vector<float>& values;
  bool weights = false;                      // coloured by its values
  const WorkedExample* masked_as = nullptr;  // where that has no weight, the value does not count
};

double draw_matrix(svg::Drawing& d, const Matrix& m, const std::vector<svg::Text>& labels, double left, double top) {
  using namespace svg;
  const std::int64_t rows = std::min(m.rows, shown_tokens),
                     columns = std::min(m.columns, m.columns == m.rows ? shown_tokens : shown_dimensions);
  double widest = 0.0;
  for (std::int64_t i = 0; i < rows; ++i) widest = std::max(widest, labels[place(i)].width);
  const Text title = label_of(fmt::format("{} · {} × {}", m.title, m.rows, m.columns), longest_caption);
  d.text(left, top + font, title, "ink", "start");
  const double x0 = left + widest + gap, y0 = top + font + gap;
  for (std::int64_t i = 0; i < rows; ++i) {
    const double y = y0 + number_height * static_cast<double>(i), baseline = y + number_height / 2 + font * 0.35;
    d.text(x0 - gap, baseline, labels[place(i)], "soft", "end");
    for (std::int64_t j = 0; j < columns; ++j) {
      const float value = m.values[place(i * m.columns + j)];
      const bool hidden = m.masked_as != nullptr && !m.masked_as->looks(i, j);
      const double x = x0 + number_width * static_cast<double>(j);
      if (m.weights)
        d.add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="cell" fill-opacity="{:.3f}"/>)"
              "\n",
              x, y, number_width, number_height, value);
      const bool onto = m.weights && value > 0.55F;
      d.text(x + number_width / 2, baseline - 1, label_of(hidden ? "−∞" : fmt::format("{:.2f}", value)),
             onto         ? "onto"
                 : hidden ? "soft"
                          : "ink",
             "middle", " style=\"font-size:12px\"");
    }
    if (columns < m.columns) d.text(x0 + number_width * static_cast<double>(columns) + gap / 2, baseline, label_of("…"), "soft", "start");
  }
  const double width = number_width * static_cast<double>(columns), height = number_height * static_cast<double>(rows);
  d.add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="grid"/>)"
        "\n",
        x0, y0, width, height);
  if (rows < m.rows) d.text(x0 + width / 2, y0 + height + font, label_of("⋮"), "soft", "middle");
  return std::max(x0 + width + (columns < m.columns ? 2 * gap : 0.0), left + title.width);
}

}  // namespace

WorkedExample worked_example(const Explanation& seen, std::int64_t head, std::string_view stack_name) {
  const SeenStack& stack = seen.stack(stack_name);
  const StackConfig& c = stack.config;
  if (stack.projections.empty()) fail("explain", "the stack has no layer");
  if (head < 0 || head >= c.heads) fail("explain", "there is no head {}: the model has {}, from 0", head, c.heads);
  const Tensor& qkv = stack.projections.front();
  const std::int64_t n = qkv.rows(), d = c.head_dim, keys = c.heads * d, group = head / (c.heads / c.kv_heads);
  WorkedExample e{.tokens = n, .head_dim = d, .masked = c.causal, .biased = stack.bias.defined() || stack.relative_bias.defined()};
  for (const SeenToken& token : seen.side(stack.side).tokens) e.labels.push_back(token.text);
  e.scale = c.attention_scale != 0.0F ? static_cast<double>(c.attention_scale) : 1.0 / std::sqrt(static_cast<double>(d));
  const auto block = [&](std::int64_t begin) { return qkv.column_block(begin, d).to_vector<float>(); };
  e.q = block(head * d), e.k = block(keys + group * d), e.v = block(keys + (c.kv_heads + group) * d);

  // What is added to the score of a pair: by key (and query), by distance.
  const std::int64_t longest = stack.relative_bias.defined() ? (stack.relative_bias.cols() + 1) / 2 : 0;
  const auto bias = [&](std::int64_t i, std::int64_t j) {
    double sum = 0.0;
    if (const Tensor& b = stack.bias; b.defined()) {
      const std::int64_t h = b.dim(1) > 1 ? head : 0, row = b.dim(2) > 1 ? i : 0, column = b.dim(3) > 1 ? j : 0;
      sum += static_cast<double>(b.data<float>()[(h * b.dim(2) + row) * b.dim(3) + column]);
    }
    if (longest > 0) sum += static_cast<double>(stack.relative_bias.data<float>()[head * (2 * longest - 1) + j - i + longest - 1]);
    return sum;
  };
  const std::int64_t window = c.windows.empty() ? c.window : c.windows.front();
  const auto may_look = [&](std::int64_t i, std::int64_t j) { return (!c.causal || j <= i) && (window == 0 || std::abs(i - j) < window); };

  e.output.resize(place(n * d));
  for (std::int64_t i = 0; i < n; ++i) {
    std::vector<double> row(place(n));
    double largest = -INFINITY, sum = 0.0;
    for (std::int64_t j = 0; j < n; ++j) {
      double score = 0.0;
      for (std::int64_t k = 0; k < d; ++k) score += static_cast<double>(e.q[place(i * d + k)]) * static_cast<double>(e.k[place(j * d + k)]);
      row[place(j)] = score * e.scale + bias(i, j);
      e.scores.push_back(static_cast<float>(score)), e.scaled.push_back(static_cast<float>(row[place(j)]));
      if (may_look(i, j)) largest = std::max(largest, row[place(j)]);
    }
    for (std::int64_t j = 0; j < n; ++j) sum += row[place(j)] = may_look(i, j) ? std::exp(row[place(j)] - largest) : 0.0;
    for (std::int64_t j = 0; j < n; ++j) {
      const auto weight = static_cast<float>(row[place(j)] / sum);
      e.weights.push_back(weight);
      for (std::int64_t k = 0; k < d; ++k) e.output[place(i * d + k)] += weight * e.v[place(j * d + k)];
    }
  }
  return e;
}

std::string example_svg(const WorkedExample& e, Theme theme) {
  using namespace svg;
  if (e.tokens < 1 || std::ssize(e.labels) != e.tokens) fail("example_svg", "{} labels for {} tokens", e.labels.size(), e.tokens);
  std::vector<Text> labels;
  for (const std::string& text : e.labels) labels.push_back(label_of(text, 12));
  const std::string scaled = fmt::format("scores · {:.4g}{}{}", e.scale, e.biased ? " + bias" : "", e.masked ? ", masked" : "");
  const std::vector<std::vector<Matrix>> lines = {
      {{"Q", e.tokens, e.head_dim, e.q}, {"K", e.tokens, e.head_dim, e.k}},
      {{"V", e.tokens, e.head_dim, e.v}, {"scores = Q Kᵀ", e.tokens, e.tokens, e.scores}},
      {{scaled, e.tokens, e.tokens, e.scaled, false, &e}, {"weights = softmax", e.tokens, e.tokens, e.weights, true}},
      {{"output = weights V", e.tokens, e.head_dim, e.output}}};
  Drawing d;
  double top = margin, width = 0.0;
  const double height = number_height * static_cast<double>(std::min(e.tokens, shown_tokens)) + 3 * font + 2 * gap;
  for (const auto& line : lines) {
    double left = margin;
    for (const Matrix& m : line) left = draw_matrix(d, m, labels, left, top) + 3 * gap;
    width = std::max(width, left - 3 * gap);
    top += height;
  }
  return d.document(width + margin, top + margin - font, label_of("one head of attention, step by step"), theme);
}

}  // namespace transformer
