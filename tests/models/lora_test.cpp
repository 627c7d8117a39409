// Adapters: PEFT's own on the models of the reference cases, with all that PEFT computes for them, and fresh ones on every family.
#include "transformer/models/lora.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "io/shared/json.h"
#include "support/golden.h"
#include "support/temporary_folder.h"
#include "transformer/autograd/autograd.h"
#include "transformer/train/optimizer.h"

namespace transformer::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<std::string> folders(const fs::path& root) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root, none))
    if (fs::exists(entry.path() / "expected.safetensors") && !entry.path().filename().string().starts_with("seed-"))
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

fs::path adapters() { return golden_root() / "adapters"; }

// |got − want| ≤ tolerance · max |want|, or · max(1, max |want|) when not relative.
void expect_close(const std::string& name, const Tensor& got, const Tensor& want, double tolerance, bool relative = false) {
  ASSERT_TRUE(got.defined()) << name;
  const std::vector<double> g = detail::to_double(got), w = detail::to_double(want);
  ASSERT_EQ(g.size(), w.size()) << name;
  double largest = relative ? 0.0 : 1.0, error = 0.0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    largest = std::max(largest, std::abs(w[i]));
    error = std::max(error, std::isnan(g[i]) ? INFINITY : std::abs(g[i] - w[i]));
  }
  EXPECT_LE(error, tolerance * largest) << name;
}

NamedTensors inputs_of(const SafetensorsFile& expected) {
  NamedTensors in;
  for (const char* name :
       {"input_ids", "attention_mask", "token_type_ids", "decoder_input_ids", "pixel_values", "past_values", "labels", "future_values"})
    if (expected.contains(name)) in[name] = expected.tensor(name);
  return in;
}

std::string plain_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

class Peft : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Golden, Peft, testing::ValuesIn(folders(adapters())), plain_name);
class AnyFamily : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Golden, AnyFamily, testing::ValuesIn(folders(golden_root())), plain_name);

std::vector<float> logits(Context& ctx, const Model& model, const NamedTensors& in) {
  const NoGradients no_gradients(ctx);
  for (const auto& [name, t] : model.run(ctx, in))
    if (name == "logits" || name == "last_hidden_state" || name.starts_with("prediction")) return t.to_vector<float>();
  return {};
}

void expect_equal(const std::vector<float>& got, const std::vector<float>& want, float tolerance) {
  ASSERT_EQ(got.size(), want.size());
  float error = 0.0F, largest = 1.0F;
  for (std::size_t i = 0; i < got.size(); ++i)
    error = std::max(error, std::abs(got[i] - want[i])), largest = std::max(largest, std::abs(want[i]));
  EXPECT_LE(error, tolerance * largest);
}

TEST_P(Peft, GivesItsOutputsAndGradients) {
  Context ctx;
  const fs::path folder = adapters() / GetParam();
  const SafetensorsFile expected(folder / "expected.safetensors");
  const auto model = load_model(ctx, folder);  // finds its base by itself
  const NamedTensors out = model->run(ctx, inputs_of(expected));
  expect_close("loss", out.at("loss"), expected.tensor("loss"), 1e-5);
  // Where the mask hides a token of a text, nothing is expected: the reference's values there are nobody's result.
  if (!expected.contains("attention_mask") || expected.shape("logits").rank() == 2)
    expect_close("logits", out.at("logits"), expected.tensor("logits"), 1e-4);
  backward(ctx, out.at("loss"));
  std::set<std::string> compared;
  for (const Binding& b : adapter_bindings(*model)) {
    ASSERT_TRUE(expected.contains("grad." + b.theirs)) << b.theirs;
    expect_close(b.theirs, b.to_theirs(ctx, gradient(b.ours.parameter->tensor)), expected.tensor("grad." + b.theirs), 1e-4, true);
    compared.insert("grad." + b.theirs);
  }
  for (const std::string& name : expected.names())
    if (name.starts_with("grad.")) {
      EXPECT_TRUE(compared.contains(name)) << name;
    }
  std::set<const Parameter*> trained;
  for (const NamedParameter& p : trained_parameters(*model)) trained.insert(p.parameter);
  EXPECT_EQ(trained.size(), compared.size());
  for (const NamedParameter& p : model->parameters())
    if (!trained.contains(p.parameter)) {
      EXPECT_FALSE(has_gradient(p.parameter->tensor)) << p.name;
    }
}

