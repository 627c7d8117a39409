// Labels of texts, tokens and images: those of the model's logits, in the order of what was given.
#include "transformer/predict/classifier.h"

#include <cmath>

#include "predict/model_folder.h"
#include "text/shared/entities.h"

namespace transformer::test {
namespace {

// A model of the cases with a tokenizer that frames texts, and other settings.

// What the model gives for one text alone.
std::vector<float> logits_of(Context& ctx, const std::filesystem::path& folder, const std::string& text) {
  const auto model = load_model(ctx, folder);
  const NoGradients no_gradients(ctx);
  std::vector<std::int64_t> ids{1};
  for (char c : text) ids.push_back(tiny_id(c));
  ids.push_back(2);
  return model->run(ctx, {{"input_ids", Tensor::from<std::int64_t>(ctx, {1, std::ssize(ids)}, ids)}}).at("logits").to_vector<float>();
}

double probability(const std::vector<float>& logits, std::int64_t label) {
  double sum = 0.0;
  for (float l : logits) sum += std::exp(static_cast<double>(l));
  return std::exp(static_cast<double>(logits[static_cast<std::size_t>(label)])) / sum;
}

}  // namespace

TEST(Classifier, GivesTheProbabilitiesOfEveryTextInOrder) {
  for (const char* name : {"bert-cls", "roberta-cls", "distilbert-cls"}) {
    const ModelFolder folder(golden_root() / name, tiny_tokenizer(true), {{"id2label", {{"0", "bad"}, {"1", "good"}, {"2", "fair"}}}});
    Context ctx;
    const Classifier classifier = Classifier::load(ctx, folder.path());
    EXPECT_EQ(classifier.names(), (std::vector<std::string>{"bad", "good", "fair"}));
    const auto all = classifier.texts(ctx, texts, {.top_k = 0, .batch_tokens = 40});
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::vector<float> logits = logits_of(ctx, folder.path(), texts[i]);
      ASSERT_EQ(all[i].size(), 3U);
      for (const Label& label : all[i]) {
        EXPECT_NEAR(label.score, probability(logits, label.id), 1e-5) << name << " " << i;
        EXPECT_EQ(label.name, classifier.names()[static_cast<std::size_t>(label.id)]);
      }
      EXPECT_TRUE(all[i][0].score >= all[i][1].score && all[i][1].score >= all[i][2].score);
      EXPECT_EQ(classifier.texts(ctx, std::span(&texts[i], 1))[0][0].id, all[i][0].id);
    }
  }
}

// As Hugging Face's pipeline for text classification decides.
// The second text has the tokens' other type where the model knows two, as in training on pairs.
TEST(Classifier, ReadsPairs) {
  for (const char* name : {"bert-cls", "distilbert-cls"}) {
    const ModelFolder folder(golden_root() / name);
    Context ctx;
    const Classifier classifier = Classifier::load(ctx, folder.path());
    const std::vector<std::string> first{"a short one", "x", "another, longer than both"}, second{"is it", "the end", ""};
    const auto all = classifier.pairs(ctx, first, second, {.top_k = 0});
    const auto model = load_model(ctx, folder.path());
    const TokenizerPtr tokenizer = load_tokenizer(folder.path());
    const bool types = read_json(folder.path() / "config.json").value("type_vocab_size", 0) > 1;
    bool matters = false;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const Encoding e = tokenizer->tokenize_pair(first[i], second[i]);
      const Shape shape{1, std::ssize(e.ids)};
      const std::vector<std::int64_t> ids(e.ids.begin(), e.ids.end()), kinds(e.type_ids.begin(), e.type_ids.end());
      NamedTensors inputs{{"input_ids", Tensor::from<std::int64_t>(ctx, shape, ids)}};
      const NoGradients no_gradients(ctx);
      const std::vector<float> plain = model->run(ctx, inputs).at("logits").to_vector<float>();
      if (types) inputs.emplace("token_type_ids", Tensor::from<std::int64_t>(ctx, shape, kinds));
      const std::vector<float> logits = model->run(ctx, inputs).at("logits").to_vector<float>();
      matters = matters || std::abs(probability(logits, 0) - probability(plain, 0)) > 1e-4;
      for (const Label& label : all[i]) EXPECT_NEAR(label.score, probability(logits, label.id), 1e-5) << name << " " << i;
    }
    EXPECT_EQ(matters, types) << name;
    EXPECT_THROW(classifier.pairs(ctx, first, std::span(second).first(2)), Error);
  }
}

