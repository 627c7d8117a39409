#include "transformer/models/names.h"

#include <filesystem>
#include <map>

#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "transformer/nn/linear.h"
#include "transformer/nn/norm.h"
#include "transformer/ops/copy.h"

namespace transformer::test {
namespace {

struct Toy {
  std::vector<Linear> layers{Linear(3, {2, 4}), Linear(3, {2, 4})};
  Norm norm{NormKind::rms_norm, 3, 1e-6F};
  void visit(auto&& f) { f("layers", layers), f("norm", norm); }
};

const std::vector<NameRule> rules{{"h.{i}.q", "layers.{i}", 0}, {"h.{i}.kv_", "layers.{i}", 1}, {"ln", "norm"}};

TEST(Names, FusedMatricesAreSplitAndComeBack) {
  Context ctx;
  Toy toy;
  initialize(ctx, toy);
  const std::vector<Binding> bindings = bind_names(parameters(toy), rules);
  const auto tensors = named_tensors(bindings);
  std::vector<std::string> found;
  for (const auto& [name, t] : tensors) found.push_back(name + " " + t.shape().str());
  EXPECT_EQ(
      found,
      (std::vector<std::string>{"h.0.q.weight [2, 3]", "h.0.kv_weight [4, 3]", "h.0.q.bias [2]", "h.0.kv_bias [4]", "h.1.q.weight [2, 3]",
                                "h.1.kv_weight [4, 3]", "h.1.q.bias [2]", "h.1.kv_bias [4]", "ln.weight [3]"}));

  const auto path = std::filesystem::path(testing::TempDir()) / "names_test.safetensors";
  save_safetensors(path, tensors);
  Toy other;
  load(ctx, bind_names(parameters(other), rules), SafetensorsFile(path));
  const auto ours = parameters(toy), theirs = parameters(other);
  for (std::size_t i = 0; i < ours.size(); ++i) expect_near(theirs[i].parameter->tensor, detail::to_double(ours[i].parameter->tensor), 0.0);
  std::filesystem::remove(path);
}

struct Large {
  Linear whole{512, {512}}, fused{512, {512, 512}};
  void visit(auto&& f) { f("whole", whole), f("fused", fused); }
};

// A large tensor stays in its file, whatever becomes of the file's name; one that is fused of several, or of another type, is copied.
TEST(Names, LargeTensorsStayInTheFile) {
  const std::vector<NameRule> names{{"a", "whole"}, {"b.q", "fused", 0}, {"b.k", "fused", 1}};
  Context ctx({.device = Device::cpu()});
  Large large;
  initialize(ctx, large);
  const TemporaryFolder folder;
  const auto path = folder / "model.safetensors";
  save_safetensors(path, named_tensors(bind_names(parameters(large), names)));
  Large copied, mapped, low;
  {
    const SafetensorsFile file(path);
    const auto lies_in_file = [&](const Tensor& t) { return t.raw() == file.tensor("a.weight").raw(); };
    load(ctx, bind_names(parameters(copied), names), Checkpoint(file));
    load(ctx, bind_names(parameters(mapped), names), Checkpoint(file), {.mapped = true});
    load(ctx, bind_names(parameters(low), names), Checkpoint(file), {.dtype = DType::bfloat16, .mapped = true});
    EXPECT_FALSE(lies_in_file(copied.whole.weight.tensor));
    EXPECT_TRUE(lies_in_file(mapped.whole.weight.tensor));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapped.whole.weight.tensor.raw()) % 64, 0u) << "our own files begin at whole lines";
    EXPECT_EQ(low.whole.weight.tensor.dtype(), DType::bfloat16);
  }
  std::filesystem::remove(path);
  const auto ours = parameters(copied), theirs = parameters(mapped);
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_EQ(theirs[i].parameter->tensor.to_vector<float>(), ours[i].parameter->tensor.to_vector<float>());
}

