// Explanations as JSON, and requests for them: docs/explain.md has the shapes.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "io/shared/base64.h"
#include "transformer/core/error.h"
#include "transformer/explain/explainer.h"
#include "transformer/explain/worked_example.h"

namespace transformer {
namespace {

using nlohmann::json;

constexpr int shape_version = 1;  // goes up when a reader of the last one would be misled

// Six digits are more than can be seen, and half the bytes.
double digits(double value) {
  if (value == 0.0 || !std::isfinite(value)) return 0.0;
  const double power = std::pow(10.0, 5.0 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(power) ? std::round(value * power) / power : value;
}
// Weights are shares of 1: six decimals.
double share(float value) { return std::round(static_cast<double>(value) * 1e6) / 1e6; }

json array_of(
    std::span<const float> values, double (*round)(float) = [](float v) { return digits(static_cast<double>(v)); }) {
  json out = json::array();
  for (const float v : values) out.push_back(round(v));
  return out;
}

json matrix_json(std::int64_t rows, std::int64_t columns, std::span<const float> values, double (*round)(float) = share) {
  return {{"rows", rows}, {"columns", columns}, {"values", array_of(values, round)}};
}

// Rows of a matrix, the first `columns` numbers of each.
json rows_json(const Tensor& x, std::int64_t columns) {
  if (!x.defined()) return nullptr;
  json out = json::array();
  const std::int64_t shown = std::min(columns, x.cols());
  for (std::int64_t i = 0; i < x.rows(); ++i) out.push_back(array_of({x.data<float>() + i * x.cols(), static_cast<std::size_t>(shown)}));
  return out;
}

json norms_json(const Tensor& x) {
  json out = json::array();
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    double sum = 0.0;
    for (std::int64_t j = 0; j < x.cols(); ++j) sum += std::pow(static_cast<double>(x.data<float>()[i * x.cols() + j]), 2);
    out.push_back(digits(std::sqrt(sum)));
  }
  return out;
}

// What an FFN did: of each token the share of its neurons that are above 0, their strength √(mean a²), and the strongest ones.
json activity_json(const Tensor& x) {
  constexpr std::ptrdiff_t strongest = 3;
  json active = json::array(), strength = json::array(), most = json::array();
  const std::int64_t d = x.cols();
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    const float* row = x.data<float>() + i * d;
    double sum = 0.0;
    std::vector<std::int64_t> order;
    for (std::int64_t j = 0; j < d; ++j) sum += std::pow(static_cast<double>(row[j]), 2), order.push_back(j);
    const auto count = std::min<std::ptrdiff_t>(strongest, d);
    std::partial_sort(order.begin(), order.begin() + count, order.end(),
                      [&](std::int64_t a, std::int64_t b) { return std::abs(row[a]) > std::abs(row[b]); });
    json best = json::array();
    for (std::ptrdiff_t k = 0; k < count; ++k) {
      const std::int64_t neuron = order[static_cast<std::size_t>(k)];
      best.push_back({neuron, digits(static_cast<double>(row[neuron]))});
    }
    active.push_back(digits(static_cast<double>(std::count_if(row, row + d, [](float v) { return v > 0.0F; })) / static_cast<double>(d)));
    strength.push_back(digits(std::sqrt(sum / static_cast<double>(d))));
    most.push_back(std::move(best));
  }
  return {{"active", active}, {"strength", strength}, {"strongest", most}};
}

template <class Enum>
std::string name_in(Enum value) {
  for (const auto& [each, name] : names(value))
    if (each == value) return std::string(name);
  return {};
}

json stack_json(const SeenStack& stack, std::int64_t dimensions) {
  const StackConfig& c = stack.config;
  json norms = json::array(), activity = json::array();
  for (const Tensor& x : stack.hidden) norms.push_back(norms_json(x));
  for (const Tensor& x : stack.feed_forwards) activity.push_back(activity_json(x));
  const Tensor sum = stack.hidden.empty() ? Tensor() : stack.hidden.front();
  return {{"name", stack.name},
          {"side", stack.side},
          {"layers", c.layers},
          {"heads", c.heads},
          {"kv_heads", c.kv_heads},
          {"head_dim", c.head_dim},
          {"d_model", c.d_model},
          {"d_ff", c.d_ff},
          {"positions", stack.positions.defined() && c.positions == PositionKind::none ? "learned" : name_in(c.positions)},
          {"norm_place", name_in(c.norm_place)},
          {"feed_forward", name_in(c.feed_forward)},
          {"causal", c.causal},
          {"vectors",
           {{"shown", std::min(dimensions, c.d_model)},
            {"tokens", rows_json(stack.tokens, dimensions)},
            {"positions", rows_json(stack.positions, dimensions)},
            {"sum", rows_json(sum, dimensions)}}},
          {"norms", norms},
          {"activity", activity}};
}

// At most `most` rows and columns; each is the greatest of those that it stands for, so that what is strong stays seen.
json thumbnail(std::int64_t rows, std::int64_t columns, std::span<const float> values, std::int64_t most) {
  const std::int64_t small_rows = std::min(rows, most), small_columns = std::min(columns, most);
  std::vector<float> small(static_cast<std::size_t>(small_rows * small_columns));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      float& to = small[static_cast<std::size_t>(i * small_rows / rows * small_columns + j * small_columns / columns)];
      to = std::max(to, values[static_cast<std::size_t>(i * columns + j)]);
    }
  return matrix_json(small_rows, small_columns, small, [](float v) { return std::round(static_cast<double>(v) * 1e3) / 1e3; });
}