TEST(Classifier, TheProblemSaysWhatAScoreIs) {
  Context ctx;
  const std::string text = "some text";
  const ModelFolder several(golden_root() / "bert-cls", tiny_tokenizer(true), {{"problem_type", "multi_label_classification"}});
  const auto labels = Classifier::load(ctx, several.path()).texts(ctx, std::span(&text, 1), {.top_k = 0})[0];
  const std::vector<float> logits = logits_of(ctx, several.path(), text);
  for (const Label& l : labels) EXPECT_NEAR(l.score, 1.0 / (1.0 + std::exp(-logits[static_cast<std::size_t>(l.id)])), 1e-5);
  const ModelFolder value(golden_root() / "bert-cls", tiny_tokenizer(true), {{"problem_type", "regression"}});
  const auto values = Classifier::load(ctx, value.path()).texts(ctx, std::span(&text, 1), {.top_k = 0})[0];
  for (const Label& l : values) EXPECT_NEAR(l.score, logits[static_cast<std::size_t>(l.id)], 1e-5);
}

// Where a text may have several labels, those that reach the threshold; numbers keep their order.
TEST(Classifier, GivesWhatTheProblemAsksFor) {
  Context ctx;
  const std::string text = "some text";
  const ModelFolder several(golden_root() / "bert-cls", tiny_tokenizer(true), {{"problem_type", "multi_label_classification"}}),
      value(golden_root() / "bert-cls", tiny_tokenizer(true), {{"problem_type", "regression"}});
  const Classifier labels = Classifier::load(ctx, several.path()), numbers = Classifier::load(ctx, value.path());
  const auto get = [&](const Classifier& c, const ClassifyOptions& options) { return c.texts(ctx, std::span(&text, 1), options)[0]; };
  const std::vector<Label> all = get(labels, {.top_k = 0});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(std::ssize(get(labels, {})), std::count_if(all.begin(), all.end(), [](const Label& l) { return l.score >= 0.5F; }));
  EXPECT_EQ(get(labels, {.threshold = all[1].score}).size(), 2U);
  EXPECT_EQ(get(labels, {.top_k = 1, .threshold = all[1].score}).size(), 1U);
  EXPECT_TRUE(get(labels, {.threshold = 1.0F}).empty());
  EXPECT_TRUE(numbers.gives_numbers() && !labels.gives_numbers());
  const std::vector<Label> values = get(numbers, {});
  ASSERT_EQ(values.size(), 3U);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i].id, static_cast<std::int64_t>(i));
}

TEST(Classifier, ATextThatIsTooLongIsCutBeforeItsEndToken) {
  const ModelFolder folder(golden_root() / "distilbert-cls");
  Context ctx;
  const std::int64_t longest = read_json(folder.path() / "config.json").at("max_position_embeddings");
  const Classifier classifier = Classifier::load(ctx, folder.path());
  TextReport report;
  const std::vector<std::string> two{std::string(static_cast<std::size_t>(longest) + 50, 'x'), "short \xff"};
  const auto found = classifier.texts(ctx, two, {.top_k = 0, .report = &report});
  const std::vector<float> logits = logits_of(ctx, folder.path(), std::string(static_cast<std::size_t>(longest) - 2, 'x'));
  for (const Label& l : found[0]) EXPECT_NEAR(l.score, probability(logits, l.id), 1e-5);
  EXPECT_EQ(report.truncated, 1);
  EXPECT_EQ(report.invalid_utf8, 1);
  EXPECT_NE(report.summary().find("1 texts longer"), std::string::npos) << report.summary();
}

TEST(Classifier, LabelsTokensWithTheirPlaces) {
  const ModelFolder folder(golden_root() / "variants/bert-tokens");
  Context ctx;
  const Classifier classifier = Classifier::load(ctx, folder.path());
  ASSERT_EQ(classifier.kind(), Classifier::Kind::tokens);
  const std::vector<std::string> two{"01 2", "3"};  // a small vocabulary
  const auto found = classifier.tokens(ctx, two, {.top_k = 0});
  ASSERT_EQ(found[0].size(), 4U);  // without the special tokens
  EXPECT_EQ(found[0][1].place, (TokenPlace{1, 2}));
  const std::vector<float> logits = logits_of(ctx, folder.path(), two[0]);
  const std::size_t classes = classifier.names().size();
  for (const Label& l : found[0][1].labels) {
    const std::vector<float> row(logits.begin() + static_cast<std::ptrdiff_t>(2 * classes),
                                 logits.begin() + static_cast<std::ptrdiff_t>(3 * classes));
    EXPECT_NEAR(l.score, probability(row, l.id), 1e-5);
  }
  EXPECT_NE(message_of([&] { classifier.texts(ctx, two); }).find("the tokens of texts, not texts"), std::string::npos);
}

