// What the model must do whatever its sizes: options, order, errors, training.
#include "transformer/models/transformer.h"

#include <algorithm>
#include <map>
#include <string>

#include "support/op_check.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/reduce.h"
#include "transformer/text/parallel.h"
#include "transformer/train/optimizer.h"

namespace transformer::test {
namespace {

TransformerConfig tiny() {
  return {.d_model = 16,
          .num_heads = 4,
          .d_ff = 32,
          .num_layers = 2,
          .src_vocab_size = 11,
          .tgt_vocab_size = 13,
          .max_len = 32,
          .dropout = 0.0F,
          .attention_dropout = 0.0F,
          .ffn_dropout = 0.0F};
}

Tensor ids(Context& ctx, const std::vector<std::int64_t>& values) {
  return Tensor::from<std::int64_t>(ctx, {static_cast<std::int64_t>(values.size())}, values);
}

Sequences lengths(const std::vector<std::int64_t>& n) { return Sequences(n); }

// Rows of x sorted, so that two multisets of rows can be compared.
std::vector<std::vector<float>> sorted_rows(const Tensor& x) {
  const std::vector<float> v = x.to_vector<float>();
  std::vector<std::vector<float>> rows;
  for (std::int64_t r = 0; r < x.rows(); ++r) rows.emplace_back(v.begin() + r * x.cols(), v.begin() + (r + 1) * x.cols());
  std::sort(rows.begin(), rows.end());
  return rows;
}

double distance(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  double d = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a[i].size(); ++j) d = std::max(d, static_cast<double>(std::abs(a[i][j] - b[i][j])));
  return d;
}

}  // namespace

// "고양이가 쥐를 잡았다" and "쥐가 고양이를 잡았다": the same morphemes in another order mean something else.
TEST(Transformer, WordOrderIsSeenThroughPositionsOnly) {
  const std::map<std::string, std::int64_t> vocabulary{{"고양이", 1}, {"가", 2}, {"쥐", 3}, {"를", 4}, {"잡았다", 5}};
  auto encode = [&](std::initializer_list<const char*> words) {
    std::vector<std::int64_t> out;
    for (const char* w : words) out.push_back(vocabulary.at(w));
    return out;
  };
  const auto cat_catches = encode({"고양이", "가", "쥐", "를", "잡았다"}), mouse_catches = encode({"쥐", "가", "고양이", "를", "잡았다"});
  for (PositionKind kind : {PositionKind::none, PositionKind::sinusoidal, PositionKind::learned, PositionKind::relative,
                            PositionKind::rotary, PositionKind::alibi}) {
    Context ctx;
    TransformerConfig config = tiny();
    config.positions = kind;
    Encoder encoder(config);
    initialize(ctx, encoder);
    const double d = distance(sorted_rows(encoder(ctx, ids(ctx, cat_catches), lengths({5}))),
                              sorted_rows(encoder(ctx, ids(ctx, mouse_catches), lengths({5}))));
    if (kind == PositionKind::none) EXPECT_LT(d, 1e-5);
    else EXPECT_GT(d, 1e-3) << static_cast<int>(kind);
  }
}

TEST(Transformer, PackedSequencesDoNotSeeEachOther) {
  Context ctx;
  Transformer model(tiny());
  initialize(ctx, model);
  const PairBatch both{.source_ids = ids(ctx, {1, 2, 3, 4, 5, 6}),
                       .source = lengths({4, 0, 2}),
                       .target_ids = ids(ctx, {1, 2, 3, 4, 5}),
                       .target = lengths({2, 0, 3})};
  const PairBatch last{.source_ids = ids(ctx, {5, 6}), .source = lengths({2}), .target_ids = ids(ctx, {3, 4, 5}), .target = lengths({3})};
  expect_near(model(ctx, both).row_block(2, 3), detail::to_double(model(ctx, last)), 1e-5);
}

