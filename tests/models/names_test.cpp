#include "transformer/models/names.h"

#include <filesystem>

#include "support/op_check.h"
#include "transformer/nn/linear.h"
#include "transformer/nn/norm.h"

namespace transformer::test {
namespace {

struct Toy {
  std::vector<Linear> layers{Linear(3, {2, 4}), Linear(3, {2, 4})};
  Norm norm{NormKind::rms_norm, 3, 1e-6F};
  void visit(auto&& f) { f("layers", layers), f("norm", norm); }
};

const std::vector<NameRule> rules{{"h.{i}.q", "layers.{i}", 0}, {"h.{i}.kv_", "layers.{i}", 1}, {"ln", "norm"}};

}  // namespace

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

}  // namespace transformer::test
