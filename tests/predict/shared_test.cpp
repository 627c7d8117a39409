// One model, two threads, each with a context of its own: the answers are those of one thread.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "io/shared/json.h"
#include "support/golden.h"
#include "support/temporary_folder.h"
#include "support/tiny_tokenizer.h"
#include "transformer/models/classic.h"
#include "transformer/models/model.h"
#include "transformer/predict/classifier.h"
#include "transformer/predict/embedder.h"
#include "transformer/predict/forecaster.h"
#include "transformer/predict/generator.h"
#include "transformer/predict/load.h"
#include "transformer/predict/translator.h"

namespace transformer::test {
namespace {

// Each thread asks so often. ThreadSanitizer and the guarded device are many times slower.
int requests(int usual) {
#ifdef __SANITIZE_THREAD__
  return std::max(usual / 10, 16);
#else
  return Device::usual() == Device::guarded() ? 16 : usual;
#endif
}

using Answer = std::vector<float>;

// answer(ctx, i), asked `count` times by each of two threads at once, equals what one thread says.
void expect_shared(DType precision, int count, const std::function<Answer(Context& ctx, int i)>& answer) {
  constexpr int kinds = 8;  // of questions
  std::vector<Answer> expected;
  Context alone({.threads = 1, .precision = precision});
  std::vector<int> wrong(2, 0);
  std::vector<std::vector<Answer>> first(2);
  {
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 2; ++t)
      threads.emplace_back([&, t] {
        Context ctx({.threads = 1, .precision = precision});
        for (int i = 0; i < count; ++i) {
          Answer a = answer(ctx, i % kinds);
          if (i < kinds) first[t].push_back(std::move(a));
          else if (a != first[t][static_cast<std::size_t>(i % kinds)]) ++wrong[t];
        }
      });
    for (std::thread& t : threads) t.join();
  }
  for (int i = 0; i < kinds; ++i) expected.push_back(answer(alone, i));
  EXPECT_EQ(wrong, (std::vector<int>{0, 0}));
  EXPECT_EQ(first[0], expected);
  EXPECT_EQ(first[1], expected);
}

std::string prompt(int i) { return std::string("Once upon a time").substr(0, static_cast<std::size_t>(4 + i)); }

Answer numbers(const std::string& text) { return {text.begin(), text.end()}; }

class SharedFamily : public testing::TestWithParam<std::string> {};

// Every family, as `run` has it: nothing was computed before the threads begin, so that they meet at every table that is made later.
TEST_P(SharedFamily, AnswersAsOneThread) {
  for (const DType precision : {DType::float32, DType::bfloat16}) {
    const GoldenCase c(golden_cases(GetParam()).front());
    Context ctx;
    const std::unique_ptr<Model> model = load_model(ctx, c.folder);
    NamedTensors inputs;
    for (const char* name : {"input_ids", "decoder_input_ids", "pixel_values", "past_values"})
      if (c.expected.contains(name)) inputs[name] = c.expected.tensor(name);
    expect_shared(precision, requests(50), [&](Context& own, int i) {
      const NoGradients no_gradients(own);
      NamedTensors in = inputs;
      if (in.contains("input_ids") && !in.contains("decoder_input_ids"))  // other questions: shorter texts
        in["input_ids"] = in["input_ids"].column_block(0, std::max<std::int64_t>(1, in["input_ids"].dim(1) - i));
      Answer all;
      for (const auto& [name, t] : model->run(own, in)) {
        const std::vector<double> values = detail::to_double(t);
        all.insert(all.end(), values.begin(), values.end());
      }
      return all;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, SharedFamily,
                         testing::Values("bart", "bert-base", "distilbert-cls", "falcon", "gpt2", "llama", "m2m_100", "marian", "patchtst",
                                         "pegasus", "qwen2", "swin", "t5", "vit"),
                         [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

class SharedUse : public testing::Test {
 protected:
  std::filesystem::path with_tokenizer(const std::string& name) const {
    copy_with_tokenizer(golden_cases(name).front(), folder_ / name, tiny_tokenizer(false));
    return folder_ / name;
  }
  TemporaryFolder folder_;
  Context ctx_;
};

TEST_F(SharedUse, Generates) {
  for (const char* family : {"gpt2", "llama"}) {
    const Generator generator = load<Generator>(ctx_, with_tokenizer(family));
    expect_shared(DType::float32, requests(1000), [&](Context& own, int i) {
      return numbers(generator.generate(own, prompt(i), {.max_new_tokens = 3, .temperature = i % 2 == 0 ? 0.0 : 0.9},
                                        {.seed = static_cast<std::uint64_t>(i)}));
    });
  }
}

TEST_F(SharedUse, Classifies) {
  const Classifier classifier = load<Classifier>(ctx_, with_tokenizer("bert-cls"));
  expect_shared(DType::float32, requests(1000), [&](Context& own, int i) {
    const std::vector<std::string> texts{prompt(i)};
    Answer all;
    const auto labels = classifier.texts(own, texts);
    for (const Label& label : labels[0]) all.push_back(label.score);
    return all;
  });
}

TEST_F(SharedUse, Embeds) {
  const Embedder embedder = load<Embedder>(ctx_, with_tokenizer("bert-cls"));
  expect_shared(DType::float32, requests(1000), [&](Context& own, int i) {
    const std::vector<std::string> texts{prompt(i), "x"};
    return embedder.embed(own, texts, {}).to_vector<float>();
  });
}

TEST_F(SharedUse, Translates) {
  const std::vector<std::string> words{"one", "two", "three", "four", "five", "six", "seven", "eight"};
  const TokenizerPtr tokenizer = build_whitespace([&, at = std::size_t{0}](std::string& line) mutable {
    if (at == words.size()) return false;
    line = words[at++];
    return true;
  });
  const auto model = std::make_shared<Transformer>(TransformerConfig{.d_model = 16,
                                                                     .num_heads = 2,
                                                                     .d_ff = 16,
                                                                     .num_layers = 1,
                                                                     .src_vocab_size = tokenizer->size(),
                                                                     .max_len = 20,
                                                                     .pad_id = tokenizer->pad()});
  initialize(ctx_, *model);
  const Translator translator(model, {tokenizer, tokenizer});
  for (const DType precision : {DType::float32, DType::bfloat16})
    expect_shared(precision, requests(1000), [&](Context& own, int i) {
      std::string text;
      for (int j = 0; j <= i; ++j) text += words[static_cast<std::size_t>((i + j * j) % 8)] + " ";
      return numbers(translator.translate(own, text, {.max_new_tokens = 6, .num_beams = 1 + i % 3}));
    });
}

TEST_F(SharedUse, Forecasts) {
  const Forecaster forecaster = load<Forecaster>(ctx_, golden_cases("patchtst").front());
  const std::int64_t channels = read_json(golden_cases("patchtst").front() / "config.json").at("num_input_channels");
  expect_shared(DType::float32, requests(1000), [&](Context& own, int i) {
    SeriesTable table;
    for (std::int64_t c = 0; c < channels; ++c) table.channels.push_back(fmt::format("c{}", c));
    for (std::int64_t j = 0; j < forecaster.context() * channels; ++j) table.values.push_back(static_cast<double>((j * (i + 3)) % 11));
    const std::vector<double> values = forecaster.forecast(own, table).point.values;
    return Answer(values.begin(), values.end());
  });
}

}  // namespace
}  // namespace transformer::test
