// Vectors of texts: those of the model's hidden states, pooled, in the order of the texts.
#include "transformer/predict/embedder.h"

#include <cmath>
#include <fstream>

#include "predict/model_folder.h"
#include "transformer/io/npy.h"

namespace transformer::test {
namespace {

// The hidden states of one text alone, [tokens][d], or the pooler's output.
std::vector<float> alone(Context& ctx, const std::filesystem::path& folder, const std::string& text, const std::string& output) {
  const auto model = load_model(ctx, folder);
  const NoGradients no_gradients(ctx);
  std::vector<std::int64_t> ids{1};
  for (char c : text) ids.push_back(tiny_id(c));
  ids.push_back(2);
  const Tensor in = Tensor::from<std::int64_t>(ctx, {1, std::ssize(ids)}, ids);
  NamedTensors inputs{{"input_ids", in}};
  if (output.starts_with("encoder")) inputs["decoder_input_ids"] = in;
  const NamedTensors out = model->run(ctx, inputs, {.hidden_states = true});
  auto found = out.find(output);
  for (int i = 0; found == out.end() && i < 100; ++i) found = out.find("hidden_states." + std::to_string(99 - i));  // the last one
  return found->second.to_vector<float>();
}

}  // namespace

TEST(Embedder, PoolsTheHiddenStatesOfEachText) {
  for (const auto& [name, output] : {std::pair{"bert-base", "last_hidden_state"}, std::pair{"roberta-cls", "hidden_states"},
                                     std::pair{"gpt2", "hidden_states"}, std::pair{"bert-mlm", "hidden_states"},
                                     std::pair{"t5", "encoder_last_hidden_state"}, std::pair{"bart", "encoder_last_hidden_state"}}) {
    SCOPED_TRACE(name);
    const ModelFolder folder(golden_root() / name);
    Context ctx;
    const Embedder embedder = Embedder::load(ctx, folder.path());
    const auto d = static_cast<std::size_t>(embedder.size());
    for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::last}) {
      const Tensor got = embedder.embed(ctx, texts, {.pooling = pooling, .batch_tokens = 50});
      ASSERT_EQ(got.shape().str(), Shape({std::ssize(texts), embedder.size()}).str());
      std::vector<double> want;
      for (const std::string& text : texts) {
        const std::vector<float> h = alone(ctx, folder.path(), text, output);
        const std::size_t tokens = h.size() / d, first = pooling == Pooling::last ? tokens - 1 : 0,
                          count = pooling == Pooling::mean ? tokens : 1;
        for (std::size_t j = 0; j < d; ++j) {
          double sum = 0.0;
          for (std::size_t i = first; i < first + count; ++i) sum += h[i * d + j];
          want.push_back(sum / static_cast<double>(count));
        }
      }
      expect_near(got, want, 1e-5);
    }
  }
}

TEST(Embedder, ThePoolerIsTheModelsOwn) {
  const ModelFolder folder(golden_root() / "bert-base");
  Context ctx;
  const Embedder embedder = Embedder::load(ctx, folder.path());
  std::vector<double> want;
  for (const std::string& text : texts)
    for (float v : alone(ctx, folder.path(), text, "pooler_output")) want.push_back(v);
  expect_near(embedder.embed(ctx, texts, {.pooling = Pooling::pooler, .batch_tokens = 50}), want, 1e-5);
  const ModelFolder without(golden_root() / "gpt2");
  EXPECT_NE(message_of([&] { Embedder::load(ctx, without.path()).embed(ctx, texts, {.pooling = Pooling::pooler}); }).find("no pooler"),
            std::string::npos);
}

TEST(Embedder, NormalizedVectorsHaveLengthOne) {
  const ModelFolder folder(golden_root() / "bert-base");
  Context ctx;
  const Embedder embedder = Embedder::load(ctx, folder.path());
  const std::vector<float> v = embedder.embed(ctx, texts, {.normalize = true}).to_vector<float>();
  const auto d = static_cast<std::size_t>(embedder.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    double sum = 0.0;
    for (std::size_t j = 0; j < d; ++j) sum += static_cast<double>(v[i * d + j]) * static_cast<double>(v[i * d + j]);
    EXPECT_NEAR(sum, 1.0, 1e-5);
  }
}

TEST(Embedder, HonoursTheFilesOfSentenceTransformersOrNamesThem) {
  const ModelFolder folder(golden_root() / "bert-base");
  Context ctx;
  EXPECT_EQ(Embedder::load(ctx, folder.path()).defaults().pooling, Pooling::mean);
  const nlohmann::json transformer = {{"idx", 0}, {"path", ""}, {"type", "sentence_transformers.models.Transformer"}},
                       pooling = {{"idx", 1}, {"path", "1_Pooling"}, {"type", "sentence_transformers.models.Pooling"}},
                       normalize = {{"idx", 2}, {"path", "2_Normalize"}, {"type", "sentence_transformers.models.Normalize"}},
                       dense = {{"idx", 2}, {"path", "2_Dense"}, {"type", "sentence_transformers.models.Dense"}};
  folder.write("modules.json", {transformer, pooling, normalize});
  folder.write("1_Pooling/config.json", {{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", false}});
  folder.write("sentence_bert_config.json", {{"max_seq_length", 8}, {"do_lower_case", false}});
  const Embedder embedder = Embedder::load(ctx, folder.path());
  EXPECT_EQ(embedder.defaults().pooling, Pooling::cls);
  EXPECT_TRUE(embedder.defaults().normalize);
  const std::vector<std::string> two{"abcdefgh", "abcdef"};
  const std::vector<float> v = embedder.embed(ctx, two, {}).to_vector<float>();
  for (std::size_t j = 0; j < v.size() / 2; ++j) EXPECT_NEAR(v[j], v[v.size() / 2 + j], 1e-6);  // eight tokens, two of them special
  folder.write("modules.json", {transformer, pooling, dense});
  EXPECT_NE(message_of([&] { Embedder::load(ctx, folder.path()); }).find("Dense"), std::string::npos);
  folder.write("modules.json", {transformer, pooling});
  folder.write("1_Pooling/config.json", {{"pooling_mode_max_tokens", true}});
  EXPECT_NE(message_of([&] { Embedder::load(ctx, folder.path()); }).find("pooling_mode_max_tokens"), std::string::npos);
}

TEST(Embedder, ModelsOfImagesAreRefused) {
  Context ctx;
  EXPECT_NE(message_of([&] { Embedder::load(ctx, golden_root() / "vit"); }).find("does not read text"), std::string::npos);
}

TEST(Npy, IsWhatNumPyReads) {
  const TemporaryFolder folder;
  Context ctx;
  save_npy(folder / "x.npy", Tensor::from<float>(ctx, {2, 3}, {1, 2, 3, 4, 5, 6}));
  std::ifstream file(folder / "x.npy", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  ASSERT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const std::size_t length = static_cast<unsigned char>(bytes[8]) + 256U * static_cast<unsigned char>(bytes[9]);
  EXPECT_EQ((10 + length) % 64, 0U);
  EXPECT_EQ(bytes[9 + length], '\n');
  EXPECT_NE(bytes.find("{'descr': '<f4', 'fortran_order': False, 'shape': (2,3,), }"), std::string::npos);
  ASSERT_EQ(bytes.size(), 10 + length + 6 * sizeof(float));
  float last = 0.0F;
  std::memcpy(&last, bytes.data() + bytes.size() - sizeof(float), sizeof(float));
  EXPECT_EQ(last, 6.0F);
}

}  // namespace transformer::test
