#include "models/text_family.h"

#include <cmath>

#include "models/fresh_weights.h"

namespace transformer {
namespace {

// How fresh weights are drawn, as Hugging Face does it: GPT-2's matrices that write into the residual stream are smaller.
void set_initial_scale(TextModel& model, float range, bool scaled_residuals) {
  draw_normal(model.parameters(), range);
  if (!scaled_residuals) return;
  for (const auto& [name, p] : model.parameters())
    if (name.ends_with("attention.out.weight") || name.ends_with("feed_forward.out.weight"))
      p->deviation = range / std::sqrt(2.0F * static_cast<float>(model.text().stack.layers));
}

}  // namespace

std::unique_ptr<Model> make_text(TextFamily f) {
  std::vector<NameRule> rules = std::move(f.body);
  if (!f.is("Model") || f.is("LMHeadModel"))
    for (NameRule& rule : rules) rule.theirs = f.base + rule.theirs;
  rules.insert(rules.end(), f.head.begin(), f.head.end());
  f.load.base = f.base;
  auto model = std::make_unique<TextModel>(f.config, std::move(rules), std::move(f.load));
  set_initial_scale(*model, f.initializer_range, f.scaled_residuals);
  return model;
}

void refuse_decoder(Settings& s) {
  s.only("is_decoder", false, "this family is an encoder here");
  s.only("add_cross_attention", false, "there is no encoder to read");
  s.only("is_encoder_decoder", false, "this family has one stack");
}

void read_labels(Settings& s, TextConfig& c) {
  c.labels = s.labels();
  c.problem = problem_type(s);
}

void read_decoder_head(Settings& s, TextFamily& f, bool tied_by_default, std::string_view token_head) {
  TextConfig& c = f.config;
  c.tied = s.get("tie_word_embeddings", tied_by_default);
  s.neutral({"problem_type", "classifier_dropout"});
  if (f.is("ForCausalLM") || f.is("LMHeadModel")) {
    c.task = TextTask::causal_lm;
    if (c.tied) f.head = {{.theirs = "lm_head", .ours = "embedder.tokens", .tied = true}};
    else f.head = {{"lm_head", "head.output"}};
  } else if (f.is("ForSequenceClassification")) {
    c.task = TextTask::sequence_labels;
    c.last_token = true;
    c.padding_id = s.maybe<std::int64_t>("pad_token_id");
    read_labels(s, c);
    f.head = {{"score", "head.output"}};
  } else if (f.is("ForTokenClassification")) {
    c.task = TextTask::token_labels;
    c.output_bias = true;
    c.labels = s.labels();
    c.head_dropout = s.maybe<float>("classifier_dropout").value_or(s.maybe<float>("hidden_dropout").value_or(0.1F));
    f.head = {{std::string(token_head), "head.output"}};
  } else {
    f.load.ignored.insert(f.load.ignored.end(), {"lm_head.", "score.", std::string(token_head) + "."});
  }
}

namespace {

// The values of one rope_parameters object; what is not asked for is refused.
class RopeSettings {
 public:
  RopeSettings(const Settings& s, std::string key, const nlohmann::json* values) : settings_(s), key_(std::move(key)) {
    if (values == nullptr || values->is_null()) return;
    if (!values->is_object()) settings_.refuse(key_, "expected an object");
    values_ = *values;
  }
  template <class T>
  std::optional<T> take(const char* name) {
    const auto it = values_.find(name);
    if (it == values_.end()) return {};
    std::optional<T> value;
    detail::read_value(*it, value, key_ + "." + name);
    values_.erase(it);
    return value;
  }
  double require(const char* name) {
    const auto value = take<double>(name);
    if (!value || !std::isfinite(*value)) settings_.refuse(key_, fmt::format("{} is missing", name));
    return *value;
  }
  void done(std::string_view type) const {
    if (!values_.empty()) settings_.refuse(key_, fmt::format("'{}' is not known for the type '{}'", values_.begin().key(), type));
  }

 private:
  const Settings& settings_;
  std::string key_;
  nlohmann::json values_ = nlohmann::json::object();
};

}  // namespace

void read_rope(Settings& s, StackConfig& c, std::int64_t max_positions) {
  const nlohmann::json* older = s.find("rope_scaling");
  const nlohmann::json* newer = s.find("rope_parameters");
  const bool use_older = older != nullptr && !older->is_null();
  const std::string key = use_older ? "rope_scaling" : "rope_parameters";
  RopeSettings r(s, key, use_older ? older : newer);
  const auto base = r.take<double>("rope_theta");
  c.positions = PositionKind::rotary;
  c.rope_base = static_cast<float>(base.value_or(s.maybe<double>("rope_theta").value_or(10000.0)));
  s.neutral({"rope_theta"});
  if (!(c.rope_base > 1.0F)) s.refuse("rope_theta", "expected more than 1");
  c.max_positions = std::int64_t{1} << 30;  // any length is possible, whatever it was trained for
  s.only("partial_rotary_factor", 1.0, "this family turns whole heads");
  if (r.take<double>("partial_rotary_factor").value_or(1.0) != 1.0) s.refuse(key, "this family turns whole heads");

  const auto old_name = r.take<std::string>("type");
  const std::string type = r.take<std::string>("rope_type").value_or(old_name.value_or("default"));
  RopeConfig& rope = c.rope;
  const auto outside = s.maybe_size("original_max_position_embeddings");
  const auto inside = r.take<std::int64_t>("original_max_position_embeddings");
  rope.original_positions = outside.value_or(inside.value_or(max_positions));
  if (rope.original_positions < 1) s.refuse(key, "original_max_position_embeddings must be positive");
  if (type == "default") return r.done(type);
  rope.factor = r.require("factor");
  if (!(rope.factor > 0.0)) s.refuse(key, "factor must be positive");
  if (type == "linear") {
    rope.scaling = RopeScaling::linear;
  } else if (type == "dynamic") {
    rope.scaling = RopeScaling::dynamic;
    rope.original_positions = max_positions;
    if (c.resolved().rotary_dim < 4) s.refuse(key, "dynamic scaling needs heads of 4 dimensions or more");
  } else if (type == "llama3") {
    rope.scaling = RopeScaling::llama3;
    rope.low_factor = r.require("low_freq_factor");
    rope.high_factor = r.require("high_freq_factor");
    if (!(rope.high_factor > rope.low_factor) || !(rope.low_factor > 0.0))
      s.refuse(key, "expected a positive low_freq_factor and a larger high_freq_factor");
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::yarn;
    auto or_default = [](std::optional<double> value, double otherwise) { return value && *value != 0.0 ? *value : otherwise; };
    rope.fast_turns = or_default(r.take<double>("beta_fast"), 32.0);
    rope.slow_turns = or_default(r.take<double>("beta_slow"), 1.0);
    rope.whole_pairs = r.take<bool>("truncate").value_or(true);
    const auto scale = r.take<double>("attention_factor"), m = r.take<double>("mscale"), all = r.take<double>("mscale_all_dim");
    auto growth = [&](double by) { return rope.factor <= 1.0 ? 1.0 : 0.1 * by * std::log(rope.factor) + 1.0; };
    rope.table_scale = scale.value_or(m.value_or(0.0) != 0.0 && all.value_or(0.0) != 0.0 ? growth(*m) / growth(*all) : growth(1.0));
  } else {
    s.refuse(key, fmt::format("the type '{}' is not supported, only default, linear, dynamic, llama3 and yarn", type));
  }
  r.done(type);
}

}  // namespace transformer