TEST(Names, ReportsEverythingThatDoesNotFitAtOnceAndChangesNothing) {
  Context ctx;
  Toy toy;
  initialize(ctx, toy);
  auto tensors = named_tensors(bind_names(parameters(toy), rules));
  tensors.erase(tensors.begin());                   // h.0.q.weight
  tensors.back().second = Tensor::zeros(ctx, {5});  // ln.weight
  tensors.emplace_back("h.2.q.weight", Tensor::zeros(ctx, {2, 3}));
  tensors.emplace_back("buffer.pe", Tensor::zeros(ctx, {1}));
  const auto path = std::filesystem::path(testing::TempDir()) / "names_bad_test.safetensors";
  save_safetensors(path, tensors);
  Toy other;
  expect_error([&] { load(ctx, bind_names(parameters(other), rules), SafetensorsFile(path), {"buffer."}); },
               {"missing: h.0.q.weight [2, 3]", "unexpected: h.2.q.weight", "wrong shape: ln.weight is [5], expected [3]"});
  for (const auto& [name, p] : parameters(other)) EXPECT_FALSE(p->tensor.defined()) << name;
  std::filesystem::remove(path);
}

TEST(Names, RulesMustCoverEveryParameter) {
  Toy toy;
  expect_error(
      [&] {
    bind_names(parameters(toy), {{"h.{i}.q", "layers.{i}", 0}, {"ln", "norm"}});
      },
      {"2 of the 6 rows", "layers.0.weight"});
}

// A fused matrix of two groups, a matrix that is stored transposed, a kernel, a counter, and a table that is used twice.
struct Layouts {
  Linear fused{3, {4, 2, 2}}, turned{3, 5}, kernel{4, 2, false};
  Parameter counter{.shape = {1}, .trained = false}, table{.shape = {3, 2}, .init = Init::normal};
  void visit(auto&& f) { f("fused", fused), f("turned", turned), f("kernel", kernel), f("counter", counter), f("table", table); }
};

const std::vector<NameRule> layout_rules{{.theirs = "base.qkv", .ours = "fused", .layout = Layout::grouped, .groups = 2},
                                         {.theirs = "base.conv1d", .ours = "turned", .layout = Layout::transposed},
                                         {.theirs = "base.patches", .ours = "kernel", .shape = Shape{2, 1, 2, 2}},
                                         {.theirs = "base.counter", .ours = "counter", .shape = Shape{}, .stored = DType::int64},
                                         {"base.table", "table"},
                                         {.theirs = "head", .ours = "table", .tied = true}};

std::map<std::string, Tensor> by_name(Context& ctx, Layouts& model) {
  std::map<std::string, Tensor> out;
  for (const auto& [name, t] : named_tensors(ctx, bind_names(parameters(model), layout_rules))) out[name] = t;
  return out;
}

class NamesOnDisk : public testing::Test {
 protected:
  NamesOnDisk() {
    initialize(ctx_, model_);
    tensors_ = by_name(ctx_, model_);
    tensors_["base.counter"] = Tensor::from<std::int64_t>(ctx_, {}, std::vector<std::int64_t>{7});
  }
  Layouts load_again(const LoadRules& rules = {}) {
    save_safetensors(folder_ / "model.safetensors", {tensors_.begin(), tensors_.end()});
    Layouts other;
    load(ctx_, bind_names(parameters(other), layout_rules), Checkpoint(folder_.path()), rules);
    return other;
  }
  void expect_refused(const std::vector<std::string>& parts, const LoadRules& rules = {}) {
    expect_error([&] { load_again(rules); }, parts);
  }
  void rename(const std::string& from, const std::string& to) {
    tensors_[to] = tensors_.at(from);
    tensors_.erase(from);
  }

  Context ctx_;
  TemporaryFolder folder_;
  Layouts model_;
  std::map<std::string, Tensor> tensors_;
};