json example_json(const WorkedExample& e) {
  const auto number = [](float v) { return digits(static_cast<double>(v)); };
  const auto vectors = [&](const std::vector<float>& values) { return matrix_json(e.tokens, e.head_dim, values, number); };
  const auto pairs = [&](const std::vector<float>& values) { return matrix_json(e.tokens, e.tokens, values, number); };
  return {{"scale", digits(e.scale)},    {"masked", e.masked},         {"biased", e.biased},        {"q", vectors(e.q)},
          {"k", vectors(e.k)},           {"v", vectors(e.v)},          {"scores", pairs(e.scores)}, {"scaled", pairs(e.scaled)},
          {"weights", pairs(e.weights)}, {"output", vectors(e.output)}};
}

json predictions_json(const Explanation& seen) {
  json out = json::array();
  for (const SeenPrediction& p : seen.predictions) {
    json choices = json::array();
    for (const SeenChoice& c : p.choices)
      choices.push_back({{"id", c.id}, {"text", c.text}, {"logit", digits(c.logit)}, {"probability", digits(c.probability)}});
    out.push_back({{"side", p.side}, {"position", p.position}, {"choices", choices}});
  }
  return out;
}

void add_maps(json& out, const Explanation& seen, const JsonView& view) {
  const SeenAttention& a = seen.attention(view.map.attention);
  const std::int64_t layer = view.map.layer < 0 ? std::ssize(a.layers) - 1 : view.map.layer;
  const std::vector<float> values = seen.map(view.map);
  const std::int64_t rows = a.layers.front().dim(2), columns = a.layers.front().dim(3);
  out["map"] = matrix_json(rows, columns, values);
  out["map"].update({{"attention", a.name}, {"layer", layer}, {"head", view.map.head}});
  if (view.thumbnails > 0) {
    out["heads"] = json::array();
    for (std::int64_t head = 0; head < a.heads(); ++head)
      out["heads"].push_back(thumbnail(rows, columns, seen.map({.attention = a.name, .layer = layer, .head = head}), view.thumbnails));
  }
  if (view.rollout && seen.has_rollout(a.name)) {
    const SeenMap rolled = seen.rollout(a.name);
    out["rollout"] = matrix_json(std::ssize(seen.side(rolled.rows).tokens), std::ssize(seen.side(rolled.columns).tokens), rolled.values);
    out["rollout"].update({{"from", rolled.rows}, {"to", rolled.columns}});
  }
  if (view.example && !seen.stacks.empty()) {
    const std::string stack = a.name == "decoder" || a.name == "cross" ? "decoder" : seen.stacks.front().name;
    out["example"] = example_json(worked_example(seen, std::max<std::int64_t>(view.map.head, 0), stack));
  }
}

}  // namespace

