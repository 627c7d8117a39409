// `transformer explain` as its user meets it: the numbers are those of `transformer run`.
#include <fmt/format.h>

#include "cli/training.h"
#include "io/shared/json.h"
#include "transformer/core/context.h"
#include "transformer/io/safetensors.h"
#include "transformer/tokenizers/tokenizer.h"
#include "transformer/vision/image.h"

namespace transformer::test {
namespace {

class ExplainVerb : public Training {
 protected:
  void make_model() {
    std::string text;
    for (int i = 0; i < 60; ++i) text += fmt::format("나는 {}번 학교에 간다.\n", i % 7);
    write("text.txt", text);
    const CommandResult r = run(
        "train lm --text text.txt --d-model 32 --num-heads 2 --num-layers 2 --context 16 --batch-size 8 --max-update 2 "
        "--warmup-updates 1 --threads 2 --save-dir model");
    ASSERT_EQ(r.code, 0) << r.err;
  }
};

TEST_F(ExplainVerb, ItsNumbersAreThoseOfRun) {
  make_model();
  CommandResult r = run("explain model --text '나는 학교에' --layer 1 --head 1 --out look.json");
  ASSERT_EQ(r.code, 0) << r.err;
  const nlohmann::json look = read_json(folder_ / "look.json");
  std::vector<std::int64_t> ids;
  for (const auto& token : look.at("sides").at(0).at("tokens")) ids.push_back(token.at("id").get<std::int64_t>());
  EXPECT_EQ(std::ssize(ids), 6) << "a token for each character";
  Context ctx;
  save_safetensors(folder_ / "x.safetensors", {{"input_ids", Tensor::from<std::int64_t>(ctx, {1, std::ssize(ids)}, ids)}});
  r = run("run model --inputs x.safetensors --outputs y.safetensors");
  ASSERT_EQ(r.code, 0) << r.err;
  const std::vector<float> all = SafetensorsFile(folder_ / "y.safetensors").tensor("attentions.1").to_vector<float>();
  const auto& values = look.at("map").at("values");
  ASSERT_EQ(values.size(), 36U);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i].get<double>(), all[36 + i], 5.1e-7);
}

TEST_F(ExplainVerb, WritesPicturesAndAPage) {
  make_model();
  for (const char* view : {"attention", "rollout", "next", "example"}) {
    const CommandResult r = run(fmt::format("explain model --text '나는 학교에' --view {} --head -1 --out x.svg", view));
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(read("x.svg").substr(0, 4), "<svg") << view;
  }
  for (const char* view : {"positions", "waves"}) {
    EXPECT_EQ(run(fmt::format("explain model --view {} --out x.svg", view)).code, 0) << read("stderr");
    EXPECT_EQ(run(fmt::format("explain --view {} --out x.svg", view)).code, 0) << read("stderr");
    expect_parts(read("x.svg"), {"sinusoidal"});
  }
  ASSERT_EQ(run("explain model --text '나는 학교에' --theme dark --out x.png").code, 0) << read("stderr");
  EXPECT_GT(read_image(folder_ / "x.png").width, 200);
  ASSERT_EQ(run("explain model --text '나는 학교에' --out x.html").code, 0) << read("stderr");
  expect_parts(read("x.html"), {"<!doctype html>", "나는 학교에", "Step by step"});

  expect_usage("explain model --out x.svg", "--text");
  expect_usage("explain --text a --out x.svg", "MODEL");
  expect_usage("explain model --text a", "--out");
  expect_usage("explain model --text a --csv b.csv --out x.svg", "exclude each other");
  expect_failure("explain model --text 나 --layer 7 --out x.svg", "layer 7");
  expect_failure("explain model --image none.png --out x.svg", "none.png");
}

}  // namespace
}  // namespace transformer::test