TEST_P(Peft, IsSavedAsItWasRead) {
  Context ctx;
  const fs::path folder = adapters() / GetParam();
  const auto model = load_model(ctx, folder);
  const TemporaryFolder again;
  save_adapter(ctx, *model, again.path(), model_folder(folder).base);
  const SafetensorsFile before(folder / "adapter_model.safetensors"), after(again / "adapter_model.safetensors");
  std::vector<std::string> names = before.names(), saved = after.names();
  std::sort(names.begin(), names.end());
  std::sort(saved.begin(), saved.end());
  ASSERT_EQ(saved, names);
  for (const std::string& name : names) EXPECT_EQ(before.tensor(name).to_vector<float>(), after.tensor(name).to_vector<float>()) << name;
  const json was = read_json(folder / "adapter_config.json"), is = read_json(again / "adapter_config.json");
  for (const char* key : {"r", "lora_alpha", "task_type", "use_rslora", "fan_in_fan_out", "bias", "peft_type"})
    EXPECT_EQ(is.at(key), was.at(key)) << key;
  const NamedTensors in = inputs_of(SafetensorsFile(folder / "expected.safetensors"));
  EXPECT_EQ(logits(ctx, *load_model(ctx, again.path()), in), logits(ctx, *model, in));
}

TEST_P(Peft, IsMergedIntoAPlainModel) {
  Context ctx;
  const fs::path folder = adapters() / GetParam();
  const SafetensorsFile expected(folder / "expected.safetensors");
  const NamedTensors in = inputs_of(expected);
  const auto model = load_model(ctx, folder);
  const std::vector<float> before = logits(ctx, *model, in);
  merge_lora(ctx, *model);
  EXPECT_FALSE(model->lora.has_value());
  EXPECT_TRUE(adapter_bindings(*model).empty());
  expect_equal(logits(ctx, *model, in), before, 1e-5F);
  const TemporaryFolder merged;
  save_model(ctx, *model, merged.path());
  expect_equal(logits(ctx, *load_model(ctx, merged.path()), in), before, 1e-5F);
}

// With the family's usual targets: nothing changes at first, then only the adapter learns; its folder gives the same model again.
TEST_P(AnyFamily, LearnsWithAnAdapter) {
  Context ctx({.seed = 3});
  const fs::path base = golden_root() / GetParam();
  const SafetensorsFile expected(base / "expected.safetensors");
  if (!expected.contains("loss")) GTEST_SKIP() << "has no loss";
  const NamedTensors in = inputs_of(expected);
  const auto plain = load_model(ctx, base), model = load_model(ctx, base, {.lora = {.rank = 2, .alpha = 4.0F}});
  EXPECT_EQ(logits(ctx, *model, in), logits(ctx, *plain, in));
  const std::vector<NamedParameter> trained = trained_parameters(*model);
  EXPECT_LT(count(trained), count(plain->parameters()) / 2);
  Adam adam(ctx, trained);
  float first = 0.0F, last = 0.0F;
  for (int step = 0; step < 12; ++step) {
    const Tensor loss = model->run(ctx, in, {.logits = false}).at("loss");
    (step == 0 ? first : last) = loss.item();
    backward(ctx, loss);
    for (const NamedParameter& p : trained) EXPECT_TRUE(gradient(p.parameter->tensor).defined()) << p.name;
    adam.step(ctx, 1e-2F);
    adam.zero_gradients();
  }
  EXPECT_LT(last, first);
  const TemporaryFolder folder;
  save_adapter(ctx, *model, folder.path(), base);
  const auto again = load_model(ctx, base, {.adapter = folder.path()});
  EXPECT_EQ(logits(ctx, *again, in), logits(ctx, *model, in));
  for (const NamedParameter& p : model->parameters())
    if (!p.parameter->trained && !p.name.ends_with("batches") && !p.name.ends_with("running_mean") && !p.name.ends_with("running_variance"))
      for (const NamedParameter& q : plain->parameters())
        if (p.name == q.name) {
          EXPECT_EQ(p.parameter->tensor.to_vector<float>(), q.parameter->tensor.to_vector<float>()) << p.name;
        }
}

class Lora : public testing::Test {
 protected:
  Context ctx_;
  TemporaryFolder folder_;
  const fs::path base_ = golden_root() / "llama";

  // PEFT's adapter with another adapter_config.json.
  void change(const json& changes) const {
    for (const char* name : {"adapter_model.safetensors", "adapter_config.json"})
      fs::copy_file(adapters() / "llama" / name, folder_ / name, fs::copy_options::overwrite_existing);
    json config = read_json(folder_ / "adapter_config.json");
    config.update(changes);
    write_json(folder_ / "adapter_config.json", config);
  }
  void expect_refused(const json& changes, const std::vector<std::string>& words) {
    change(changes);
    expect_error([&] { load_model(ctx_, base_, {.adapter = folder_.path()}); }, words);
  }
};

TEST_F(Lora, BeginsAsPeftDoes) {
  const auto model = load_model(ctx_, base_, {.lora = {.rank = 4}});
  for (const Binding& b : adapter_bindings(*model)) {
    const std::vector<float> values = b.ours.parameter->tensor.to_vector<float>();
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    const float bound = b.theirs.ends_with("lora_A.weight") ? 1.0F / std::sqrt(static_cast<float>(b.shape()[1])) : 0.0F;
    EXPECT_GE(*low, -bound) << b.theirs;
    EXPECT_LE(*high, bound) << b.theirs;
    if (bound > 0.0F) {
      EXPECT_GT(*high - *low, bound) << b.theirs;
    }
  }
}