json to_json(const Explanation& seen, const JsonView& view) {
  json out{{"version", shape_version}, {"kind", seen.kind}};
  add_maps(out, seen, view);
  if (view.map_only) return out;
  out.update({{"architecture", seen.architecture}, {"purpose", seen.purpose}, {"vocabulary", seen.vocabulary}});
  out["sides"] = json::array(), out["stacks"] = json::array(), out["attentions"] = json::array();
  for (const SeenSide& side : seen.sides) {
    json tokens = json::array();
    for (const SeenToken& t : side.tokens) tokens.push_back({{"id", t.id}, {"token", t.token}, {"text", t.text}, {"special", t.special}});
    out["sides"].push_back({{"name", side.name}, {"tokens", tokens}});
    if (side.rows > 0) out["sides"].back()["grid"] = {{"rows", side.rows}, {"columns", side.columns}, {"first", side.first}};
  }
  for (const SeenStack& stack : seen.stacks) out["stacks"].push_back(stack_json(stack, view.dimensions));
  for (const SeenAttention& a : seen.attentions)
    out["attentions"].push_back({{"name", a.name},
                                 {"rows", a.rows},
                                 {"columns", a.columns},
                                 {"masked", a.masked},
                                 {"layers", a.layers.size()},
                                 {"heads", a.heads()}});
  out["predictions"] = predictions_json(seen);
  if (seen.kind == "text") {
    out["text"] = seen.text;
  } else if (seen.kind == "translation") {
    json alternatives = json::array();
    for (const SeenAlternative& a : seen.alternatives) alternatives.push_back({{"text", a.text}, {"score", digits(a.score)}});
    out["translation"] = {{"text", seen.text}, {"alternatives", alternatives}};
  } else if (seen.kind == "image") {
    const SeenSide& side = seen.sides.front();
    out["image"] = {{"png", to_base64(seen.image)}, {"rows", side.rows}, {"columns", side.columns}, {"first", side.first}};
  } else if (seen.kind == "series") {
    out["series"] = {{"channels", seen.series.channels},
                     {"channel", seen.series.channel},
                     {"history", seen.series.history},
                     {"forecast", seen.series.forecast},
                     {"patches", seen.series.patches}};
  }
  return out;
}

