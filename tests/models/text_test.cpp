// What text models must do whatever their family; the numbers are in family_test.
#include "transformer/models/text.h"

#include <map>

#include "io/shared/json.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace transformer::test {
namespace {

using nlohmann::json;

const std::vector<json> decoders{
    {{"model_type", "gpt2"}, {"vocab_size", 13}, {"n_embd", 8}, {"n_head", 2}, {"n_layer", 2}, {"n_positions", 16}},
    {{"model_type", "qwen2"},
     {"vocab_size", 13},
     {"hidden_size", 8},
     {"num_attention_heads", 2},
     {"num_key_value_heads", 1},
     {"intermediate_size", 12},
     {"num_hidden_layers", 2},
     {"max_position_embeddings", 16},
     {"use_sliding_window", true},
     {"sliding_window", 3},
     {"max_window_layers", 1}},
    {{"model_type", "falcon"},
     {"vocab_size", 13},
     {"hidden_size", 24},
     {"num_attention_heads", 3},
     {"num_hidden_layers", 2},
     {"alibi", true}},
};

Tensor ids(Context& ctx, std::int64_t rows, const std::vector<std::int64_t>& values) {
  return Tensor::from<std::int64_t>(ctx, {rows, static_cast<std::int64_t>(values.size()) / rows}, values);
}

TextModel& text(Model& model) { return dynamic_cast<TextModel&>(model); }

}  // namespace

TEST(Text, PaddingOnEitherSideChangesNothing) {
  for (const json& config : decoders) {
    SCOPED_TRACE(config.at("model_type"));
    Context ctx;
    const auto model = make_model(config);
    initialize(ctx, model->parameters());
    const std::vector<double> alone = detail::to_double(model->run(ctx, {{"input_ids", ids(ctx, 1, {5, 6, 7, 8})}}).at("logits"));
    for (const bool left : {true, false}) {
      const auto rows = left ? std::vector<std::int64_t>{1, 2, 3, 4, 5, 9, 0, 0, 5, 6, 7, 8}
                             : std::vector<std::int64_t>{5, 6, 7, 8, 0, 0, 1, 2, 3, 4, 5, 9};
      const auto mask = left ? std::vector<std::int64_t>{1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1}
                             : std::vector<std::int64_t>{1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1};
      const std::vector<double> both = detail::to_double(
          model->run(ctx, {{"input_ids", ids(ctx, 2, rows)}, {"attention_mask", ids(ctx, 2, mask)}}).at("logits"));
      const std::size_t begin = left ? 8 * 13 : 0;
      for (std::size_t i = 0; i < alone.size(); ++i) ASSERT_NEAR(both[begin + i], alone[i], 1e-6) << i;
    }
  }
}

