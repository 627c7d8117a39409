// Encoder-decoder families whatever their sizes: masks, labels, files that say more than config.json, settings that are refused.
#include "transformer/models/encoder_decoder_model.h"

#include <algorithm>
#include <cmath>

#include "io/shared/json.h"
#include "models/fresh_model.h"
#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "transformer/models/pegasus.h"
#include "transformer/ops/softmax.h"

namespace transformer::test {
namespace {

using nlohmann::json;

json t5() {
  return {{"model_type", "t5"},
          {"vocab_size", 23},
          {"d_model", 12},
          {"d_kv", 5},
          {"d_ff", 18},
          {"num_layers", 1},
          {"num_heads", 3},
          {"num_decoder_layers", 2},
          {"relative_attention_num_buckets", 8}};
}

json bart() {
  return {{"model_type", "bart"},         {"vocab_size", 23},      {"d_model", 12},
          {"encoder_layers", 1},          {"decoder_layers", 2},   {"encoder_attention_heads", 3},
          {"decoder_attention_heads", 2}, {"encoder_ffn_dim", 18}, {"decoder_ffn_dim", 10},
          {"max_position_embeddings", 16}};
}

json marian() {
  json config = bart();
  config.update(json{{"model_type", "marian"}, {"pad_token_id", 22}, {"decoder_start_token_id", 22}, {"scale_embedding", true}});
  return config;
}

// Norms before the sublayers: Pegasus, mBART, M2M100.
json pre_norm(const char* type) {
  json config = bart();
  config["model_type"] = type;
  return config;
}

Tensor ids(Context& ctx, const Shape& shape, const std::vector<std::int64_t>& values) {
  return Tensor::from<std::int64_t>(ctx, shape, values);
}

EncoderDecoder& network(Model& model) { return dynamic_cast<EncoderDecoderModel&>(model).network; }

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names = SafetensorsFile(folder / "model.safetensors").names();
  std::sort(names.begin(), names.end());
  return names;
}

bool contains(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

// However the padding is computed, packed away or masked, hidden tokens change nothing.
TEST(EncoderDecoderModel, HiddenTokensChangeNothing) {
  for (const json& config : {t5(), bart(), marian(), pre_norm("pegasus"), pre_norm("mbart"), pre_norm("m2m_100")}) {
    SCOPED_TRACE(config.at("model_type"));
    Context ctx({.seed = 5});
    const auto model = fresh(ctx, config);
    const Tensor target = ids(ctx, {2, 3}, {1, 7, 8, 1, 9, 3});
    for (const std::vector<std::int64_t>& mask :
         {std::vector<std::int64_t>{1, 1, 1, 1, 1, 1, 0, 0}, std::vector<std::int64_t>{1, 1, 1, 1, 0, 0, 1, 1},
          std::vector<std::int64_t>{1, 0, 0, 1, 1, 1, 1, 1}}) {
      std::vector<std::int64_t> words{4, 5, 6, 7, 8, 9, 10, 11}, others = words;
      for (std::size_t i = 0; i < mask.size(); ++i)
        if (mask[i] == 0) others[i] += 7;
      auto run = [&](const std::vector<std::int64_t>& source) {
        return model->run(
            ctx, {{"input_ids", ids(ctx, {2, 4}, source)}, {"attention_mask", ids(ctx, {2, 4}, mask)}, {"decoder_input_ids", target}},
            {.hidden_states = true, .attentions = true});
      };
      const NamedTensors one = run(words), other = run(others);
      expect_near(other.at("logits"), detail::to_double(one.at("logits")), 0.0);
      const Tensor& cross = one.at("cross_attentions.1");  // [batch, heads, target, source]
      ASSERT_EQ(cross.shape(), (Shape{2, cross.dim(1), 3, 4}));
      const std::vector<float> weights = cross.to_vector<float>();
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const bool hidden = mask[i / (weights.size() / 2) * 4 + i % 4] == 0;
        EXPECT_TRUE(!hidden || weights[i] == 0.0F) << i;
      }
      EXPECT_EQ(one.at("encoder_hidden_states.1").shape().str(), "[2, 4, 12]");
      EXPECT_EQ(one.at("decoder_hidden_states.2").shape().str(), "[2, 3, 12]");
    }
  }
}

// The positions of T5 are distances: a row padded at its beginning is the row without padding. BART counts from the padding.
TEST(EncoderDecoderModel, PaddingAtTheBeginning) {
  for (const bool counts : {false, true}) {
    Context ctx({.seed = 6});
    const auto model = fresh(ctx, counts ? bart() : t5());
    const Tensor target = ids(ctx, {1, 2}, {1, 7});
    const NamedTensors padded = model->run(ctx,
                                           {{"input_ids", ids(ctx, {1, 5}, {0, 0, 4, 5, 6})},
                                            {"attention_mask", ids(ctx, {1, 5}, {0, 0, 1, 1, 1})},
                                            {"decoder_input_ids", target}});
    const NamedTensors bare = model->run(ctx, {{"input_ids", ids(ctx, {1, 3}, {4, 5, 6})}, {"decoder_input_ids", target}});
    double difference = 0.0;
    const std::vector<float> a = padded.at("logits").to_vector<float>(), b = bare.at("logits").to_vector<float>();
    for (std::size_t i = 0; i < a.size(); ++i) difference = std::max(difference, static_cast<double>(std::abs(a[i] - b[i])));
    if (counts) EXPECT_GT(difference, 1e-4);
    else EXPECT_LT(difference, 1e-5);
  }
}

// Labels moved by one place are the decoder's input; -100 counts for nothing and is padding there.
TEST(EncoderDecoderModel, LabelsMakeTheInput) {
  for (const json& config : {t5(), bart(), marian(), pre_norm("pegasus"), pre_norm("mbart"), pre_norm("m2m_100")}) {
    SCOPED_TRACE(config.at("model_type"));
    Context ctx({.seed = 7});
    const auto model = fresh(ctx, config);
    const std::string type = config.at("model_type");
    const bool zero = type == "t5" || type == "pegasus", wraps = type == "mbart";
    const std::int64_t pad = config.value("pad_token_id", zero ? 0 : 1), start = config.value("decoder_start_token_id", zero ? 0 : 2);
    const Tensor source = ids(ctx, {2, 3}, {4, 5, 6, 7, 8, 9});
    const std::vector<std::int64_t> labels{11, 12, 13, 14, -100, -100};
    const NamedTensors trained = model->run(ctx, {{"input_ids", source}, {"labels", ids(ctx, {2, 3}, labels)}});
    const NamedTensors given = model->run(
        ctx, {{"input_ids", source}, {"decoder_input_ids", ids(ctx, {2, 3}, {wraps ? 13 : start, 11, 12, wraps ? 14 : start, 14, pad})}});
    expect_near(trained.at("logits"), detail::to_double(given.at("logits")), 0.0);
    const Tensor log_p = log_softmax(ctx, given.at("logits").view({6, 23}));
    double sum = 0.0;
    for (std::size_t i = 0; i < 4; ++i) sum -= static_cast<double>(log_p.to_vector<float>()[i * 23 + static_cast<std::size_t>(labels[i])]);
    EXPECT_NEAR(trained.at("loss").item(), sum / 4, 1e-5);
    EXPECT_FALSE(given.contains("loss"));
  }
}

TEST(EncoderDecoderModel, SaysWhichInputIsWrong) {
  Context ctx;
  const auto model = fresh(ctx, t5());
  const Tensor source = ids(ctx, {2, 3}, {4, 5, 6, 7, 8, 9});
  expect_error([&] { model->run(ctx, {{"input_ids", source}}); }, {"decoder_input_ids", "given: input_ids"});
  expect_error([&] { model->run(ctx, {{"input_ids", source}, {"labels", ids(ctx, {1, 2}, {1, 2})}}); }, {"[2, 3]", "[1, 2]"});
  expect_error(
      [&] {
    model->run(ctx, {{"input_ids", source}, {"attention_mask", ids(ctx, {2, 2}, {1, 1, 1, 1})}, {"labels", source}});
      },
      {"attention_mask", "[2, 2]"});
  expect_error([&] { model->run(ctx, {{"input_ids", source}, {"token_type_ids", source}}); }, {"token_type_ids"});
  EXPECT_NO_THROW(fresh(ctx, bart())->run(ctx, {{"input_ids", source}}));  // as the reference, moves the source
}

// Whether T5 1.1 has an output of its own, its files tell: those of old versions do, and config.json meant the scale.
TEST(EncoderDecoderModel, OutputOfT5IsAsInTheFile) {
  const TemporaryFolder folder;
  Context ctx({.seed = 8});
  const json old = with(t5(), {{"tie_word_embeddings", false}, {"feed_forward_proj", "gated-gelu"}});
  const auto untied = fresh(ctx, old);
  ASSERT_TRUE(network(*untied).output.has_value());
  EXPECT_EQ(network(*untied).settings.output_scale, 1.0F);
  save_model(ctx, *untied, folder.path());
  EXPECT_TRUE(contains(names_in(folder.path()), "lm_head.weight"));
  EXPECT_TRUE(network(*load_model(ctx, folder.path())).output.has_value());
  // As new versions write the same model.
  write_json(folder / "config.json", with(old, {{"tie_word_embeddings", true}, {"scale_decoder_outputs", false}}));
  EXPECT_TRUE(network(*load_model(ctx, folder.path())).output.has_value());

  const auto tied = fresh(ctx, with(old, {{"tie_word_embeddings", true}, {"scale_decoder_outputs", false}}));
  ASSERT_FALSE(network(*tied).output.has_value());
  save_model(ctx, *tied, folder.path());
  EXPECT_FALSE(contains(names_in(folder.path()), "lm_head.weight"));
  write_json(folder / "config.json", old);
  EXPECT_FALSE(network(*load_model(ctx, folder.path())).output.has_value());
}

TEST(EncoderDecoderModel, MarianWithTwoVocabularies) {
  Context ctx({.seed = 9});
  const TemporaryFolder folder;
  const json config = with(marian(),
                           {{"share_encoder_decoder_embeddings", false}, {"tie_word_embeddings", false}, {"decoder_vocab_size", 17}});
  const auto model = fresh(ctx, config);
  EXPECT_EQ(network(*model).target_vocabulary(), 17);
  save_model(ctx, *model, folder.path());
  const SafetensorsFile file(folder / "model.safetensors");
  EXPECT_EQ(file.shape("model.decoder.embed_tokens.weight").str(), "[17, 12]");
  EXPECT_EQ(file.shape("model.encoder.embed_tokens.weight").str(), "[23, 12]");
  EXPECT_EQ(file.shape("lm_head.weight").str(), "[17, 12]");
  EXPECT_EQ(file.shape("final_logits_bias").str(), "[1, 17]");
  EXPECT_FALSE(file.contains("model.shared.weight"));
  const auto again = load_model(ctx, folder.path());
  const NamedTensors in{{"input_ids", ids(ctx, {1, 2}, {4, 5})}, {"decoder_input_ids", ids(ctx, {1, 2}, {16, 5})}};
  expect_near(again->run(ctx, in).at("logits"), detail::to_double(model->run(ctx, in).at("logits")), 0.0);
  EXPECT_FALSE(network(*make_model(with(config, {{"tie_word_embeddings", true}}))).output.has_value());
}

// Hugging Face ties the tables of both sides and the output, or none of them. Older files have one table for both sides then.
TEST(Seq2Seq, WhatIsNotTiedHasATableForEachSide) {
  Context ctx({.seed = 12});
  const TemporaryFolder folder;
  const json config = with(bart(), {{"tie_word_embeddings", false}});
  const auto model = fresh(ctx, config);
  save_model(ctx, *model, folder.path());
  const auto names = names_in(folder.path());
  for (const char* name : {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"})
    EXPECT_TRUE(contains(names, name)) << name;
  EXPECT_FALSE(contains(names, "model.shared.weight"));

  std::vector<std::pair<std::string, Tensor>> tensors = named_tensors(ctx, model->bindings());
  std::vector<float> shared;
  std::erase_if(tensors, [](const auto& t) { return t.first == "model.decoder.embed_tokens.weight"; });
  for (auto& [name, tensor] : tensors)
    if (name == "model.encoder.embed_tokens.weight") name = "model.shared.weight", shared = tensor.template to_vector<float>();
  save_safetensors(folder / "model.safetensors", tensors);
  const auto older = load_model(ctx, folder.path());
  EXPECT_EQ(network(*older).encoder.embedding->weight.tensor.to_vector<float>(), shared);
  EXPECT_EQ(network(*older).decoder.embedding->weight.tensor.to_vector<float>(), shared);
  EXPECT_NE(network(*older).output->weight.tensor.to_vector<float>(), shared);
}

// Newer files leave out what can be computed; what older ones have counts.
TEST(EncoderDecoderModel, TablesInTheFileCount) {
  Context ctx({.seed = 10});
  const TemporaryFolder folder;
  const auto model = fresh(ctx, marian());
  std::vector<std::pair<std::string, Tensor>> tensors = named_tensors(ctx, model->bindings());
  EXPECT_TRUE(std::none_of(tensors.begin(), tensors.end(), [](const auto& t) { return t.first.ends_with("embed_positions.weight"); }));
  tensors.emplace_back("model.encoder.embed_positions.weight", Tensor::zeros(ctx, {16, 12}));
  tensors.emplace_back("model.decoder.embed_positions.weight", sinusoidal_table(ctx, 16, 12, true));
  std::erase_if(tensors, [](const auto& t) { return t.first == "final_logits_bias"; });
  save_safetensors(folder / "model.safetensors", tensors);
  write_json(folder / "config.json", marian());
  const auto read = load_model(ctx, folder.path());
  auto encoded = [&](const Model& m, const std::vector<std::int64_t>& words) {
    const NamedTensors out = m.run(ctx, {{"input_ids", ids(ctx, {1, 2}, words)}, {"decoder_input_ids", ids(ctx, {1, 1}, {22})}});
    return detail::to_double(out.at("encoder_last_hidden_state"));
  };
  // Without positions the encoder does not see the order.
  const std::vector<double> ab = encoded(*read, {4, 5}), ba = encoded(*read, {5, 4});
  for (std::size_t i = 0; i < 12; ++i) EXPECT_NEAR(ab[i], ba[12 + i], 1e-5);
  EXPECT_FALSE(network(*read).logits_bias.present());
  save_model(ctx, *read, folder.path());
  EXPECT_TRUE(contains(names_in(folder.path()), "model.encoder.embed_positions.weight"));
}

TEST(EncoderDecoderModel, BodiesAlone) {
  Context ctx({.seed = 11});
  const TemporaryFolder folder;
  const auto model = fresh(ctx, with(bart(), {{"architectures", {"BartModel"}}}));
  save_model(ctx, *model, folder.path());
  EXPECT_TRUE(contains(names_in(folder.path()), "shared.weight"));
  const NamedTensors in{{"input_ids", ids(ctx, {1, 2}, {4, 5})}, {"decoder_input_ids", ids(ctx, {1, 3}, {2, 5, 6})}};
  const NamedTensors out = model->run(ctx, in);
  EXPECT_EQ(out.at("last_hidden_state").shape().str(), "[1, 3, 12]");
  EXPECT_FALSE(out.contains("logits"));
  // The same file as a model that generates: the head needs nothing more.
  write_json(folder / "config.json", bart());
  EXPECT_EQ(load_model(ctx, folder.path())->run(ctx, in).at("logits").shape().str(), "[1, 3, 23]");
}

TEST(EncoderDecoderModel, RefusesByName) {
  auto refuses = [](const json& config, const std::vector<std::string>& parts) { expect_error([&] { make_model(config); }, parts); };
  refuses(with(t5(), {{"feed_forward_proj", "gated-tanh"}}), {"feed_forward_proj", "tanh"});
  refuses(with(t5(), {{"dense_act_fn", "gelu"}}), {"dense_act_fn", "relu"});
  refuses(with(t5(), {{"num_head", 4}}), {"num_head", "num_heads"});
  refuses(with(t5(), {{"architectures", {"T5ForQuestionAnswering"}}}), {"T5ForQuestionAnswering"});
  refuses(with(t5(), {{"is_encoder_decoder", false}}), {"is_encoder_decoder"});
  refuses(with(bart(), {{"normalize_before", true}}), {"normalize_before"});
  refuses(with(bart(), {{"encoder_layerdrop", 0.1}}), {"encoder_layerdrop"});
  refuses(with(bart(), {{"share_encoder_decoder_embeddings", true}}), {"share_encoder_decoder_embeddings"});
  refuses(with(bart(), {{"decoder_attention_heads", 5}}), {"12", "5 heads"});
  refuses(with(marian(), {{"activation_function", "quick_gelu"}}), {"activation_function", "quick_gelu"});
}

// M2M100 counts the tokens that are not padding: a row padded at its beginning is the row without padding.
TEST(EncoderDecoderModel, PositionsOfTokensThatAreNotPadding) {
  Context ctx({.seed = 6});
  const auto model = fresh(ctx, pre_norm("m2m_100"));
  const Tensor target = ids(ctx, {1, 2}, {2, 7});
  const NamedTensors padded = model->run(ctx,
                                         {{"input_ids", ids(ctx, {1, 5}, {1, 1, 4, 5, 6})},
                                          {"attention_mask", ids(ctx, {1, 5}, {0, 0, 1, 1, 1})},
                                          {"decoder_input_ids", target}});
  const NamedTensors bare = model->run(ctx, {{"input_ids", ids(ctx, {1, 3}, {4, 5, 6})}, {"decoder_input_ids", target}});
  expect_near(padded.at("logits"), detail::to_double(bare.at("logits")), 1e-5);
  expect_error(
      [&] {
    model->run(ctx, {{"input_ids", ids(ctx, {1, 17}, std::vector<std::int64_t>(17, 4))}, {"decoder_input_ids", target}});
      },
      {"17 tokens", "16 positions"});
}

// Pegasus has its sinusoids in its files; where they are not, they are computed.
TEST(EncoderDecoderModel, PegasusHasItsPositionsInTheFile) {
  Context ctx({.seed = 6});
  const auto model = fresh(ctx, with(pre_norm("pegasus"), {{"pad_token_id", 3}, {"decoder_start_token_id", 3}}));
  const NamedTensors inputs{{"input_ids", ids(ctx, {1, 3}, {4, 5, 6})}, {"decoder_input_ids", ids(ctx, {1, 2}, {3, 7})}};
  const TemporaryFolder without, with_tables;
  save_model(ctx, *model, without.path());
  EXPECT_FALSE(contains(names_in(without.path()), "model.encoder.embed_positions.weight"));
  dynamic_cast<EncoderDecoderModel&>(*model).complete_fresh(ctx);
  const std::vector<double> want = detail::to_double(model->run(ctx, inputs).at("logits"));
  save_model(ctx, *model, with_tables.path());
  EXPECT_TRUE(contains(names_in(with_tables.path()), "model.decoder.embed_positions.weight"));
  expect_near(load_model(ctx, with_tables.path())->run(ctx, inputs).at("logits"), want, 0.0);
  for (const float value : network(*model).encoder.embedding->weight.tensor.row_block(3, 1).to_vector<float>())
    EXPECT_EQ(value, 0.0F) << "the decoder begins with a zero";
}

// The settings of training as a Marian model, and what cannot be one.
TEST(Marian, SettingsOfTheOriginal) {
  const TransformerConfig config{.d_model = 16, .num_heads = 2, .d_ff = 24, .num_layers = 1, .num_decoder_layers = 2, .src_vocab_size = 11};
  Context ctx({.seed = 3});
  const auto shared = make_model(marian_config(config, {.start = 2, .end = 3, .padding = 0}));
  EXPECT_FALSE(network(*shared).output.has_value());
  EXPECT_EQ(network(*shared).encoder.embedding->scale, 4.0F);
  EXPECT_EQ(network(*shared).decoder.stack.config.layers, 2);
  TransformerConfig two = config;
  two.tgt_vocab_size = 13;
  const auto separate = make_model(marian_config(two, {}));
  EXPECT_EQ(network(*separate).source_vocabulary(), 11);
  EXPECT_EQ(network(*separate).target_vocabulary(), 13);
  EXPECT_TRUE(network(*separate).output.has_value());

  // The same numbers as the original's with sinusoids in halves, since it has no bias to add.
  TransformerConfig halves = config;
  halves.positions = PositionKind::sinusoidal_halves;
  Transformer original(halves);
  initialize(ctx, original);
  const auto from = parameters(original), to = shared->parameters();
  ASSERT_EQ(to.size(), from.size() + 1);  // and the bias of the logits, which is zero
  initialize(ctx, to);
  for (std::size_t i = 0; i < from.size(); ++i) to[i].parameter->tensor = from[i].parameter->tensor;
  const PairBatch batch{.source_ids = ids(ctx, {3}, {4, 5, 6}),
                        .source = Sequences::uniform(1, 3),
                        .target_ids = ids(ctx, {2}, {2, 7}),
                        .target = Sequences::uniform(1, 2)};
  expect_near(network(*shared)(ctx, batch), detail::to_double(original(ctx, batch)), 0.0);

  auto refuses = [&](auto&& change, const std::vector<std::string>& parts) {
    TransformerConfig other = config;
    change(other);
    expect_error([&] { marian_config(other, {}); }, parts);
  };
  refuses([](TransformerConfig& c) { c.norm = NormPlace::pre; }, {"norm is \"pre\"", "\"post\""});
  refuses([](TransformerConfig& c) { c.activation = FeedForwardKind::swiglu; }, {"activation is \"swiglu\""});
  refuses([](TransformerConfig& c) { c.positions = PositionKind::rotary; }, {"positions is \"rotary\""});
  refuses([](TransformerConfig& c) { c.num_kv_heads = 1; }, {"num_kv_heads is 1"});
}

TEST(Pegasus, SettingsOfTheOriginalWithNormsBefore) {
  TransformerConfig config{.d_model = 16,
                           .num_heads = 2,
                           .d_ff = 24,
                           .num_layers = 1,
                           .src_vocab_size = 11,
                           .norm = NormPlace::pre,
                           .positions = PositionKind::sinusoidal_halves};
  const json file = pegasus_config(config, {.start = 0, .end = 1, .padding = 0});
  EXPECT_EQ(file.at("normalize_before"), true);
  EXPECT_EQ(file.at("normalize_embedding"), false) << "CTranslate2 believes in one otherwise";
  const auto pegasus = make_model(file);
  EXPECT_TRUE(network(*pegasus).settings.zero_padding);
  Context ctx({.seed = 3});
  Transformer original(config);
  initialize(ctx, original);
  const auto from = parameters(original), to = pegasus->parameters();
  ASSERT_EQ(to.size(), from.size() + 1);  // and the bias of the logits, which is zero
  initialize(ctx, to);
  for (std::size_t i = 0; i < from.size(); ++i) to[i].parameter->tensor = from[i].parameter->tensor;
  const PairBatch batch{.source_ids = ids(ctx, {3}, {4, 5, 6}),
                        .source = Sequences::uniform(1, 3),
                        .target_ids = ids(ctx, {2}, {0, 7}),
                        .target = Sequences::uniform(1, 2)};
  expect_near(network(*pegasus)(ctx, batch), detail::to_double(original(ctx, batch)), 0.0);
  config.norm = NormPlace::post;
  expect_error([&] { pegasus_config(config, {}); }, {"norm is \"post\"", "a Pegasus model has \"pre\""});
  config.norm = NormPlace::pre, config.tgt_vocab_size = 5;
  expect_error([&] { pegasus_config(config, {}); }, {"one for both"});
}

}  // namespace transformer::test
