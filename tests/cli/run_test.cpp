// transformer run, on a case of the reference.
#include <filesystem>

#include "cli/command.h"
#include "support/golden.h"

namespace transformer::test {
namespace {

std::string golden_case(const std::string& name) { return (golden_root() / name).string(); }

TEST_F(Command, RunGivesOutputsAndGradientsUnderTheReferencesNames) {
  for (const auto& folder : golden_cases("gpt2")) {
    const GoldenCase c(folder);
    save_safetensors(folder_ / "in", {{"input_ids", c.expected.tensor("input_ids")}, {"labels", c.expected.tensor("labels")}});
    const CommandResult r = run("run '" + folder.string() + "' --inputs in --outputs out --gradients");
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.out + r.err, "");
    const SafetensorsFile out(folder_ / "out");
    for (const char* name : {"logits", "hidden_states.0", "attentions.0", "loss"}) expect_golden(c, name, out.tensor(name), 1e-4);
    for (const std::string& name : c.expected.names())
      if (name.starts_with("grad.")) expect_golden_gradient(c, name, out.tensor(name), 1e-3);
  }
}

TEST_F(Command, RunInBfloat16IsNear) {
  const GoldenCase c(golden_case("bert-base"));
  save_safetensors(folder_ / "in", {{"input_ids", c.expected.tensor("input_ids")}});
  ASSERT_EQ(run("run '" + golden_case("bert-base") + "' --inputs in --outputs a").code, 0);
  ASSERT_EQ(run("run '" + golden_case("bert-base") + "' --inputs in --outputs b --dtype bfloat16").code, 0);
  const Tensor a = SafetensorsFile(folder_ / "a").tensor("pooler_output"), b = SafetensorsFile(folder_ / "b").tensor("pooler_output");
  EXPECT_EQ(b.dtype(), DType::float32);
  expect_near(b, detail::to_double(a), 3e-2);
}

TEST_F(Command, RunSaysWhatIsWrong) {
  expect_usage("run", "MODEL is required");
  expect_usage("run m", "--inputs is required");
  expect_failure("run nowhere --inputs in --outputs out", "nowhere/config.json");
  const GoldenCase c(golden_case("gpt2"));
  save_safetensors(folder_ / "in", {{"input_ids", c.expected.tensor("input_ids")}});
  expect_failure("run '" + golden_case("gpt2") + "' --inputs in --outputs out --gradients", "no loss to take gradients of");
  expect_failure("run '" + golden_case("gpt2") + "' --inputs nothing --outputs out", "nothing");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

}  // namespace
}  // namespace transformer::test
