// `transformer inspect` on the folder of any family.
#include "cli/command.h"
#include "support/golden.h"

namespace transformer::test {

TEST_F(Command, InspectsEveryFamily) {
  for (const auto& folder : golden_cases("")) {
    if (!std::filesystem::exists(folder / "model.safetensors") || folder.filename().string().starts_with("seed-")) continue;
    const CommandResult r = run("inspect " + folder.string());
    EXPECT_EQ(r.code, 0) << folder << r.err;
    expect_parts(r.out, {"attention", "total", "memory: "});
    EXPECT_EQ(run("inspect --d-model 64 " + folder.string()).code, 2) << folder;  // flags are not for these
  }
  write("config.json", R"({"model_type": "bort"})");
  const CommandResult unknown = run("inspect .");
  EXPECT_EQ(unknown.code, 1);
  expect_parts(unknown.err, {"bort", "did you mean"});
}

}  // namespace transformer::test
