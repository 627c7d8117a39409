// Every family against Hugging Face Transformers: each folder of the cases is a checkpoint with its inputs and all that the
// reference gives for them. A folder that is added is tested.
#include <algorithm>
#include <filesystem>
#include <set>

#include "io/shared/json.h"
#include "support/golden.h"
#include "support/temporary_folder.h"
#include "transformer/autograd/autograd.h"
#include "transformer/models/model.h"
#include "transformer/train/optimizer.h"

namespace transformer::test {
namespace {

// Folders of the root, and of `variants` in it: settings that the reference's cases do not have (see make_cases.py there). Those
// that have a tensor of that name.
std::vector<std::string> family_cases(const std::string& tensor = "") {
  std::vector<std::string> names;
  for (const std::string inside : {"", "variants/"}) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(golden_root() / inside, none))
      if (const std::string name = entry.path().filename().string();
          !name.starts_with("seed-") && std::filesystem::exists(entry.path() / "expected.safetensors"))
        if (tensor.empty() || GoldenCase(entry.path()).expected.contains(tensor)) names.push_back(inside + name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A case and its model, loaded.
struct Loaded {
  GoldenCase golden;
  Context ctx;
  std::unique_ptr<Model> model;
  explicit Loaded(const std::string& name) : golden(golden_root() / name), model(load_model(ctx, golden.folder)) {}

  bool has(const std::string& name) const { return golden.expected.contains(name); }
  // A decoder's case was made without a mask; the batch with one is apart.
  bool decoder() const { return has("masked.logits"); }

  NamedTensors inputs(const std::set<std::string>& left_out) const {
    NamedTensors in;
    for (const char* name :
         {"input_ids", "attention_mask", "token_type_ids", "decoder_input_ids", "pixel_values", "past_values", "future_values", "labels"})
      if (has(name) && !left_out.contains(name)) in[name] = golden.expected.tensor(name);
    return in;
  }
  NamedTensors forward_inputs() const { return inputs({"labels", "future_values", decoder() ? "attention_mask" : "labels"}); }
  NamedTensors training_inputs() const { return inputs({"decoder_input_ids", decoder() ? "attention_mask" : "decoder_input_ids"}); }
};

// got and want where the mask [batch, length] is 1: along the first two dimensions, or, for attention weights [batch, heads, length,
// length], at both ends. What the reference has at padded places depends on how it computes, and is nobody's result.
void expect_where_real(const GoldenCase& c, const std::string& name, const Tensor& got, const Tensor* mask, double tolerance) {
  ASSERT_TRUE(got.defined()) << name << " is not computed";
  const Tensor want = c.expected.tensor(name);
  std::vector<double> g = detail::to_double(got), w = detail::to_double(want);
  ASSERT_EQ(g.size(), w.size()) << name << " is " << got.shape().str() << ", expected " << want.shape().str();
  double largest = 1.0;
  for (double v : w) largest = std::max(largest, std::abs(v));
  const auto m = mask != nullptr ? mask->to_vector<std::int64_t>() : std::vector<std::int64_t>();
  auto real = [&](std::int64_t i) {
    if (mask == nullptr) return true;
    const std::int64_t batch = mask->dim(0), length = mask->dim(1);
    if (want.rank() >= 2 && want.dim(0) == batch && want.dim(1) == length)
      return m[static_cast<std::size_t>(i / (want.numel() / (batch * length)))] != 0;
    if (want.rank() == 4 && want.dim(0) == batch && want.dim(3) == length) {
      const std::int64_t b = i / (want.numel() / batch), q = i / length % want.dim(2), k = i % length;
      const bool queries_padded = want.dim(2) == length;  // not those of cross-attention
      return m[static_cast<std::size_t>(b * length + k)] != 0 && (!queries_padded || m[static_cast<std::size_t>(b * length + q)] != 0);
    }
    return true;
  };
  double error = 0.0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    if (!real(static_cast<std::int64_t>(i))) continue;
    error = std::max(error, std::isnan(g[i]) ? INFINITY : std::abs(g[i] - w[i]));
  }
  EXPECT_LE(error, tolerance * largest) << name;
}

bool is_output(const std::string& name) {
  for (const char* prefix : {"logits", "last_hidden", "pooler", "hidden_states", "attentions", "encoder_", "decoder_hidden", "decoder_att",
                             "cross_", "prediction", "cls_logits", "distillation_logits"})
    if (name.starts_with(prefix)) return true;
  return false;
}

class Family : public testing::TestWithParam<std::string> {};
class Decoder : public Family {};
class Trained : public Family {};

std::string name_of_case(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Golden, Family, testing::ValuesIn(family_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Golden, Decoder, testing::ValuesIn(family_cases("masked.logits")), name_of_case);
INSTANTIATE_TEST_SUITE_P(Golden, Trained, testing::ValuesIn(family_cases("loss")), name_of_case);

TEST_P(Family, GivesTheReferencesOutputs) {
  Loaded c(GetParam());
  const NamedTensors in = c.forward_inputs();
  const NoGradients no_gradients(c.ctx);
  const NamedTensors out = c.model->run(c.ctx, in, {.hidden_states = true, .attentions = true});
  const auto mask = in.find("attention_mask");
  std::size_t compared = 0;
  for (const std::string& name : c.golden.expected.names()) {
    if (!is_output(name)) continue;
    const auto got = out.find(name);
    ASSERT_NE(got, out.end()) << name;
    expect_where_real(c.golden, name, got->second, mask == in.end() ? nullptr : &mask->second, 1e-4);
    ++compared;
  }
  EXPECT_GT(compared, 0U);
}

TEST_P(Decoder, LeftPaddingChangesNothing) {
  Loaded c(GetParam());
  const Tensor mask = c.golden.expected.tensor("attention_mask");
  const NoGradients no_gradients(c.ctx);
  const NamedTensors out = c.model->run(c.ctx, c.inputs({"labels"}));
  expect_where_real(c.golden, "masked.logits", out.at("logits"), &mask, 1e-4);
}

TEST_P(Trained, GivesTheReferencesLossAndEveryGradient) {
  Loaded c(GetParam());
  for (const bool logits : {true, false}) {
    const NamedTensors out = c.model->run(c.ctx, c.training_inputs(), {.logits = logits});
    expect_golden(c.golden, "loss", out.at("loss"), 1e-5);
    backward(c.ctx, out.at("loss"));
    std::set<std::string> compared;
    for (const Binding& b : c.model->bindings()) {
      Tensor& weight = b.ours.parameter->tensor;
      if (!c.has("grad." + b.theirs)) continue;
      ASSERT_TRUE(gradient(weight).defined()) << b.theirs;
      expect_golden_gradient(c.golden, "grad." + b.theirs, b.to_theirs(c.ctx, gradient(weight)), 1e-3);
      compared.insert("grad." + b.theirs);
    }
    for (const std::string& name : c.golden.expected.names()) {
      if (!name.starts_with("grad.")) continue;
      EXPECT_TRUE(compared.contains(name)) << name << " is of no parameter";
    }
    for (const NamedParameter& p : c.model->parameters())
      if (p.parameter->trained) clear_gradient(p.parameter->tensor);
  }
}

TEST_P(Trained, TrainsLikeTheReference) {
  Loaded c(GetParam());
  Adam optimizer(c.ctx, c.model->parameters(), {.beta1 = 0.9F, .beta2 = 0.98F, .eps = 1e-9F, .weight_decay = 0.01F});
  const std::vector<float> want = c.golden.expected.tensor("adamw_losses").to_vector<float>();
  for (std::size_t step = 0; step < want.size(); ++step) {
    const Tensor loss = c.model->run(c.ctx, c.training_inputs(), {.logits = false}).at("loss");
    EXPECT_NEAR(loss.item(), want[step], 1e-3) << "before step " << step + 1;
    if (step + 1 == want.size()) break;
    backward(c.ctx, loss);
    optimizer.step(c.ctx, 1e-3F, 1.0F);
    optimizer.zero_gradients();
  }
}

TEST_P(Family, IsSavedAsItWasRead) {
  Loaded c(GetParam());
  const TemporaryFolder folder;
  save_model(c.ctx, *c.model, folder.path());
  EXPECT_EQ(read_json(folder / "config.json"), c.golden.config);
  const SafetensorsFile before(c.golden.folder / "model.safetensors"), after(folder / "model.safetensors");
  std::vector<std::string> names = before.names(), saved = after.names();
  // What is not tied is not shared: a table that nobody uses is not written.
  if (after.contains("model.encoder.embed_tokens.weight") && after.contains("lm_head.weight")) std::erase(names, "model.shared.weight");
  std::sort(names.begin(), names.end());
  std::sort(saved.begin(), saved.end());
  ASSERT_EQ(saved, names);
  for (const std::string& name : names) {
    const Tensor a = before.tensor(name), b = after.tensor(name);
    ASSERT_EQ(before.stored_type(name), after.stored_type(name)) << name;
    ASSERT_EQ(a.shape().str(), b.shape().str()) << name;
    EXPECT_EQ(std::memcmp(a.raw(), b.raw(), static_cast<std::size_t>(a.numel() * size_of(a.dtype()))), 0) << name;
  }
}

}  // namespace
}  // namespace transformer::test
