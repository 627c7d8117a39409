// `transformer inspect` on the folder of any family.
#include <fmt/format.h>

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

// What a token, an image or a series costs, from the sizes in config.json.
TEST_F(Command, InspectCountsProducts) {
  auto setting = [](const GoldenCase& c, const char* key) { return c.config.at(key).get<std::int64_t>(); };
  const GoldenCase gpt2(golden_root() / "gpt2");
  const std::int64_t d = setting(gpt2, "n_embd"), layers = setting(gpt2, "n_layer");
  const std::int64_t weights = layers * (4 * d * d + 8 * d * d) + setting(gpt2, "vocab_size") * d;  // the embedding is the output too
  expect_parts(run("inspect '" + gpt2.folder.string() + "'").out,
               {fmt::format("{:.2f} M per token", 2e-6 * static_cast<double>(weights)),
                fmt::format("{:.1f} KB more for each token", 8e-3 * static_cast<double>(d * layers))});
  const GoldenCase vit(golden_root() / "vit");
  const std::int64_t side = setting(vit, "image_size") / setting(vit, "patch_size"), tokens = side * side + 1;
  const std::int64_t width = setting(vit, "hidden_size");
  const std::int64_t products = tokens * setting(vit, "num_hidden_layers") *
      (4 * width * width + 2 * width * setting(vit, "intermediate_size"));
  expect_parts(run("inspect '" + vit.folder.string() + "'").out,
               {fmt::format("{:.2f} M in the layers for an image of {} patches", 2e-6 * static_cast<double>(products), tokens)});
  expect_parts(run("inspect '" + (golden_root() / "swin").string() + "'").out, {"merging of patches", "for an image of", "feed-forward: "});
  expect_parts(run("inspect '" + (golden_root() / "patchtst").string() + "'").out, {"a channel of a series of"});
}

// P parameters, of which L are in layers and l in the largest, and N processes; see docs/scale.md.
TEST_F(Command, InspectSaysWhatEachOfSeveralProcessesHasAndSends) {
  const std::string sizes = "inspect --d-model 64 --d-ff 256 --num-heads 2 --num-layers 2 --src-vocab-size 1000 ";
  const double d = 64, f = 256, attention = 4 * d * d + 4 * d, feed_forward = 2 * d * f + d + f, norm = 2 * d;
  const double l = 2 * attention + feed_forward + 3 * norm, layers = 2 * (attention + feed_forward + 2 * norm) + 2 * l;
  const std::string out = run(sizes + "--processes 4").out;
  const auto at = out.find("total");
  ASSERT_NE(at, std::string::npos) << out;
  const double p = std::stod(out.substr(at + 5)), n = 4, outside = p - layers;
  expect_parts(
      out,
      {fmt::format("{:.1f} MB of Adam's state", 8e-6 * p / n), fmt::format("sends {:.1f} MB for each update, half", 8e-6 * p * 3 / 4),
       fmt::format("{:.1f} MB of the layers' weights", 4e-6 * layers / n), fmt::format("{:.1f} MB of those at work", 16e-6 * l),
       fmt::format("{:.1f} MB of weights and gradients outside", 8e-6 * outside),
       fmt::format("sends {:.1f} MB for each update of one", (8e-6 * p + 4e-6 * layers) * 3 / 4)});
}

}  // namespace transformer::test
