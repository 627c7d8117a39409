#include "transformer/explain/explainer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "io/shared/base64.h"
#include "support/golden.h"
#include "support/temporary_folder.h"
#include "transformer/explain/report.h"
#include "transformer/explain/worked_example.h"

namespace transformer::test {
namespace {

std::vector<std::int32_t> first_row(const GoldenCase& c, const char* name) {
  const Tensor ids = c.expected.tensor(name);
  const std::vector<std::int64_t> all = ids.to_vector<std::int64_t>();
  return {all.begin(), all.begin() + ids.dim(1)};
}

Tensor as_row(Context& ctx, const std::vector<std::int32_t>& ids) {
  return Tensor::from<std::int64_t>(ctx, {1, std::ssize(ids)}, std::vector<std::int64_t>(ids.begin(), ids.end()));
}

// Every layer and head of `attention` is what the model's run gives under these names.
void expect_run(const Explanation& seen, const NamedTensors& run, const std::string& attention, const std::string& names) {
  const SeenAttention& a = seen.attention(attention);
  ASSERT_GT(a.layers.size(), 0U);
  for (std::size_t layer = 0; layer < a.layers.size(); ++layer) {
    const Tensor want = run.at(names + "." + std::to_string(layer)).to_host();
    const std::int64_t size = want.dim(2) * want.dim(3);
    ASSERT_EQ(want.dim(1), a.heads());
    for (std::int64_t head = 0; head < a.heads(); ++head) {
      const std::vector<float> got = seen.map({.attention = attention, .layer = static_cast<std::int64_t>(layer), .head = head});
      ASSERT_EQ(std::ssize(got), size);
      for (std::int64_t i = 0; i < size; ++i)
        ASSERT_EQ(got[static_cast<std::size_t>(i)], want.data<float>()[(a.sample * a.heads() + head) * size + i])
            << attention << " layer " << layer << " head " << head << " value " << i;
    }
  }
}

// The steps of the worked example end in the weights that the model computed.
void expect_example(const Explanation& seen, const std::string& attention, const std::string& stack) {
  const SeenStack& s = seen.stack(stack);
  for (std::int64_t head = 0; head < s.config.heads; ++head) {
    const WorkedExample e = worked_example(seen, head, stack);
    const std::vector<float> weights = seen.map({.attention = attention, .layer = 0, .head = head});
    ASSERT_EQ(e.weights.size(), weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) ASSERT_NEAR(e.weights[i], weights[i], 2e-5) << "head " << head << " value " << i;
    for (std::size_t i = 0; i < e.scores.size() && !e.biased; ++i)
      ASSERT_NEAR(e.scaled[i], static_cast<double>(e.scores[i]) * e.scale,
                  1e-5 * std::max(1.0, std::abs(static_cast<double>(e.scores[i]))));
    EXPECT_EQ(std::ssize(e.output), e.tokens * e.head_dim);
  }
}

class TextFamily : public testing::TestWithParam<const char*> {};

TEST_P(TextFamily, AttentionIsThatOfRun) {
  Context ctx;
  const GoldenCase c(golden_root() / GetParam());
  const Explainer explainer = Explainer::load(ctx, c.folder);
  const std::vector<std::int32_t> ids = first_row(c, "input_ids");
  const Explanation seen = explainer.tokens(ctx, ids);
  const NoGradients no_gradients(ctx);
  expect_run(seen, explainer.model().run(ctx, {{"input_ids", as_row(ctx, ids)}}, {.attentions = true}), "self", "attentions");
  expect_example(seen, "self", "stack");
  EXPECT_EQ(seen.sides.front().tokens.size(), ids.size());
}
INSTANTIATE_TEST_SUITE_P(Explain, TextFamily,
                         testing::Values("gpt2", "llama", "mistral", "qwen2", "falcon", "bert-mlm", "bert-cls", "bert-base", "roberta-cls",
                                         "distilbert-cls"),
                         [](const auto& info) { return std::regex_replace(std::string(info.param), std::regex("-"), "_"); });

class PairFamily : public testing::TestWithParam<const char*> {};

TEST_P(PairFamily, AttentionIsThatOfRun) {
  Context ctx;
  const GoldenCase c(golden_root() / GetParam());
  const Explainer explainer = Explainer::load(ctx, c.folder);
  const std::vector<std::int32_t> source = first_row(c, "input_ids"), target = first_row(c, "decoder_input_ids");
  const Explanation seen = explainer.tokens(ctx, source, {.target_ids = target});
  const NoGradients no_gradients(ctx);
  const NamedTensors run = explainer.model().run(ctx, {{"input_ids", as_row(ctx, source)}, {"decoder_input_ids", as_row(ctx, target)}},
                                                 {.attentions = true});
  expect_run(seen, run, "encoder", "encoder_attentions");
  expect_run(seen, run, "decoder", "decoder_attentions");
  expect_run(seen, run, "cross", "cross_attentions");
  expect_example(seen, "encoder", "encoder");
  expect_example(seen, "decoder", "decoder");
  // The first choice at each place is the model's own.
  const Tensor logits = run.at("logits").to_host();
  for (const SeenPrediction& p : seen.predictions) {
    const float* row = logits.data<float>() + p.position * logits.cols();
    EXPECT_EQ(p.choices.front().id, std::max_element(row, row + logits.cols()) - row);
    EXPECT_NEAR(p.choices.front().logit, row[p.choices.front().id], 1e-5);
  }
}
INSTANTIATE_TEST_SUITE_P(Explain, PairFamily, testing::Values("t5", "t5-v1_1", "bart", "marian", "mbart", "m2m_100", "pegasus"),
                         [](const auto& info) { return std::regex_replace(std::string(info.param), std::regex("-"), "_"); });

// A copy of a case, with what its folder lacks.
std::filesystem::path case_with(const TemporaryFolder& folder, const std::string& name, const std::string& file, const std::string& text) {
  const std::filesystem::path copy = folder / name;
  std::filesystem::copy(golden_root() / name, copy);
  std::ofstream(copy / file) << text;
  return copy;
}

std::filesystem::path vit_folder(const TemporaryFolder& folder, std::int64_t size) {
  return case_with(folder, "vit", "preprocessor_config.json",
                   nlohmann::json{{"image_processor_type", "ViTImageProcessor"}, {"size", {{"height", size}, {"width", size}}}}.dump());
}

Image some_image(std::int64_t size) {
  Image image{.height = size, .width = size, .channels = 3};
  for (std::int64_t i = 0; i < size * size * 3; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * 37 % 251));
  return image;
}

TEST(Explain, AnImagesAttentionIsThatOfRun) {
  Context ctx;
  const TemporaryFolder folder;
  const GoldenCase c(golden_root() / "vit");
  const auto size = c.config.at("image_size").get<std::int64_t>(), patch = c.config.at("patch_size").get<std::int64_t>();
  const std::filesystem::path vit = vit_folder(folder, size);
  const Explainer explainer = Explainer::load(ctx, vit);
  const Image image = some_image(size);
  const Explanation seen = explainer.image(ctx, image);
  const NoGradients no_gradients(ctx);
  const Tensor pixels = ImageProcessor::load(vit)(ctx, {image});
  expect_run(seen, explainer.model().run(ctx, {{"pixel_values", pixels}}, {.attentions = true}), "self", "attentions");
  expect_example(seen, "self", "stack");
  EXPECT_EQ(seen.sides.front().rows, size / patch);
  EXPECT_EQ(std::ssize(seen.sides.front().tokens), 1 + seen.sides.front().rows * seen.sides.front().columns);
  EXPECT_GT(seen.predictions.front().choices.front().probability, 0.0);
  const nlohmann::json answer = explainer.answer(ctx, {{"image", to_base64(encode_png(image))}, {"rollout", true}});
  EXPECT_EQ(answer.at("image").at("rows"), seen.sides.front().rows);
  EXPECT_EQ(answer.at("rollout").at("values").size(), answer.at("map").at("values").size());
}

// Swin's weights are those of run, put where their tokens stand; rows still sum to 1.
TEST(Explain, WindowsAreAMapOfAllPatches) {
  Context ctx;
  const TemporaryFolder folder;
  const GoldenCase c(golden_root() / "swin");
  const auto size = c.config.at("image_size").get<std::int64_t>();
  const std::filesystem::path swin = case_with(
      folder, "swin", "preprocessor_config.json",
      nlohmann::json{{"image_processor_type", "ViTImageProcessor"}, {"size", {{"height", size}, {"width", size}}}}.dump());
  const Explainer explainer = Explainer::load(ctx, swin);
  const Image image = some_image(size);
  const Explanation seen = explainer.image(ctx, image);
  const NoGradients no_gradients(ctx);
  const NamedTensors run = explainer.model().run(ctx, {{"pixel_values", ImageProcessor::load(swin)(ctx, {image})}}, {.attentions = true});
  ASSERT_EQ(seen.attentions.size(), c.config.at("depths").size());
  for (std::size_t stage = 0; stage < seen.attentions.size(); ++stage) {
    const SeenAttention& a = seen.attentions[stage];
    const std::int64_t n = std::ssize(seen.side(a.rows).tokens);
    EXPECT_EQ(n, seen.side(a.rows).rows * seen.side(a.rows).columns);
    std::vector<float> weights = run.at(fmt::format("attentions.{}", stage)).to_host().to_vector<float>(), shown;
    for (std::int64_t head = 0; head < a.heads(); ++head) {
      const std::vector<float> map = seen.map({.attention = a.name, .head = head});
      for (std::int64_t row = 0; row < n; ++row) {
        double sum = 0.0;
        for (std::int64_t column = 0; column < n; ++column) sum += static_cast<double>(map[static_cast<std::size_t>(row * n + column)]);
        EXPECT_NEAR(sum, 1.0, 1e-4) << a.name;
      }
      for (const float v : map)
        if (v != 0.0F) shown.push_back(v);
    }
    std::erase(weights, 0.0F);
    std::sort(weights.begin(), weights.end()), std::sort(shown.begin(), shown.end());
    EXPECT_EQ(shown, weights) << a.name;
  }
  EXPECT_EQ(explainer.answer(ctx, {{"image", to_base64(encode_png(image))}, {"attention", "stage2"}}).at("map").at("attention"), "stage2");
  const nlohmann::json rolled = explainer.answer(ctx, {{"image", to_base64(encode_png(image))}, {"rollout", true}}).at("rollout");
  EXPECT_EQ(rolled.at("from"), "pooled");
  EXPECT_EQ(rolled.at("rows").get<std::size_t>(), seen.side("pooled").tokens.size());
  EXPECT_EQ(rolled.at("columns").get<std::size_t>(), seen.side(rolled.at("to").get<std::string>()).tokens.size());
  for (const View view : {View::attention, View::matrix, View::rollout, View::next})
    EXPECT_NE(picture_of(seen, view, {}).find("</svg>"), std::string::npos);
  EXPECT_NE(report_html(seen).find("Roll-out"), std::string::npos);
}

TEST(Explain, ASeriesAttentionIsThatOfRun) {
  Context ctx;
  const GoldenCase c(golden_root() / "patchtst");
  const Explainer explainer = Explainer::load(ctx, c.folder);
  const Tensor past = c.expected.tensor("past_values");
  SeriesTable table{.name = "test"};
  for (std::int64_t i = 0; i < past.dim(2); ++i) table.channels.push_back(fmt::format("c{}", i));
  const std::vector<float> all = past.to_vector<float>();
  table.values.assign(all.begin(), all.begin() + past.dim(1) * past.dim(2));
  const std::int64_t channel = past.dim(2) - 1;
  const Explanation seen = explainer.series(ctx, table, {.channel = channel});
  const NoGradients no_gradients(ctx);
  const NamedTensors run = explainer.model().run(
      ctx, {{"past_values", Tensor::from<float>(ctx, {1, past.dim(1), past.dim(2)}, {table.values.begin(), table.values.end()})}},
      {.attentions = true});
  EXPECT_EQ(seen.attention("self").sample, channel);
  expect_run(seen, run, "self", "attentions");
  expect_example(seen, "self", "stack");
  EXPECT_EQ(std::ssize(seen.series.history), past.dim(1));
  ASSERT_FALSE(seen.series.patches.empty());
  EXPECT_EQ(seen.series.patches.back().second, past.dim(1)) << "the last patch ends with the last value";
  const Tensor next = run.at("prediction_outputs").to_host();
  ASSERT_EQ(std::ssize(seen.series.forecast), next.dim(1));
  EXPECT_NEAR(seen.series.forecast.front(), next.data<float>()[channel], 1e-5);
}

TEST(Explain, TheAnswerHasItsShape) {
  Context ctx;
  const GoldenCase c(golden_root() / "gpt2");
  const Explainer explainer = Explainer::load(ctx, c.folder);
  const std::vector<std::int32_t> ids = first_row(c, "input_ids");
  const nlohmann::json answer = explainer.answer(
      ctx,
      {{"ids", ids}, {"layer", 1}, {"head", 2}, {"thumbnails", 4}, {"rollout", true}, {"example", true}, {"top", 5}, {"dimensions", 3}});
  EXPECT_EQ(answer.at("version"), 1);
  EXPECT_EQ(answer.at("kind"), "text");
  EXPECT_EQ(answer.at("purpose"), "next_words");
  EXPECT_EQ(answer.at("sides").at(0).at("tokens").size(), ids.size());
  const nlohmann::json& stack = answer.at("stacks").at(0);
  EXPECT_EQ(stack.at("vectors").at("tokens").at(0).size(), 3U);
  EXPECT_EQ(stack.at("activity").size(), stack.at("layers"));
  EXPECT_EQ(stack.at("activity").at(0).at("active").size(), ids.size());
  EXPECT_EQ(stack.at("norms").size(), stack.at("layers").get<std::size_t>() + 1);
  EXPECT_EQ(answer.at("heads").size(), stack.at("heads"));
  EXPECT_LE(answer.at("heads").at(0).at("rows"), 4);
  EXPECT_EQ(answer.at("predictions").at(0).at("choices").size(), 5U);
  // The map is the one that was asked for, to six decimals.
  const std::vector<float> want = explainer.tokens(ctx, ids).map({.layer = 1, .head = 2});
  ASSERT_EQ(answer.at("map").at("values").size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(answer.at("map").at("values").at(i).get<double>(), want[i], 5.1e-7);
  // Without what does not change from head to head.
  const nlohmann::json other = explainer.answer(ctx, {{"ids", ids}, {"head", -1}, {"map_only", true}});
  EXPECT_FALSE(other.contains("stacks"));
  EXPECT_EQ(other.at("map").at("head"), -1);
}

TEST(Explain, SaysWhatIsWrongWithARequest) {
  Context ctx;
  const Explainer explainer = Explainer::load(ctx, golden_root() / "gpt2");
  const auto refuses = [&](const nlohmann::json& request, const std::vector<std::string>& parts) {
    expect_error([&] { explainer.answer(ctx, request); }, parts);
  };
  refuses(nlohmann::json::array(), {"JSON object"});
  refuses({{"txt", "a"}}, {"'txt'", "text"});
  refuses({{"text", "a"}}, {"no tokenizer"});
  refuses({{"ids", {0, -1}}}, {"token -1"});
  refuses({{"ids", {1.5}}}, {"ids", "list of token ids"});
  refuses({{"ids", {4294967297}}}, {"ids", "list of token ids"});
  refuses({{"ids", nlohmann::json::array()}}, {"no tokens"});
  refuses({{"ids", {1, 2}}, {"layer", 99}}, {"layer 99"});
  refuses({{"ids", {1, 2}}, {"head", "one"}}, {"head", "whole number"});
  refuses({{"ids", {1, 2}}, {"attention", "cross"}}, {"'cross'", "self"});
  refuses({{"ids", std::vector<int>(2000, 1)}}, {"2000 tokens", "1024"});
  expect_error([&] { explainer.image(ctx, some_image(4)); }, {"takes a text, not an image"});
}

}  // namespace
}  // namespace transformer::test