namespace {

// What a request may hold; the model's name is the server's to read.
const std::set<std::string> request_keys = {"model",   "text",    "source",    "ids",        "target",  "target_ids", "image",
                                            "series",  "channel", "attention", "layer",      "head",    "thumbnails", "rollout",
                                            "example", "top",     "beams",     "dimensions", "map_only"};

template <class T>
T value_of(const json& request, const char* key, const char* expected, T otherwise) {
  const auto found = request.find(key);
  if (found == request.end() || found->is_null()) return otherwise;
  try {
    if (T value = found->get<T>(); json(value) == *found) return value;  // and not another number, nearby
  } catch (const json::exception&) {
  }
  fail("explain", "{} must be {}", key, expected);
}

std::int64_t number_of(const json& request, const char* key, std::int64_t otherwise, std::int64_t least, std::int64_t most) {
  const auto found = request.find(key);
  if (found == request.end() || found->is_null()) return otherwise;
  if (!found->is_number_integer() || *found < least || *found > most)
    fail("explain", "{} must be a whole number from {} to {}", key, least, most);
  return found->get<std::int64_t>();
}

// {"channels": ["a", "b"], "values": [[1, 2], …]}, a row for each step; or the values of one channel alone, [1, 2, …].
SeriesTable series_of(const json& given, const Forecaster* forecaster) {
  SeriesTable table{.name = "series"};
  const bool plain = given.is_array();
  const json& values = plain ? given : value_of<json>(given, "values", "there", json::array());
  if (!values.is_array()) fail("explain", "the values of a series must be a list");
  for (const json& row : values) {
    const bool one = row.is_number();
    if (!one && !row.is_array()) fail("explain", "a row of a series must be a number, or a list of the channels' numbers");
    const std::size_t count = one ? 1 : row.size();
    if (table.channels.empty())
      for (std::size_t i = 0; i < count; ++i) table.channels.push_back(fmt::format("channel {}", i + 1));
    if (count != table.channels.size())
      fail("explain", "a row of the series has {} values, the first one {}", count, table.channels.size());
    for (std::size_t i = 0; i < count; ++i) {
      const json& value = one ? row : row[i];
      if (!value.is_number() || !std::isfinite(value.get<double>())) fail("explain", "a series must have finite numbers");
      table.values.push_back(value.get<double>());
    }
  }
  const std::size_t columns = table.channels.size();
  if (!plain && given.contains("channels")) table.channels = value_of<std::vector<std::string>>(given, "channels", "a list of names", {});
  else if (forecaster != nullptr && forecaster->notes() != nullptr && forecaster->notes()->channels.size() == table.channels.size())
    table.channels = forecaster->notes()->channels;
  if (columns == 0 || table.channels.size() != columns)
    fail("explain", "the series has {} values in a row for {} channels", columns, table.channels.size());
  return table;
}

}  // namespace

json Explainer::answer(Context& ctx, const json& request) const {
  if (!request.is_object()) fail("explain", "a request is a JSON object");
  for (const auto& [key, value] : request.items())
    if (!request_keys.contains(key)) fail("explain", "a request has no '{}': expected {}", key, fmt::join(request_keys, ", "));
  const char* text = request.contains("source") ? "source" : "text";
  ExplainOptions options{.top = number_of(request, "top", 50, 1, 1000),
                         .beams = number_of(request, "beams", 4, 1, 16),
                         .target_ids = value_of<std::vector<std::int32_t>>(request, "target_ids", "a list of token ids", {}),
                         .channel = number_of(request, "channel", 0, 0, 1 << 20)};
  if (request.contains("target") && !request["target"].is_null()) options.target = value_of<std::string>(request, "target", "a text", "");
  const JsonView view{.map = {.attention = value_of<std::string>(request, "attention", "a name", ""),
                              .layer = number_of(request, "layer", 0, -1, 1 << 20),
                              .head = number_of(request, "head", 0, -1, 1 << 20)},
                      .thumbnails = number_of(request, "thumbnails", 0, 0, 128),
                      .rollout = value_of<bool>(request, "rollout", "true or false", false),
                      .example = value_of<bool>(request, "example", "true or false", false),
                      .map_only = value_of<bool>(request, "map_only", "true or false", false),
                      .dimensions = number_of(request, "dimensions", 32, 1, 4096)};
  const std::string ours = kind();
  if (ours == "image") {
    if (!request.contains("image")) fail("explain", "this model takes an image: expected its file in base64 as 'image'");
    return to_json(image(ctx, decode_image(from_base64(value_of<std::string>(request, "image", "a file in base64", "")), "image"), options),
                   view);
  }
  if (ours == "series") {
    if (!request.contains("series")) fail("explain", "this model takes a series: expected its values as 'series'");
    return to_json(series(ctx, series_of(request["series"], forecaster_ ? &*forecaster_ : nullptr), options), view);
  }
  if (request.contains("ids") && !request["ids"].is_null())
    return to_json(tokens(ctx, value_of<std::vector<std::int32_t>>(request, "ids", "a list of token ids", {}), options), view);
  if (!request.contains(text)) fail("explain", "this model takes a text: expected 'text', or 'ids'");
  return to_json(this->text(ctx, value_of<std::string>(request, text, "a text", ""), options), view);
}

}  // namespace transformer