TEST_F(Lora, TakesAllMatricesButTheOutput) {
  const auto model = load_model(ctx_, base_, {.lora = {.rank = 2, .targets = {"all-linear"}}});
  std::set<std::string> kinds;
  for (const Binding& b : adapter_bindings(*model)) {
    const std::string module = b.theirs.substr(0, b.theirs.find(".lora_"));
    kinds.insert(module.substr(module.rfind('.') + 1));
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}));
  save_adapter(ctx_, *model, folder_.path(), base_);
  EXPECT_EQ(read_json(folder_ / "adapter_config.json").at("target_modules").size(), adapter_bindings(*model).size() / 2);
}

TEST_F(Lora, DropoutActsInTrainingOnly) {
  change({{"lora_dropout", 0.5}});
  const auto model = load_model(ctx_, base_, {.adapter = folder_.path()});
  const NamedTensors in = inputs_of(SafetensorsFile(adapters() / "llama/expected.safetensors"));
  const std::vector<float> still = logits(ctx_, *model, in);
  EXPECT_EQ(logits(ctx_, *load_model(ctx_, adapters() / "llama"), in), still);
  ctx_.set_training(true);
  EXPECT_NE(logits(ctx_, *model, in), still);
}

TEST_F(Lora, KeepsTheBaseInTheTypeThatIsComputedWith) {
  Context low({.precision = DType::bfloat16});
  const auto model = load_model(low, base_, {.dtype = DType::bfloat16, .lora = {.rank = 2}});
  for (const NamedParameter& p : model->parameters())
    if (p.parameter->shape.rank() == 2) {
      EXPECT_EQ(p.parameter->tensor.dtype(), DType::bfloat16) << p.name;
    }
  for (const NamedParameter& p : trained_parameters(*model)) EXPECT_EQ(p.parameter->tensor.dtype(), DType::float32) << p.name;
  expect_error([&] { merge_lora(low, *model); }, {"bfloat16", "float32"});
}

TEST_F(Lora, RefusesByNameWhatItDoesNotDo) {
  expect_refused({{"use_dora", true}}, {"adapter_config.json", "use_dora"});
  expect_refused({{"peft_type", "IA3"}}, {"peft_type", "IA3", "LORA"});
  expect_refused({{"bias", "all"}}, {"bias", "all"});
  expect_refused({{"init_lora_weights", "pissa"}}, {"init_lora_weights", "pissa"});
  expect_refused({{"alpha_pattern", {{"q_proj", 3}}}}, {"alpha_pattern"});
  expect_refused({{"layer_replication", {{0, 2}}}}, {"layer_replication"});
  expect_refused({{"something_new", 1}}, {"something_new"});
  expect_refused({{"modules_to_save", {"norm"}}}, {"missing", "base_model.model.model.norm.weight"});
  change(json::object());
  expect_error([&] { load_model(ctx_, golden_root() / "gpt2", {.adapter = folder_.path()}); }, {"unexpected", "q_proj.lora_A"});
  expect_error([&] { load_model(ctx_, base_, {.adapter = base_}); }, {"llama", "no adapter", "adapter_config.json"});
}

TEST_F(Lora, SaysWhatCannotBeAdapted) {
  const auto with = [&](const LoraConfig& lora) { return [this, lora] { load_model(ctx_, base_, {.lora = lora}); }; };
  expect_error(with({.rank = 4, .targets = {"query"}}), {"lora_targets", "'query'", "q_proj", "all-linear"});
  expect_error(with({.rank = 4, .targets = {"lm_head"}}), {"lora_targets", "'lm_head'"});
  expect_error(with({.rank = -1}), {"lora_rank", "-1"});
  expect_error(with({.rank = 100000}), {"lora_rank", "100000"});
  expect_error(with({.rank = 4, .alpha = 0.0F}), {"lora_alpha"});
  expect_error(with({.rank = 4, .dropout = 1.0F}), {"lora_dropout"});
}

TEST_F(Lora, FindsItsBaseOrSaysHowToGiveIt) {
  change({{"base_model_name_or_path", fs::absolute(base_).string()}});
  EXPECT_EQ(model_folder(folder_.path()).base, fs::absolute(base_));
  change({{"base_model_name_or_path", "someone/llama"}});
  expect_error([&] { load_model(ctx_, folder_.path()); }, {"someone/llama", "--adapter"});
  EXPECT_NO_THROW(load_model(ctx_, base_, {.adapter = folder_.path()}));
  expect_error([&] { load_model(ctx_, folder_.path(), {.adapter = adapters() / "llama"}); }, {"an adapter itself"});
}

}  // namespace
}  // namespace transformer::test
