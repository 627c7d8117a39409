// The task of classifying texts: its loss, its folder, and models that it begins with.
#include "transformer/train/classify.h"

#include <fstream>

#include "io/shared/json.h"
#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "train/encoder_batch.h"
#include "transformer/predict/classifier.h"
#include "transformer/train/mlm.h"
#include "transformer/train/trainer.h"

namespace transformer::test {
namespace {

class Classify : public testing::Test {
 protected:
  Classify() {
    write("train.tsv", "sun and rain\tweather\nwind and snow\tweather\nmuch rain in the night\tweather\nbees like trees\tnature\n");
    write("valid.tsv", "snow in the night\tweather\ntrees and bees\tnature\n");
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  ClassifyConfig config() const { return {.data = path("train.tsv"), .valid = path("valid.tsv"), .max_length = 16}; }
  static EncoderConfig small(EncoderArch arch = EncoderArch::bert) {
    return {.arch = arch, .d_model = 16, .num_heads = 2, .num_layers = 1, .d_ff = 24, .dropout = 0.0F, .attention_dropout = 0.0F};
  }
  static EncoderVocabulary words() { return {.subwords = EncoderPieces::whitespace}; }

  TemporaryFolder folder_;
};

// The losses of single texts, each a batch of its own.
std::vector<float> losses(Context& ctx, ClassifyTask& task) {
  std::vector<float> out;
  for (std::int64_t i = 0, n = task.plan(0); i < n; ++i) {
    const Batch batch = task.prepare(i);
    EXPECT_EQ(batch.targets, 1);
    out.push_back(task.loss(ctx, batch).item());
  }
  return out;
}

TEST_F(Classify, WeightsOfClassesScaleTheLoss) {
  ClassifyConfig data = config();
  data.max_tokens = 7;  // one text per batch
  const auto with = [&](const std::string& weights) {
    Context ctx({.seed = 3});
    data.class_weights = weights;
    ClassifyTask task(ctx, data, small(), words());
    EXPECT_EQ(task.classes(), (std::vector<std::string>{"nature", "weather"}));
    return losses(ctx, task);
  };
  const std::vector<float> plain = with("none"), even = with("7,7"), balanced = with("balanced");
  ASSERT_EQ(plain.size(), 4U);
  int doubled = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(even[i], plain[i], 1e-6F);
    const bool rare = balanced[i] > 1.5F * plain[i];  // 4 / (2·1) = 2 for the one text about nature, 4 / (2·3) for the others
    EXPECT_NEAR(balanced[i], plain[i] * (rare ? 2.0F : 2.0F / 3.0F), 1e-5F);
    doubled += rare ? 1 : 0;
  }
  EXPECT_EQ(doubled, 1);
  expect_error([&] { with("1,2,3"); }, {"3 numbers", "2 classes", "nature, weather"});
  expect_error([&] { with("1,x"); }, {"'1,x'", "balanced"});
  expect_error([&] { with("0,0"); }, {"count for nothing"});
}

TEST_F(Classify, EveryFamilyLearnsAndItsFolderGivesTheSameFigures) {
  for (const EncoderArch arch : {EncoderArch::bert, EncoderArch::roberta, EncoderArch::distilbert}) {
    Context ctx({.seed = 5});
    ClassifyTask task(ctx, config(), small(arch), words());
    const std::string save = path(std::string("model-") + std::to_string(static_cast<int>(arch)));
    const TrainResult result = Trainer(ctx, task,
                                       {.save_dir = save,
                                        .max_update = 60,
                                        .lr = 0.01F,
                                        .warmup_updates = 5,
                                        .validate_interval_updates = 20,
                                        .save_interval_updates = 60,
                                        .best_metric = "accuracy",
                                        .quiet = true})
                                   .run();
    EXPECT_EQ(result.step, 60);
    task.load(ctx, save);
    const std::optional<Evaluation> here = task.test(ctx);
    ASSERT_TRUE(here);
    EXPECT_EQ(std::get<ConfusionMatrix>(here->scores).accuracy(), 1.0);
    const Evaluation there = evaluate_classifier(ctx, save, path("valid.tsv"));
    EXPECT_EQ(there.loss, here->loss);
    EXPECT_EQ(there.to_json(), here->to_json());
    const std::vector<std::string> texts{"snow in the night", "trees and bees"};
    const auto labels = Classifier::load(ctx, save).texts(ctx, texts);
    EXPECT_EQ(labels[0][0].name + labels[1][0].name, "weathernature");
  }
}

TEST_F(Classify, TwoTextsAndLongOnes) {
  ClassifyConfig data = config();
  data.data = write("pairs.jsonl",
                    "{\"text\": \"sun\", \"second\": \"sun\", \"label\": \"same\"}\n"
                    "{\"text\": \"sun\", \"second\": \"rain rain rain rain rain rain rain\", \"label\": \"other\"}\n");
  data.valid = "";
  data.columns.second_column = "second";
  data.max_length = 8;
  Context ctx({.seed = 1});
  ClassifyTask task(ctx, data, small(), words());
  EXPECT_EQ(task.report().truncated, 1);
  task.plan(0);
  const auto [texts, labels] = std::any_cast<LabelledBatch>(task.prepare(0).content);
  ASSERT_EQ(texts.count(), 2);
  // Of the long pair the long text is cut; [SEP] stays: 2 5 3 6 6 6 6 3
  const std::size_t which = std::get<std::vector<std::int64_t>>(labels.values)[0] == 0 ? 0 : 1;
  ASSERT_EQ(texts.lengths[which], 8);
  const std::ptrdiff_t begin = which == 0 ? 0 : texts.lengths[0];
  EXPECT_EQ(std::vector(texts.ids.begin() + begin, texts.ids.begin() + begin + 8), (std::vector<std::int64_t>{2, 6, 3, 5, 5, 5, 5, 3}));
  EXPECT_EQ(std::vector(texts.types.begin() + begin, texts.types.begin() + begin + 8), (std::vector<std::int64_t>{0, 0, 0, 1, 1, 1, 1, 1}));
  EXPECT_TRUE(std::isfinite(task.loss(ctx, task.prepare(0)).item()));
}

// From a masked language model: its body with a new head. From a classifier: its head too, if it knows the classes.
TEST_F(Classify, GoesOnFromOtherModels) {
  Context ctx({.seed = 2});
  write("text", "sun and rain\nbees like trees\n");
  MlmTask(ctx, {.text = {path("text")}, .max_length = 16}, small(), words()).save(path("mlm"));
  ClassifyTask first(ctx, config(), EncoderStart{.from = path("mlm"), .dropout = 0.25F});
  EXPECT_EQ(first.model().config().at("architectures"), nlohmann::json::array({"BertForSequenceClassification"}));
  EXPECT_EQ(first.model().config().at("hidden_dropout_prob"), 0.25);
  EXPECT_EQ(first.layout(), "bert, from " + path("mlm"));
  first.save(path("first"));

  ClassifyTask same(ctx, config(), EncoderStart{.from = path("first")});
  EXPECT_EQ(same.classes(), first.classes());
  const auto weights = [](ClassifyTask& task) {
    std::vector<std::vector<float>> out;
    for (const NamedParameter& p : task.parameters()) out.push_back(p.parameter->tensor.to_vector<float>());
    return out;
  };
  EXPECT_EQ(weights(same), weights(first));

  ClassifyConfig others = config();
  others.data = write("others.tsv", "sun\tx\nrain\ty\nsnow\tz\n"), others.valid = "";
  ClassifyTask other(ctx, others, EncoderStart{.from = path("first")});
  EXPECT_EQ(other.classes(), (std::vector<std::string>{"x", "y", "z"}));
  EXPECT_EQ(other.network().text().labels, 3);
  other.save(path("other"));
  EXPECT_EQ(Classifier::load(ctx, path("other")).names(), other.classes());
}

// A head for several labels at once, or for numbers, that has the same classes: from now on it gives each text one.
TEST_F(Classify, GoesOnFromAHeadOfAnotherKind) {
  Context ctx({.seed = 2});
  ClassifyTask first(ctx, config(), small(), words());
  first.save(path("first"));
  for (const char* type : {"multi_label_classification", "regression"}) {
    nlohmann::json settings = read_json(folder_ / "first/config.json");
    settings["problem_type"] = type;
    write_json(folder_ / "first/config.json", settings);
    if (type == std::string("regression"))
      expect_error([&] { evaluate_classifier(ctx, path("first"), path("valid.tsv")); }, {"line 1", "expected 2, as the model"});
    ClassifyTask task(ctx, config(), EncoderStart{.from = path("first")});
    EXPECT_EQ(task.classes(), first.classes());
    EXPECT_EQ(task.model().config().at("problem_type"), "single_label_classification");
    task.plan(0);
    first.plan(0);
    EXPECT_EQ(task.loss(ctx, task.prepare(0)).item(), first.loss(ctx, first.prepare(0)).item()) << "the head is the same";
    task.save(path("tuned"));
    EXPECT_NO_THROW(evaluate_classifier(ctx, path("tuned"), path("valid.tsv")));
  }
}

// Of each kind of labels: what is learned, what the folder says, and that it gives the same figures when it is opened again.
TEST_F(Classify, SeveralLabelsAndNumbers) {
  write("several.jsonl",
        "{\"text\": \"sun and rain\", \"labels\": [\"rain\", \"sun\"]}\n{\"text\": \"much rain\", \"labels\": [\"rain\"]}\n"
        "{\"text\": \"the night\", \"labels\": []}\n{\"text\": \"sun sun\", \"labels\": [\"sun\", \"sun\"]}\n");
  write("several.tsv", "sun and rain\train, sun\nmuch rain\train\nthe night\t\nsun sun\tsun\n");
  write("number.tsv", "sun and rain\t-0.5\nmuch rain\t-1\nthe night\t0\nsun sun\t1.25\n");
  write("numbers.jsonl",
        "{\"text\": \"sun and rain\", \"label\": [-0.5, 1]}\n{\"text\": \"much rain\", \"label\": [-1, 2]}\n"
        "{\"text\": \"the night\", \"label\": [0, 0.5]}\n{\"text\": \"sun sun\", \"label\": [1.25, 0]}\n");
  struct Case {
    const char* file;
    const char* separator;
    ProblemType problem;
    const char* written;
    std::vector<std::string> names, metrics;
  };
  const std::vector<std::string> found{"loss", "micro_f1", "macro_f1", "accuracy"}, measured{"loss", "r2", "mse", "mae", "pearson"};
  for (const Case& c : {Case{"several.jsonl", "", ProblemType::multi_label, "multi_label_classification", {"rain", "sun"}, found},
                        Case{"several.tsv", ",", ProblemType::multi_label, "multi_label_classification", {"rain", "sun"}, found},
                        Case{"number.tsv", "", ProblemType::regression, "regression", {"LABEL_0"}, measured},
                        Case{"numbers.jsonl", "", ProblemType::regression, "regression", {"LABEL_0", "LABEL_1"}, measured}}) {
    ClassifyConfig data = config();
    data.data = data.valid = path(c.file);
    data.columns.label_separator = c.separator;
    Context ctx({.seed = 4});
    EncoderConfig model = small();
    model.d_model = 32;  // less may stay on a plateau for long
    ClassifyTask task(ctx, data, model, words());
    EXPECT_EQ(task.problem(), c.problem) << c.file;
    EXPECT_EQ(task.classes(), c.names);
    EXPECT_EQ(task.metrics(), c.metrics);
    EXPECT_EQ(task.model().config().at("problem_type"), c.written);
    const std::string save = path(std::string("model-") + c.file);
    Trainer(ctx, task,
            {.save_dir = save,
             .max_update = 300,
             .lr = 0.005F,
             .warmup_updates = 5,
             .validate_interval_updates = 100,
             .save_interval_updates = 300,
             .best_metric = c.metrics[1],
             .quiet = true})
        .run();
    task.load(ctx, save);
    const std::optional<Evaluation> here = task.test(ctx);
    ASSERT_TRUE(here);
    EXPECT_GT(here->metrics()[1].second, 0.99) << c.file;
    const Evaluation there = evaluate_classifier(ctx, save, path(c.file), data.columns);
    EXPECT_EQ(there.to_json(), here->to_json());
    // Further: with the head it has. And as something else: with a new one.
    EXPECT_EQ(ClassifyTask(ctx, data, EncoderStart{.from = save}).test(ctx)->to_json(), here->to_json());
    EXPECT_EQ(ClassifyTask(ctx, config(), EncoderStart{.from = save}).model().config().at("problem_type"), "single_label_classification");
    const std::vector<std::string> texts{"sun sun", "the night"};
    const auto labels = Classifier::load(ctx, save).texts(ctx, texts);
    if (c.problem == ProblemType::regression) {
      ASSERT_EQ(labels[0].size(), c.names.size());
      EXPECT_NEAR(labels[0][0].score, 1.25F, 0.2F);
    } else {
      ASSERT_EQ(labels[0].size(), 1U);
      EXPECT_EQ(labels[0][0].name, "sun");
      EXPECT_TRUE(labels[1].empty());
    }
  }
}

// mean((z - y)²), and the mean over texts and labels of -log p of what is true: written out once more.
TEST_F(Classify, LossesOfSeveralLabelsAndNumbers) {
  for (const bool numbers : {false, true}) {
    ClassifyConfig data = config();
    data.valid = "";
    data.data = numbers ? write("n.tsv", "sun\t0.5\nrain\t-2\n") : write("s.tsv", "sun\ta;b\nrain\tb\n");
    if (!numbers) data.columns.label_separator = ";";
    Context ctx({.seed = 9});
    ClassifyTask task(ctx, data, small(), words());
    task.plan(0);
    const Batch batch = task.prepare(0);
    EXPECT_EQ(batch.targets, 2);
    const auto [texts, labels] = std::any_cast<LabelledBatch>(batch.content);
    ASSERT_EQ(texts.lengths, (std::vector<std::int64_t>{3, 3}));  // one word each
    const Tensor ids = Tensor::from<std::int64_t>(ctx, {2, 3}, texts.ids);
    const std::vector<float> z = task.model().run(ctx, {{"input_ids", ids}}).at("logits").to_vector<float>();
    const auto y = std::get<std::vector<float>>(labels.values);
    ASSERT_EQ(z.size(), y.size());
    double sum = 0.0;
    for (std::size_t i = 0; i < z.size(); ++i) {
      const double p = 1.0 / (1.0 + std::exp(-static_cast<double>(z[i])));
      sum += numbers ? (z[i] - y[i]) * (z[i] - y[i]) : -std::log(y[i] > 0.5F ? p : 1.0 - p);
    }
    EXPECT_NEAR(task.loss(ctx, batch).item(), sum / static_cast<double>(z.size()), 1e-5);
  }
}

TEST_F(Classify, WhatLabelsAre) {
  const auto problem = [&](const std::string& text, const char* separator = "", ProblemType asked = ProblemType::by_labels) {
    ClassifyConfig data = config();
    data.data = write("labels.tsv", text), data.valid = "", data.columns.label_separator = separator, data.problem_type = asked;
    Context ctx;
    return ClassifyTask(ctx, data, small(), words()).problem();
  };
  EXPECT_EQ(problem("a\t1\nb\t2\n"), ProblemType::single_label) << "whole numbers are names of classes";
  EXPECT_EQ(problem("a\t1.0\nb\t2.0\n"), ProblemType::single_label);
  EXPECT_EQ(problem("a\t1\nb\t2\n", "", ProblemType::regression), ProblemType::regression);
  EXPECT_EQ(problem("a\t1\nb\t2.5\n"), ProblemType::regression);
  EXPECT_EQ(problem("a\t1\nb\t2.5\n", "", ProblemType::single_label), ProblemType::single_label);
  EXPECT_EQ(problem("a\t1\nb\t2.5x\n"), ProblemType::single_label);
  EXPECT_EQ(problem("a\t1;0.5\nb\t2.5;-1e-3\n", ";"), ProblemType::regression);
  EXPECT_EQ(problem("a\t1;0.5\nb\t2.5\n", ";"), ProblemType::multi_label) << "not as many for each";
  EXPECT_EQ(problem("a\tx\nb\tx\n", "", ProblemType::multi_label), ProblemType::multi_label);

  const ProblemType single = ProblemType::single_label, several = ProblemType::multi_label, numbers = ProblemType::regression;
  expect_error([&] { problem("a\tx,y\nb\tx\n", ",", single); }, {"labels.tsv", "line 1 has 2 labels", "multi_label"});
  expect_error([&] { problem("a\t1\nb\tx\n", "", numbers); }, {"labels.tsv", "line 2: 'x' is not a number"});
  expect_error([&] { problem("a\t1\nb\tnan\n", "", numbers); }, {"line 2: 'nan' is not a number"});
  expect_error([&] { problem("a\t1,2\nb\t1\n", ",", numbers); }, {"line 2 has 1 number: expected 2, as", "labels.tsv"});
  expect_error([&] { problem("a\t,\nb\t\n", ",", several); }, {"none of the 2 texts has a label"});
  ClassifyConfig data = config();
  data.problem_type = several, data.class_weights = "balanced";
  Context ctx;
  expect_error([&] { ClassifyTask(ctx, data, small(), words()); }, {"class_weights is 'balanced'", "one class each"});
  data = config();
  data.data = write("n.tsv", "a\t0.5\nb\t2\n");
  expect_error([&] { ClassifyTask(ctx, data, small(), words()); }, {"valid.tsv", "line 1: 'weather' is not a number"});
}

TEST_F(Classify, TextsThatAreAllEmpty) {
  Context ctx;
  ClassifyConfig data = config();
  data.data = write("empty.tsv", "\tx\n \ty\n"), data.valid = "";
  expect_error([&] { ClassifyTask(ctx, data, small(), words()); }, {"empty.tsv", "all texts are empty"});
}

TEST_F(Classify, ClassesThatTrainingDoesNotHave) {
  Context ctx;
  write("valid.tsv", "snow in the night\tweather\ntrees\tnatur\n");
  expect_error([&] { ClassifyTask(ctx, config(), small(), words()); },
               {"valid.tsv", "line 2", "'natur'", "train.tsv", "did you mean 'nature'"});
  write("valid.tsv", "trees\tnature\n");
  ClassifyTask(ctx, config(), small(), words()).save(path("model"));
  expect_error([&] { evaluate_classifier(ctx, path("model"), write("test.tsv", "a\tnature\nb\tart\n")); },
               {"test.tsv", "line 2", "'art'", "the model"});
  write("train.tsv", "a\tone\nb\tone\n");
  expect_error([&] { ClassifyTask(ctx, config(), small(), words()); }, {"train.tsv", "all 2 texts", "'one'"});
}

}  // namespace
}  // namespace transformer::test
