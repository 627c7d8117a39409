// Layers in pieces: of one process that exchanges with itself, and of one of several that are not there.
#include "train/layer_pieces.h"

#include <gtest/gtest.h>

#include "train/pretended.h"
#include "transformer/core/error.h"
#include "transformer/nn/stack.h"
#include "transformer/ops/copy.h"
#include "transformer/ops/random.h"
#include "transformer/ops/reduce.h"
#include "transformer/train/optimizer.h"

namespace transformer::test {
namespace {

struct ThreeLayers {
  Context ctx;
  Stack stack;
  Tensor x;

  ThreeLayers(std::shared_ptr<Communicator> processes, DType precision)
      : ctx({.seed = 3, .precision = precision, .communicator = std::move(processes)}),
        stack(StackConfig{.d_model = 32, .heads = 2, .d_ff = 48, .layers = 3, .norm_place = NormPlace::pre}) {
    initialize(ctx, stack);
    x = random_normal(ctx, {10, 32}, 0.0F, 1.0F);
  }
  Tensor loss() { return mean(ctx, stack(ctx, {.x = x, .sequences = Sequences::uniform(2, 5)})); }
};

class LayerPiecesTest : public testing::TestWithParam<DType> {};

TEST_P(LayerPiecesTest, LearnWhatWholeOnesDo) {
  ThreeLayers whole(nullptr, GetParam()), pieces(std::make_shared<Pretended>(0, 1), GetParam());
  Adam first(whole.ctx, parameters(whole.stack), {.weight_decay = 0.1F}, decay_matrices);
  Adam second(pieces.ctx, parameters(pieces.stack), {.weight_decay = 0.1F, .shard_weights = true}, decay_matrices);
  ASSERT_NE(second.pieces(), nullptr);
  for (int i = 0; i < 4; ++i) {
    for (int batch = 0; batch < 2; ++batch) {  // gradients of two batches add up
      const Tensor a = whole.loss(), b = pieces.loss();
      EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
      backward(whole.ctx, a), backward(pieces.ctx, b);
    }
    first.step(whole.ctx, 1e-2F), second.step(pieces.ctx, 1e-2F);
    first.zero_gradients(), second.zero_gradients();
  }
  const auto expected = parameters(whole.stack), got = parameters(pieces.stack);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    read_layer(pieces.ctx, got[i].parameter->layer);
    EXPECT_EQ(expected[i].parameter->tensor.to_vector<float>(), got[i].parameter->tensor.to_vector<float>()) << got[i].name;
  }
  read_layer(pieces.ctx, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Precisions, LayerPiecesTest, testing::Values(DType::float32, DType::bfloat16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(LayerPieces, AWeightIsThereWhileItsLayerComputesOnly) {
  ThreeLayers model(std::make_shared<Pretended>(0, 1), DType::float32);
  const Tensor weight = model.stack.layers[1].feed_forward.in.weight.tensor;
  const std::vector<float> before = weight.to_vector<float>();
  const Adam adam(model.ctx, parameters(model.stack), {.shard_weights = true});
  EXPECT_EQ(weight.storage()->data, nullptr);
  EXPECT_THROW(static_cast<void>(weight.data<float>()), Error);
  read_layer(model.ctx, &model.stack.layers[1]);
  EXPECT_EQ(weight.to_vector<float>(), before);
  EXPECT_EQ(model.stack.layers[2].feed_forward.in.weight.tensor.storage()->data, nullptr);
  read_layer(model.ctx, nullptr);
  EXPECT_EQ(weight.storage()->data, nullptr);
  std::vector<float> changed = before;
  changed[5] = 7.0F;
  write_weight(model.ctx, weight, [&] {
    EXPECT_EQ(weight.to_vector<float>(), before);
    Tensor all = weight.detach();
    copy_into(model.ctx, Tensor::from(model.ctx, weight.shape(), changed), all);
  });
  read_layer(model.ctx, &model.stack.layers[1]);
  EXPECT_EQ(weight.to_vector<float>(), changed);
}

TEST(LayerPieces, MemoryFallsAsTheNumberOfProcesses) {
  const auto kept = [](int n) {
    ThreeLayers model(std::make_shared<Pretended>(n - 1, n), DType::float32);
    const Adam adam(model.ctx, parameters(model.stack), {.shard_weights = true});
    model.ctx.allocator().release_kept();
    EXPECT_GE(adam.state_bytes(), 8 * adam.pieces()->size());
    return std::pair{static_cast<double>(adam.pieces()->size()), static_cast<double>(model.ctx.memory().in_use)};
  };
  const auto [elements, bytes] = kept(1);
  for (const int n : {2, 3, 4, 8}) {
    const auto [part, memory] = kept(n);
    EXPECT_NEAR(part, elements / n, 3.0 * 64) << n;  // but for the alignment of each layer
    EXPECT_LT(memory, bytes / n + 40e3) << n;        // weights, gradients, m and v; what is outside of layers is small
  }
}

}  // namespace
}  // namespace transformer::test