TEST(Transformer, ABatchOfRoundedSizesTeachesTheSame) {
  Context ctx;
  Transformer model(tiny());
  initialize(ctx, model);
  const auto ids_of = [&](const std::vector<std::int32_t>& v) {
    return Tensor::from<std::int32_t>(ctx, {static_cast<std::int64_t>(v.size())}, v);
  };
  PairIds batch{.source = {1, 2, 3, 4, 5, 6, 7},
                .target = {1, 2, 3, 4, 5},
                .labels = {2, 3, 4, 5, 6},
                .source_lengths = {3, 4},
                .target_lengths = {2, 3}};
  const auto learned = [&] {
    for (const NamedParameter& p : parameters(model)) clear_gradient(p.parameter->tensor);
    const Tensor loss = model.loss(ctx,
                                   {.source_ids = ids_of(batch.source),
                                    .source = Sequences(batch.source_lengths),
                                    .target_ids = ids_of(batch.target),
                                    .target = Sequences(batch.target_lengths),
                                    .labels = ids_of(batch.labels)});
    backward(ctx, loss);
    std::vector<double> values{static_cast<double>(loss.item())};
    for (const NamedParameter& p : parameters(model))
      for (const double g : detail::to_double(gradient(p.parameter->tensor))) values.push_back(g);
    return values;
  };
  const std::vector<double> before = learned();
  round_sizes(batch, {.longest_source = 32, .longest_target = 32, .ignored = static_cast<std::int32_t>(tiny().pad_id)});
  EXPECT_EQ(batch.source.size() % 64, 0U);
  const std::vector<double> after = learned();
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(after[i], before[i], 1e-5) << i;
}

TEST(Transformer, ADecoderDoesNotSeeTheFuture) {
  Context ctx;
  Transformer model(tiny());
  initialize(ctx, model);
  PairBatch batch{.source_ids = ids(ctx, {1, 2, 3}), .source = lengths({3}), .target_ids = ids(ctx, {1, 2, 3, 4}), .target = lengths({4})};
  const Tensor before = model(ctx, batch);
  batch.target_ids = ids(ctx, {1, 2, 9, 8});
  const Tensor after = model(ctx, batch);
  expect_near(after.row_block(0, 2), detail::to_double(before.row_block(0, 2)), 1e-6);
  EXPECT_GT(distance(sorted_rows(after.row_block(2, 1)), sorted_rows(before.row_block(2, 1))), 1e-3);
}

// Every option trains: the loss of one small batch goes down, and in bfloat16 it stays close to float32.
TEST(Transformer, EveryOptionTrains) {
  std::vector<TransformerConfig> configs;
  for (PositionKind p : {PositionKind::none, PositionKind::sinusoidal, PositionKind::learned, PositionKind::relative, PositionKind::rotary,
                         PositionKind::alibi})
    configs.push_back(tiny()), configs.back().positions = p;
  for (FeedForwardKind f : {FeedForwardKind::gelu, FeedForwardKind::gelu_tanh, FeedForwardKind::silu, FeedForwardKind::geglu,
                            FeedForwardKind::geglu_tanh, FeedForwardKind::swiglu})
    configs.push_back(tiny()), configs.back().activation = f;
  for (NormKind k : {NormKind::layer_norm, NormKind::rms_norm})
    for (NormPlace place : {NormPlace::pre, NormPlace::post})
      configs.push_back(tiny()), configs.back().norm_kind = k, configs.back().norm = place;
  configs.push_back(tiny()), configs.back().num_kv_heads = 2;
  configs.push_back(tiny()), configs.back().tie_output = true;
  configs.push_back(tiny()), configs.back().tgt_vocab_size = 0, configs.back().src_vocab_size = 13;
  configs.push_back(tiny()), configs.back().dropout = configs.back().attention_dropout = configs.back().ffn_dropout = 0.05F;
  configs.push_back(tiny()), configs.back().num_decoder_layers = 1;

  for (std::size_t i = 0; i < configs.size(); ++i) {
    std::vector<double> first, last;
    for (DType precision : {DType::float32, DType::bfloat16}) {
      SCOPED_TRACE(fmt::format("configuration {} in {}", i, name_of(precision)));
      Context ctx({.seed = 7, .precision = precision});
      Transformer model(configs[i]);
      initialize(ctx, model);
      const PairBatch batch{.source_ids = ids(ctx, {1, 2, 3, 4, 5}),
                            .source = lengths({3, 2}),
                            .target_ids = ids(ctx, {1, 2, 3, 1, 5, 6}),
                            .target = lengths({3, 3}),
                            .labels = ids(ctx, {2, 3, 4, 5, 6, 0})};
      Adam optimizer(ctx, parameters(model), {});
      ctx.set_training(true);
      double loss_now = 0.0;
      for (std::uint32_t step = 0; step < 30; ++step) {
        ctx.random().begin_step(step);
        const Tensor loss = model.loss(ctx, batch);
        loss_now = loss.item();
        if (step == 0) first.push_back(loss_now);
        backward(ctx, loss);
        optimizer.step(ctx, 3e-3F, 1.0F);
        optimizer.zero_gradients();
      }
      last.push_back(loss_now);
      EXPECT_LT(last.back(), 0.6 * first.back());
    }
    EXPECT_NEAR(first[1], first[0], 0.03 * first[0]);
    EXPECT_NEAR(last[1], last[0], 0.15);
  }
}

