// The task of tagging words: which tokens carry the tags, its folder, and models that it begins with.
#include "transformer/train/tag.h"

#include <fstream>

#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "train/encoder_batch.h"
#include "transformer/predict/classifier.h"
#include "transformer/train/classify.h"
#include "transformer/train/trainer.h"

namespace transformer::test {
namespace {

class Tagging : public testing::Test {
 protected:
  Tagging() {
    write("train.conll",
          "mr O\nparis B-PER\njordan I-PER\nslept O\n\nin O\nparis B-LOC\ntoday O\n\nfrom O\njordan B-LOC\n\nms O\njordan B-PER\nsaid O\n");
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  TagConfig config() const { return {.data = path("train.conll"), .valid = path("train.conll"), .max_length = 16}; }
  static EncoderConfig small(EncoderArch arch = EncoderArch::bert) {
    return {.arch = arch, .d_model = 16, .num_heads = 2, .num_layers = 1, .d_ff = 24, .dropout = 0.0F, .attention_dropout = 0.0F};
  }
  static EncoderVocabulary words() { return {.subwords = EncoderPieces::whitespace}; }

  TemporaryFolder folder_;
};

// As run_ner of Hugging Face: the first subword has the label, all others and the special tokens -100.
TEST_F(Tagging, TheFirstSubwordCarriesTheTag) {
  TagConfig data = config();
  data.data = write("a.jsonl", R"({"tokens": ["abab", "c", "ba"], "tags": ["B-X", "O", "I-X"]})");
  data.valid = "";
  Context ctx({.seed = 1});
  TagTask task(ctx, data, small(), {.subwords = EncoderPieces::characters});
  EXPECT_EQ(task.tags(), (std::vector<std::string>{"B-X", "I-X", "O"}));
  task.plan(0);
  const Batch batch = task.prepare(0);
  EXPECT_EQ(batch.targets, 3);
  const auto [texts, labels] = std::any_cast<LabelledBatch>(batch.content);
  // [CLS] a b a b _ c _ b a [SEP]
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(labels.values),
            (std::vector<std::int64_t>{-100, 0, -100, -100, -100, -100, 2, -100, 1, -100, -100}));
  // The loss is the mean over the words that have a tag.
  const Tensor ids = Tensor::from<std::int64_t>(ctx, {1, 11}, texts.ids);
  const std::vector<float> z = task.model().run(ctx, {{"input_ids", ids}}).at("logits").to_vector<float>();
  double sum = 0.0;
  for (const auto& [place, tag] : {std::pair{1, 0}, {6, 2}, {8, 1}}) {
    double all = 0.0;
    for (int t = 0; t < 3; ++t) all += std::exp(static_cast<double>(z[static_cast<std::size_t>(place * 3 + t)]));
    sum += std::log(all) - static_cast<double>(z[static_cast<std::size_t>(place * 3 + tag)]);
  }
  EXPECT_NEAR(task.loss(ctx, batch).item(), sum / 3.0, 1e-5);
}

TEST_F(Tagging, WordsThatAreCutOffAreCounted) {
  TagConfig data = config();
  data.max_length = 4;
  Context ctx({.seed = 1});
  TagTask task(ctx, data, small(), words());
  EXPECT_EQ(task.report().truncated, 6);  // of training and of validation
  EXPECT_EQ(task.lost(), 2 * (2 + 1 + 1));
  EXPECT_EQ(task.training().words, 8);
}

TEST_F(Tagging, EveryFamilyLearnsAndItsFolderGivesTheSameFigures) {
  for (const EncoderArch arch : {EncoderArch::bert, EncoderArch::roberta, EncoderArch::distilbert}) {
    Context ctx({.seed = 5});
    TagTask task(ctx, config(), small(arch), words());
    EXPECT_EQ(task.metrics(), (std::vector<std::string>{"loss", "f1", "precision", "recall", "accuracy"}));
    const std::string save = path(std::string("model-") + std::to_string(static_cast<int>(arch)));
    Trainer(ctx, task,
            {.save_dir = save,
             .max_update = 120,
             .lr = 0.01F,
             .warmup_updates = 5,
             .validate_interval_updates = 40,
             .save_interval_updates = 120,
             .best_metric = "f1",
             .quiet = true})
        .run();
    task.load(ctx, save);
    const std::optional<Evaluation> here = task.test(ctx);
    ASSERT_TRUE(here);
    EXPECT_EQ(std::get<EntityScores>(here->scores).total().f1(), 1.0);
    EXPECT_EQ(evaluate_tagger(ctx, save, path("train.conll")).to_json(), here->to_json());
    const std::string text = "mr paris jordan slept";
    const auto entities = Classifier::load(ctx, save).entities(ctx, std::span(&text, 1))[0];
    ASSERT_EQ(entities.size(), 1U);
    EXPECT_EQ(entities[0].type + " " + entities[0].text, "PER paris jordan");
    EXPECT_EQ(entities[0].place, (TokenPlace{3, 15}));
  }
}

// Tags without O are no entities: the table of the tags then.
TEST_F(Tagging, PartsOfSpeech) {
  TagConfig data = config();
  data.data = data.valid = write("pos.conll", "the DET\ndog NOUN\nslept VERB\n\na DET\ndog NOUN\n");
  Context ctx({.seed = 1});
  TagTask task(ctx, data, small(), words());
  EXPECT_EQ(task.metrics(), (std::vector<std::string>{"loss", "accuracy", "macro_f1"}));
  EXPECT_EQ(std::get<ConfusionMatrix>(task.test(ctx)->scores).total(), 5);
}

// A tagger that knows the tags keeps its head; any other model gets a new one.
TEST_F(Tagging, GoesOnFromOtherModels) {
  Context ctx({.seed = 2});
  write("c.tsv", "in paris\tx\nmr jordan\ty\n");
  ClassifyConfig classes;
  classes.data = path("c.tsv"), classes.max_length = 16;
  ClassifyTask(ctx, classes, small(), words()).save(path("classifier"));
  TagTask first(ctx, config(), EncoderStart{.from = path("classifier")});
  EXPECT_EQ(first.model().config().at("architectures"), nlohmann::json::array({"BertForTokenClassification"}));
  EXPECT_TRUE(first.model().config().at("problem_type").is_null());
  first.save(path("first"));
  TagTask same(ctx, config(), EncoderStart{.from = path("first")});
  EXPECT_EQ(same.test(ctx)->to_json(), first.test(ctx)->to_json());
  TagConfig others = config();
  others.data = write("o.conll", "in A\nparis B\n"), others.valid = "";
  TagTask other(ctx, others, EncoderStart{.from = path("first")});
  EXPECT_EQ(other.network().text().labels, 2);
  expect_error([&] { evaluate_tagger(ctx, path("classifier"), path("train.conll")); }, {"classifier", "ForTokenClassification"});
  expect_error([&] { evaluate_tagger(ctx, path("first"), path("o.conll")); }, {"line 1 has the tag 'A'", "the model"});
}

}  // namespace
}  // namespace transformer::test