TEST_F(NamesOnDisk, EveryLayoutGoesThereAndBack) {
  EXPECT_EQ(tensors_.at("base.qkv.weight").shape().str(), "[8, 3]");
  EXPECT_EQ(tensors_.at("base.conv1d.weight").shape().str(), "[3, 5]");
  EXPECT_EQ(tensors_.at("base.conv1d.bias").shape().str(), "[5]");
  EXPECT_EQ(tensors_.at("base.patches.weight").shape().str(), "[2, 1, 2, 2]");
  EXPECT_FALSE(tensors_.contains("head"));
  // Rows of theirs: two of part 0, one of part 1, one of part 2, and the same for the second group.
  const std::vector<float> ours = model_.fused.weight.tensor.to_vector<float>(), theirs = tensors_.at("base.qkv.weight").to_vector<float>();
  const std::vector<std::size_t> rows{0, 1, 4, 6, 2, 3, 5, 7};
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = 0; j < 3; ++j) EXPECT_EQ(theirs[i * 3 + j], ours[rows[i] * 3 + j]) << i;

  Layouts other = load_again();
  const auto a = parameters(model_), b = parameters(other);
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].name != "counter") expect_near(b[i].parameter->tensor, detail::to_double(a[i].parameter->tensor), 0.0);
  EXPECT_EQ(other.counter.tensor.item(), 7.0F);
  EXPECT_TRUE(has_gradient(other.table.tensor));
  EXPECT_FALSE(has_gradient(other.counter.tensor)) << "a buffer is not a leaf";
}

TEST_F(NamesOnDisk, ThePrefixOfTheBaseModelMayBeMissing) {
  for (const auto& [name, t] : std::map(tensors_)) rename(name, name.substr(5));
  expect_refused({"missing: base.table", "unexpected: table"});
  const Layouts other = load_again({.base = "base."});
  expect_near(other.table.tensor, detail::to_double(model_.table.tensor), 0.0);
}

TEST_F(NamesOnDisk, ATiedTensorMayBeThereUnderItsOtherName) {
  tensors_["head"] = tensors_.at("base.table");
  EXPECT_NO_THROW(load_again());
  tensors_["head"] = Tensor::zeros(ctx_, {3, 2});
  expect_refused({"not tied: head differs from base.table", "tie_word_embeddings"});
  tensors_["head"] = Tensor::zeros(ctx_, {4, 2});
  expect_refused({"wrong shape: head is [4, 2], expected [3, 2]"});
  tensors_["head"] = tensors_.at("base.table");
  tensors_.erase("base.table");
  expect_near(load_again().table.tensor, detail::to_double(model_.table.tensor), 0.0);
}

TEST_F(NamesOnDisk, TensorsThatAreNotUsedMayBeListed) {
  tensors_["base.h.12.mask"] = Tensor::zeros(ctx_, {1});
  expect_refused({"unexpected: base.h.12.mask"});
  EXPECT_NO_THROW(load_again({.ignored = {"base.h.{i}.mask"}}));
  EXPECT_NO_THROW(load_again({.base = "base.", .ignored = {"h.{i}.ma"}}));
}

TEST_F(NamesOnDisk, WeightsMayBeBfloat16InMemoryAndVectorsStayFloat32) {
  const Layouts other = load_again({.dtype = DType::bfloat16});
  EXPECT_EQ(other.turned.weight.tensor.dtype(), DType::bfloat16);
  EXPECT_EQ(other.turned.bias.tensor.dtype(), DType::float32);
  EXPECT_FALSE(has_gradient(other.turned.bias.tensor));
  std::vector<double> rounded;
  for (float v : model_.turned.weight.tensor.to_vector<float>()) rounded.push_back(static_cast<float>(bfloat16(v)));
  std::vector<double> got;
  for (bfloat16 v : other.turned.weight.tensor.to_vector<bfloat16>()) got.push_back(static_cast<float>(v));
  EXPECT_EQ(got, rounded);
}

TEST_F(NamesOnDisk, HalfPrecisionFilesAreReadAndIntegersAreRefused) {
  Tensor half = Tensor::empty(ctx_, {3, 2}, DType::float16);
  copy_into(ctx_, model_.table.tensor.detach(), half);
  tensors_["base.table"] = half;
  std::vector<double> rounded;
  for (float v : model_.table.tensor.to_vector<float>()) rounded.push_back(static_cast<float>(float16(v)));
  expect_near(load_again().table.tensor, rounded, 0.0);
  tensors_["base.table"] = Tensor::zeros(ctx_, {3, 2}, DType::int8);
  expect_refused({"wrong type: base.table is I8, expected F32, F16 or BF16"});
}

}  // namespace
}  // namespace transformer::test
