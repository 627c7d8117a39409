#include "transformer/nn/stack.h"

#include "support/change.h"
#include "support/op_check.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/random.h"

namespace transformer::test {
namespace {

StackConfig small_stack() { return {.d_model = 12, .heads = 3, .d_ff = 20, .layers = 1, .norm_place = NormPlace::pre}; }

Stack make(Context& ctx, const StackConfig& config) {
  Stack stack(config);
  initialize(ctx, stack);
  return stack;
}

}  // namespace

// x + Attention(Norm(x)) + FFN(Norm(x)), with one norm (PaLM, Falcon) or two (Falcon 40B).
TEST(Stack, ParallelBlocks) {
  for (bool separate : {false, true}) {
    Context ctx;
    StackConfig config = small_stack();
    config.order = BlockOrder::parallel;
    config.separate_norms = separate;
    const Stack stack = make(ctx, config);
    const Sequences sequences(std::vector<std::int64_t>{4, 3});
    const Tensor x = random_normal(ctx, {7, 12});
    const Layer& layer = stack.layers[0];
    const Tensor h = layer.around_attention.norm(ctx, x), g = separate ? layer.around_feed_forward.norm(ctx, x) : h;
    const Tensor want = add(ctx, x, add(ctx, layer.attention(ctx, h, {.sequences = sequences}), layer.feed_forward(ctx, g)));
    expect_near(stack(ctx, {.x = x, .sequences = sequences}), detail::to_double(want), 1e-5);
    Stack counted(config);
    const std::int64_t norms = separate ? 4 * 12 : 2 * 12;
    EXPECT_EQ(count_parameters(counted), 12 * 36 + 36 + 12 * 12 + 12 + 2 * 12 * 20 + 20 + 12 + norms);
  }
}

TEST(Stack, AWindowHidesWhatIsFartherBack) {
  Context ctx;
  StackConfig config = small_stack();
  config.causal = true;
  config.window = 2;
  config.positions = PositionKind::rotary;
  const Stack stack = make(ctx, config);
  Tensor x = random_normal(ctx, {6, 12});
  const Sequences one = Sequences::uniform(1, 6);
  const std::vector<double> before = detail::to_double(stack(ctx, {.x = x, .sequences = one}));
  change(ctx, x, [](std::vector<float>& values) { values[0] += 1.0F; });  // token 0 is seen by tokens 0 and 1 only
  const std::vector<double> after = detail::to_double(stack(ctx, {.x = x, .sequences = one}));
  for (std::size_t token = 0; token < 6; ++token) {
    double change = 0.0;
    for (std::size_t i = 0; i < 12; ++i) change = std::max(change, std::abs(after[token * 12 + i] - before[token * 12 + i]));
    if (token < 2) EXPECT_GT(change, 1e-4) << token;
    else EXPECT_EQ(change, 0.0) << token;
  }
}

TEST(Stack, TraceHoldsHiddenStatesAndWeights) {
  Context ctx;
  StackConfig config = small_stack();
  config.layers = 3;
  config.cross_attention = true;
  config.final_norm = true;
  const Stack stack = make(ctx, config);
  StackTrace trace;
  const Tensor y = stack(ctx,
                         {.x = random_normal(ctx, {5, 12}),
                          .sequences = Sequences(std::vector<std::int64_t>{3, 2}),
                          .memory = random_normal(ctx, {9, 12}),
                          .memory_sequences = Sequences(std::vector<std::int64_t>{5, 4})},
                         &trace);
  EXPECT_EQ(trace.hidden_states.size(), 4U);
  EXPECT_EQ(trace.hidden_states.back().raw(), y.raw());
  ASSERT_EQ(trace.attentions.size(), 3U);
  EXPECT_EQ(trace.attentions[2].shape().str(), "[2, 3, 3, 3]");
  EXPECT_EQ(trace.cross_attentions[0].shape().str(), "[2, 3, 3, 5]");
}

// The first layer keeps all; the last one drops most, and gives for most samples what it was given.
TEST(Stack, StochasticDepthGrowsWithTheLayers) {
  Context ctx;
  StackConfig config = small_stack();
  config.layers = 3;
  config.drop_path = 0.8F;
  const Stack stack = make(ctx, config);
  EXPECT_EQ(stack.layers[0].drop_path, 0.0F);
  EXPECT_EQ(stack.layers[1].drop_path, 0.4F);
  EXPECT_EQ(stack.layers[2].drop_path, 0.8F);
  const Sequences sequences = Sequences::uniform(50, 2);
  const Tensor x = random_normal(ctx, {100, 12});
  const auto last = [&] {
    StackTrace trace;
    const Tensor y = stack(ctx, {.x = x, .sequences = sequences}, &trace);
    const std::vector<double> in = detail::to_double(trace.hidden_states[2]), out = detail::to_double(y);
    int same = 0;
    for (std::size_t i = 0; i < 50; ++i) same += std::equal(&in[i * 24], &in[i * 24] + 24, &out[i * 24]) ? 1 : 0;
    return same;
  };
  EXPECT_EQ(last(), 0);
  ctx.set_training(true);
  EXPECT_NEAR(last(), 50 * 0.8 * 0.8, 12);  // both of its sublayers are left out
}

TEST(Stack, RefusesWhatCannotBe) {
  auto refuses = [](auto change, std::vector<std::string> parts) {
    StackConfig config = small_stack();
    change(config);
    expect_error([&] { Stack{config}; }, parts);
  };
  refuses([](StackConfig& c) { c.heads = 5; }, {"d_model 12", "5 heads"});
  refuses([](StackConfig& c) { c.heads = 0; }, {"heads", "positive"});
  refuses([](StackConfig& c) { c.kv_heads = 2; }, {"3 heads", "2 key/value heads"});
  refuses([](StackConfig& c) { c.positions = PositionKind::rotary, c.rotary_dim = 3; }, {"rotary_dim", "even", "3"});
  refuses([](StackConfig& c) { c.positions = PositionKind::sinusoidal, c.d_model = 9; }, {"even d_model", "9"});
  refuses([](StackConfig& c) { c.order = BlockOrder::parallel, c.norm_place = NormPlace::post; }, {"parallel", "pre-norm"});
  refuses([](StackConfig& c) { c.attention_dropout = -0.5F; }, {"attention_dropout", "-0.5"});

  Context ctx;
  const Stack stack = make(ctx, small_stack());
  const Tensor x = Tensor::zeros(ctx, {4, 12});
  expect_error([&] { stack(ctx, {.x = x, .sequences = Sequences::uniform(1, 5)}); }, {"[4, 12]", "5 tokens"});
  expect_error([&] { stack(ctx, {.x = x, .sequences = Sequences::uniform(1, 4), .memory = x}); }, {"memory", "no cross-attention"});
}

}  // namespace transformer::test