// The same seed gives the same bits, dropout and all, in both precisions.
TEST(Transformer, TrainingIsReproducible) {
  TransformerConfig config = tiny();
  config.dropout = config.attention_dropout = config.ffn_dropout = 0.2F;
  for (DType precision : {DType::float32, DType::bfloat16}) {
    auto train = [&](std::uint64_t seed) {
      Context ctx({.threads = 2, .seed = seed, .precision = precision});
      Transformer model(config);
      initialize(ctx, model);
      const PairBatch batch{.source_ids = ids(ctx, {1, 2, 3, 4, 5}),
                            .source = lengths({3, 2}),
                            .target_ids = ids(ctx, {1, 2, 3, 1, 5, 6}),
                            .target = lengths({3, 3}),
                            .labels = ids(ctx, {2, 3, 4, 5, 6, 0})};
      Adam optimizer(ctx, parameters(model), {.weight_decay = 0.01F});
      ctx.set_training(true);
      for (std::uint32_t step = 1; step <= 5; ++step) {
        ctx.random().begin_step(step);
        backward(ctx, model.loss(ctx, batch));
        optimizer.step(ctx, 1e-3F, 1.0F);
        optimizer.zero_gradients();
      }
      std::vector<float> weights;
      for (const auto& [name, p] : parameters(model))
        for (float w : p->tensor.to_vector<float>()) weights.push_back(w);
      return weights;
    };
    const std::vector<float> once = train(3);
    EXPECT_EQ(once, train(3));
    EXPECT_NE(once, train(4));
  }
}

TEST(Transformer, SaysWhatIsWrong) {
  TransformerConfig config = tiny();
  config.num_heads = 3;
  expect_error([&] { Transformer{config}; }, {"d_model is 16: expected a multiple of num_heads, 3"});
  config = tiny();
  config.dropout = 1.0F;
  expect_error([&] { Transformer{config}; }, {"dropout", "[0, 1)"});

  Context ctx;
  Transformer model(tiny());
  initialize(ctx, model);
  PairBatch batch{.source_ids = ids(ctx, {1, 11}),
                  .source = lengths({2}),
                  .target_ids = ids(ctx, {1}),
                  .target = lengths({1}),
                  .labels = ids(ctx, {2})};
  expect_error([&] { model.loss(ctx, batch); }, {"embedding", "11"});
  batch.source_ids = ids(ctx, {1, 2});
  batch.labels = ids(ctx, {13});
  expect_error([&] { model.loss(ctx, batch); }, {"13"});
  batch.labels = ids(ctx, {2, 3});
  expect_error([&] { model.loss(ctx, batch); }, {"[2]"});
  batch.source = lengths({3});
  expect_error([&] { model.encode(ctx, batch); }, {"3"});
  batch.source_ids = ids(ctx, std::vector<std::int64_t>(40, 1));
  batch.source = lengths({40});
  expect_error([&] { model.encode(ctx, batch); }, {"40", "32", "max_positions"});
  if (fastest_device() == Device::cpu()) expect_error([&] { Context(ContextOptions{.device = Device::cuda()}); }, {"cuda:0", "device cpu"});
}

TEST(Transformer, RefusesAnEmptyBatch) {
  Context ctx;
  Transformer model(tiny());
  initialize(ctx, model);
  PairBatch batch{.source_ids = ids(ctx, {}), .source = {}, .target_ids = ids(ctx, {}), .target = {}, .labels = ids(ctx, {})};
  expect_error([&] { model.loss(ctx, batch); }, {"batch is empty", "0 sequences"});
  batch.source = batch.target = lengths({0, 0});
  expect_error([&] { model.loss(ctx, batch); }, {"batch is empty", "2 sequences"});
}

}  // namespace transformer::test