// Words have the labels of their first tokens; entities are what the labels make up.
TEST(Classifier, WordsAndEntities) {
  const ModelFolder folder(golden_root() / "variants/bert-tokens", tiny_tokenizer(true),
                           {{"id2label", {{"0", "B-X"}, {"1", "I-X"}, {"2", "O"}}}});
  Context ctx;
  const Classifier classifier = Classifier::load(ctx, folder.path());
  const std::vector<std::string> texts{"01 20 \xff 3", "", "22 1 0 2 1"};
  TextReport report;
  const auto tokens = classifier.tokens(ctx, std::vector<std::string>{"01 20 \uFFFD 3", "", "22 1 0 2 1"});
  const auto words = classifier.words(ctx, texts, {.report = &report});
  EXPECT_EQ(report.invalid_utf8, 1);
  ASSERT_GE(words[0].size(), 3U);
  EXPECT_EQ(words[0][1].token, "20");
  EXPECT_EQ(words[0][1].place, (TokenPlace{3, 5}));
  const auto at = std::find_if(tokens[0].begin(), tokens[0].end(), [](const TokenLabels& t) { return t.place.begin == 3; });
  ASSERT_NE(at, tokens[0].end());
  EXPECT_EQ(words[0][1].labels[0].id, at->labels[0].id);
  EXPECT_TRUE(words[1].empty());

  const auto entities = classifier.entities(ctx, texts);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::vector<std::string> tags;
    for (const TokenLabels& w : words[i]) tags.push_back(w.labels[0].name);
    const std::vector<Entity> expected = entities_of(tags);
    ASSERT_EQ(entities[i].size(), expected.size());
    for (std::size_t e = 0; e < expected.size(); ++e) {
      EXPECT_EQ(entities[i][e].type, "X");
      EXPECT_EQ(entities[i][e].place.begin, words[i][expected[e].begin].place.begin);
      EXPECT_EQ(entities[i][e].place.end, words[i][expected[e].end - 1].place.end);
      double mean = 0.0;
      for (std::size_t w = expected[e].begin; w < expected[e].end; ++w)
        mean += words[i][w].labels[0].score / static_cast<double>(expected[e].end - expected[e].begin);
      EXPECT_NEAR(entities[i][e].score, mean, 1e-6);
    }
  }
}

TEST(Classifier, LabelsImages) {
  for (const char* name : {"vit", "deit", "swin"}) {
    const ModelFolder folder(golden_root() / name);
    write_json(folder.path() / "preprocessor_config.json",
               {{"image_processor_type", "ViTImageProcessor"},
                {"do_resize", true},
                {"size", {{"height", 32}, {"width", 32}}},
                {"resample", 2},
                {"do_rescale", true},
                {"rescale_factor", 1.0 / 255.0},
                {"do_normalize", true},
                {"image_mean", {0.5, 0.5, 0.5}},
                {"image_std", {0.5, 0.5, 0.5}}});
    Context ctx;
    const Classifier classifier = Classifier::load(ctx, folder.path());
    ASSERT_EQ(classifier.kind(), Classifier::Kind::images);
    std::vector<Image> images;
    for (int i = 0; i < 3; ++i) images.push_back({40, 50, 3, std::vector<std::uint8_t>(40 * 50 * 3, static_cast<std::uint8_t>(80 * i))});
    images[1].pixels[77] = 250;
    const auto all = classifier.images(ctx, images, {.top_k = 0, .batch_images = 2});
    ASSERT_EQ(all.size(), 3U);
    const auto model = load_model(ctx, folder.path());
    const ImageProcessor processor = ImageProcessor::load(folder.path());
    for (std::size_t i = 0; i < images.size(); ++i) {
      const std::vector<float> logits = model->run(ctx, {{"pixel_values", processor(ctx, {images[i]})}}).at("logits").to_vector<float>();
      for (const Label& l : all[i]) EXPECT_NEAR(l.score, probability(logits, l.id), 1e-5) << name;
    }
  }
}

TEST(Classifier, SaysWhatAModelIsForAndWhatIsMissing) {
  Context ctx;
  EXPECT_NE(message_of([&] { Classifier::load(ctx, golden_root() / "gpt2"); }).find("transformer generate"), std::string::npos);
  EXPECT_NE(message_of([&] { Classifier::load(ctx, golden_root() / "patchtst"); }).find("transformer forecast"), std::string::npos);
  EXPECT_NE(message_of([&] { Classifier::load(ctx, golden_root() / "bert-cls"); }).find("tokenizer.json"), std::string::npos);
  EXPECT_NE(message_of([&] { Classifier::load(ctx, golden_root() / "vit"); }).find("preprocessor_config.json"), std::string::npos);
  EXPECT_NE(message_of([&] { Classifier::load(ctx, golden_root() / "patchtst"); }).find("series"), std::string::npos);
}

}  // namespace transformer::test