// Token by token with a cache is the same as all at once.
TEST(Text, StepsGiveTheSameLogits) {
  for (const json& config : decoders) {
    SCOPED_TRACE(config.at("model_type"));
    Context ctx;
    const auto model = make_model(config);
    initialize(ctx, model->parameters());
    const NoGradients no_gradients(ctx);
    const Tensor all = ids(ctx, 2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
    const std::vector<double> want = detail::to_double(model->run(ctx, {{"input_ids", all}}).at("logits"));  // [2, 5, 13]
    KVCache cache(2);
    for (std::int64_t i = 0; i < 5; ++i) {
      const Tensor next = Tensor::from<std::int64_t>(ctx, {2}, std::vector<std::int64_t>{1 + i, 6 + i});
      const Tensor hidden = text(*model).hidden(ctx, {.ids = next, .sequences = Sequences::uniform(2, 1), .cache = &cache});
      const std::vector<double> got = detail::to_double(text(*model).logits(ctx, hidden));  // [2, 13]
      for (std::size_t row = 0; row < 2; ++row)
        for (std::size_t j = 0; j < 13; ++j)
          ASSERT_NEAR(got[row * 13 + j], want[(row * 5 + static_cast<std::size_t>(i)) * 13 + j], 1e-5) << "step " << i;
    }
  }
}

// With weights that are bfloat16 in memory the results are those of bfloat16 arithmetic.
TEST(Text, RunsWithBfloat16Weights) {
  Context ctx({.precision = DType::bfloat16});
  const auto exact = make_model(decoders[1]);
  initialize(ctx, exact->parameters());
  const TemporaryFolder folder;
  save_model(ctx, *exact, folder.path(), {.dtype = DType::bfloat16});
  EXPECT_EQ(read_json(folder / "config.json").at("dtype"), "bfloat16");
  EXPECT_EQ(SafetensorsFile(folder / "model.safetensors").stored_type("lm_head.weight"), "BF16");

  const NoGradients no_gradients(ctx);
  const NamedTensors in{{"input_ids", ids(ctx, 1, {1, 2, 3, 4, 5})}};
  const auto low = load_model(ctx, folder.path(), {.dtype = DType::bfloat16}), high = load_model(ctx, folder.path());
  const Tensor got = low->run(ctx, in).at("logits"), want = high->run(ctx, in).at("logits");
  EXPECT_EQ(got.dtype(), DType::bfloat16);
  expect_near(got, detail::to_double(want), 1e-2);
  // Saved again, the same bits.
  const TemporaryFolder again;
  save_model(ctx, *low, again.path());
  const SafetensorsFile a(folder / "model.safetensors"), b(again / "model.safetensors");
  for (const std::string& name : a.names())
    EXPECT_EQ(std::memcmp(a.tensor(name).raw(), b.tensor(name).raw(), static_cast<std::size_t>(a.tensor(name).numel() * 2)), 0) << name;
}

TEST(Text, RefusesInputsThatDoNotFit) {
  Context ctx;
  const auto model = make_model(decoders[0]);
  initialize(ctx, model->parameters());
  const Tensor good = ids(ctx, 2, {1, 2, 3, 4});
  auto refused = [&](const NamedTensors& inputs, const std::vector<std::string>& parts) {
    expect_error([&] { model->run(ctx, inputs); }, parts);
  };
  refused({}, {"needs input_ids; given: nothing"});
  refused({{"ids", good}}, {"does not know the input 'ids'", "input_ids"});
  refused({{"input_ids", Tensor::zeros(ctx, {4}, DType::int64)}}, {"input_ids [4] should have 2 dimensions"});
  refused({{"input_ids", good}, {"attention_mask", ids(ctx, 1, {1, 1, 1, 1})}}, {"attention_mask [1, 4] does not fit input_ids [2, 2]"});
  refused({{"input_ids", good}, {"attention_mask", ids(ctx, 2, {0, 0, 0, 0})}}, {"empty"});
  refused({{"input_ids", good}, {"labels", ids(ctx, 1, {1, 1})}}, {"labels [1, 2] does not fit"});
  refused({{"input_ids", good}, {"position_ids", ids(ctx, 2, {0, 1, 0, 99})}}, {"longer than the model's 16 positions"});
  refused({{"input_ids", good}, {"position_ids", ids(ctx, 2, {0, 1, 0, -1})}}, {"position_ids has -1"});
  refused({{"input_ids", ids(ctx, 1, {13})}}, {"13"});
  refused({{"input_ids", Tensor::zeros(ctx, {1, 17}, DType::int64)}}, {"a text of 17 tokens is longer than the model's 16 positions"});
}

// Labels at padded places count in an encoder, as in the reference, and are computed there.
TEST(Text, LabelsAtPaddingCountInEncoders) {
  Context ctx;
  const auto model = make_model({{"model_type", "bert"},
                                 {"architectures", {"BertForMaskedLM"}},
                                 {"vocab_size", 13},
                                 {"hidden_size", 8},
                                 {"num_attention_heads", 2},
                                 {"intermediate_size", 12},
                                 {"num_hidden_layers", 2}});
  initialize(ctx, model->parameters());
  const Tensor tokens = ids(ctx, 2, {1, 2, 3, 4, 5, 0}), mask = ids(ctx, 2, {1, 1, 1, 1, 1, 0});
  auto loss = [&](const std::vector<std::int64_t>& labels) {
    return model->run(ctx, {{"input_ids", tokens}, {"attention_mask", mask}, {"labels", ids(ctx, 2, labels)}}).at("loss").item();
  };
  // Two labels are the mean of each alone, whether the batch is packed (the first) or not (the other two).
  EXPECT_NEAR(loss({7, -100, -100, -100, -100, 8}),
              0.5F * (loss({7, -100, -100, -100, -100, -100}) + loss({-100, -100, -100, -100, -100, 8})), 1e-5F);
}

// Fine-tuning: the body of a checkpoint under another head, whose tensors are fresh.
TEST(Text, AnotherHeadOnTheSameBody) {
  Context ctx;
  const std::filesystem::path folder = golden_root() / "bert-mlm";
  const auto language = load_model(ctx, folder);
  const json changes{{"architectures", {"BertForSequenceClassification"}}, {"num_labels", 4}, {"hidden_dropout_prob", 0.0}};
  json shorter = changes;
  shorter["num_hidden_layers"] = 1;
  expect_error([&] { load_model(ctx, folder, {.changes = shorter}); }, {"unexpected: bert.encoder.layer.1."});
  shorter["num_hidden_layers"] = 3;
  expect_error([&] { load_model(ctx, folder, {.changes = shorter}); }, {"missing: bert.encoder.layer.2."});
  expect_error(
      [&] {
    load_model(ctx, golden_root() / "bert-base", {.changes = {{"architectures", {"BertModel"}}, {"num_hidden_layers", 3}}});
      },
      {"missing: encoder.layer.2."});
  const auto classes = load_model(ctx, folder, {.changes = changes});
  EXPECT_EQ(classes->config().at("architectures")[0], "BertForSequenceClassification");
  std::map<std::string, Tensor> body;
  for (const NamedParameter& p : language->parameters()) body[p.name] = p.parameter->tensor;
  std::size_t same = 0;
  for (const NamedParameter& p : classes->parameters()) {
    ASSERT_TRUE(has_gradient(p.parameter->tensor)) << p.name;
    if (p.name.starts_with("head.")) continue;
    expect_near(p.parameter->tensor, detail::to_double(body.at(p.name)), 0.0);
    ++same;
  }
  EXPECT_GT(same, 10U);
  const NamedTensors out = classes->run(ctx, {{"input_ids", ids(ctx, 2, {1, 2, 3, 4})}, {"labels", Tensor::zeros(ctx, {2}, DType::int64)}});
  EXPECT_EQ(out.at("logits").shape().str(), "[2, 4]");
  EXPECT_TRUE(std::isfinite(out.at("loss").item()));
  // Other classes than the file's: a fresh layer of that size, the pooler stays.
  const auto more = load_model(ctx, golden_root() / "bert-cls",
                               {.changes = {{"id2label", {{"0", "a"}, {"1", "b"}, {"2", "c"}, {"3", "d"}, {"4", "e"}}}}});
  EXPECT_EQ(more->run(ctx, {{"input_ids", ids(ctx, 1, {1, 2})}}).at("logits").shape().str(), "[1, 5]");
}

}  // namespace transformer::test
