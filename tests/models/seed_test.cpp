// The classic models against the reference: outputs, attention weights, every gradient, and three AdamW steps.
#include "support/golden.h"
#include "transformer/io/config.h"
#include "transformer/models/classic.h"
#include "transformer/ops/attention.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/pack.h"
#include "transformer/ops/reduce.h"
#include "transformer/ops/shape.h"
#include "transformer/train/optimizer.h"

namespace transformer::test {
namespace {

// config.json holds the model's settings and, under other keys, how the case was made.
TransformerConfig config_of(const GoldenCase& c, bool embeds) {
  nlohmann::json settings = c.config;
  for (const char* other : {"adamw", "loss"}) settings.erase(other);
  TransformerConfig config{.src_vocab_size = 0, .dropout = 0.0F, .attention_dropout = 0.0F, .ffn_dropout = 0.0F};
  from_json(settings, config);
  EXPECT_EQ(config.src_vocab_size > 0, embeds);
  return config;
}

Tensor flat(const Tensor& t) { return t.view({t.numel()}); }

void expect_gradients(const GoldenCase& c, const std::vector<Binding>& bindings) {
  std::size_t checked = 0;
  for (const Binding& b : bindings) {
    const Tensor& g = gradient(b.ours.parameter->tensor);
    ASSERT_TRUE(g.defined()) << b.theirs;
    expect_golden_gradient(c, "grad." + b.theirs, b.slice(g), 1e-4);
    ++checked;
  }
  std::size_t expected = 0;
  for (const std::string& name : c.expected.names()) expected += name.starts_with("grad.") && name != "grad.x" ? 1 : 0;
  EXPECT_EQ(checked, expected);
}

// The case's padded batch with its masks as they are: every position is computed, also the padding.
PairBatch padded_batch(Context& ctx, const GoldenCase& c) {
  const Tensor src = c.expected.tensor("src"), tgt = c.expected.tensor("tgt");
  return {.source_ids = flat(src.to(ctx)),
          .source = Sequences::uniform(src.dim(0), src.dim(1)),
          .target_ids = flat(tgt.to(ctx)),
          .target = Sequences::uniform(tgt.dim(0), tgt.dim(1)),
          .labels = flat(c.expected.tensor("labels").to(ctx)),
          .source_bias = mask_to_bias(ctx, c.expected.tensor("src_mask").to(ctx)),
          .target_bias = mask_to_bias(ctx, c.expected.tensor("tgt_mask").to(ctx))};
}

// The same batch packed: no padding, no mask, causality from the decoder itself.
PairBatch packed_batch(Context& ctx, const GoldenCase& c, const Packing& source) {
  PairBatch batch = padded_batch(ctx, c);
  batch.source_ids = pack(ctx, c.expected.tensor("src").to(ctx), source);
  batch.source = source.sequences;
  batch.source_bias = batch.target_bias = Tensor();
  return batch;
}

Packing source_packing(Context& ctx, const GoldenCase& c) {
  const Tensor mask = c.expected.tensor("src_mask").to(ctx);
  return packing(ctx, mask.view({mask.dim(0), mask.dim(3)}));
}

// A case and its model, loaded.
struct LoadedClassic {
  GoldenCase golden;
  Context ctx;
  Transformer model;
  explicit LoadedClassic(const std::filesystem::path& folder) : golden(folder), model(config_of(golden, true)) {
    load_classic(ctx, model, folder);
  }

  void expect_loss_and_gradients(const PairBatch& batch) {
    const Tensor loss = model.loss(ctx, batch);
    expect_golden(golden, "loss", loss, 1e-5);
    backward(ctx, loss);
    expect_gradients(golden, classic_bindings(model));
  }
};

}  // namespace

TEST(Seed, TransformerWithMasks) {
  for (const auto& folder : golden_cases("seed-transformer")) {
    SCOPED_TRACE(folder);
    LoadedClassic c(folder);
    const PairBatch batch = padded_batch(c.ctx, c.golden);
    TransformerTrace trace;
    expect_golden(c.golden, "logits", c.model(c.ctx, batch, &trace), 1e-5);
    for (std::size_t i = 0; i < trace.encoder.attentions.size(); ++i) {
      expect_golden(c.golden, fmt::format("weights.encoder.layers.{}.mha", i), trace.encoder.attentions[i], 1e-5);
      expect_golden(c.golden, fmt::format("weights.decoder.layers.{}.self_atten", i), trace.decoder.attentions[i], 1e-5);
      expect_golden(c.golden, fmt::format("weights.decoder.layers.{}.cross_atten", i), trace.decoder.cross_attentions[i], 1e-5);
    }
    c.expect_loss_and_gradients(batch);
  }
}

TEST(Seed, TransformerPacked) {
  for (const auto& folder : golden_cases("seed-transformer")) {
    SCOPED_TRACE(folder);
    LoadedClassic c(folder);
    const PairBatch batch = packed_batch(c.ctx, c.golden, source_packing(c.ctx, c.golden));
    expect_golden(c.golden, "logits", c.model(c.ctx, batch), 1e-5);
    c.expect_loss_and_gradients(batch);
  }
}

TEST(Seed, TransformerTrainsLikeTheReference) {
  for (const auto& folder : golden_cases("seed-transformer")) {
    SCOPED_TRACE(folder);
    LoadedClassic c(folder);
    const PairBatch batch = packed_batch(c.ctx, c.golden, source_packing(c.ctx, c.golden));
    const nlohmann::json& a = c.golden.config.at("adamw");
    Adam optimizer(c.ctx, parameters(c.model),
                   {.beta1 = a.at("betas")[0], .beta2 = a.at("betas")[1], .eps = a.at("eps"), .weight_decay = a.at("weight_decay")});
    const std::vector<float> want = c.golden.expected.tensor("adamw_losses").to_vector<float>();
    for (std::size_t step = 0; step < want.size(); ++step) {
      const Tensor loss = c.model.loss(c.ctx, batch);
      EXPECT_NEAR(loss.item(), want[step], 1e-4) << "before step " << step + 1;
      if (step + 1 == want.size()) break;
      backward(c.ctx, loss);
      optimizer.step(c.ctx, a.at("lr"), a.at("clip"));
      optimizer.zero_gradients();
    }
  }
}

TEST(Seed, Encoder) {
  for (const auto& folder : golden_cases("seed-encoder")) {
    SCOPED_TRACE(folder);
    const GoldenCase c(folder);
    Context ctx;
    Encoder model(config_of(c, false));
    load_classic(ctx, model, folder);
    const Tensor given = c.expected.tensor("x").to(ctx);  // [batch, tokens, d]
    Tensor x = given.view({given.dim(0) * given.dim(1), given.dim(2)});
    require_grad(x);
    StackTrace trace;
    const Tensor y = model(ctx, x, Sequences::uniform(given.dim(0), given.dim(1)), {}, &trace);
    expect_golden(c, "output", y, 1e-5);
    for (std::size_t i = 0; i < trace.attentions.size(); ++i)
      expect_golden(c, fmt::format("weights.{}", i), mean(ctx, trace.attentions[i], {1}), 1e-5);

    // The case's loss: Σ output · sin(index)
    std::vector<float> wave;
    for (std::int64_t i = 0; i < y.numel(); ++i) wave.push_back(static_cast<float>(std::sin(static_cast<double>(i))));
    backward(ctx, sum(ctx, mul(ctx, y, Tensor::from<float>(ctx, y.shape(), wave))));
    expect_golden_gradient(c, "grad.x", gradient(x), 1e-4);
    expect_gradients(c, classic_bindings(model));
  }
}

}  // namespace transformer::test
