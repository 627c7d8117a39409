// The parameters of a training in one block: nothing that a user sees changes, and a step is a few calls of kernels.
#include "train/arena.h"

#include <gtest/gtest.h>

#include "backend/guarded/counts.h"
#include "support/change.h"
#include "support/op_check.h"
#include "transformer/ops/cross_entropy.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/embedding.h"
#include "transformer/ops/linear.h"
#include "transformer/ops/reduce.h"
#include "transformer/ops/shape.h"
#include "transformer/train/optimizer.h"

namespace transformer::test {
namespace {

Tensor counted(Context& ctx, const Shape& shape, float first) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + 0.01F * static_cast<float>(i % 17);
  Tensor t = Tensor::from<float>(ctx, shape, values);
  require_grad(t);
  return t;
}

// A model with a table that is used twice, a bias, and a parameter that takes no part.
struct Small {
  Tensor table, bias, unused;
  explicit Small(Context& ctx) : table(counted(ctx, {11, 6}, 0.1F)), bias(counted(ctx, {11}, -0.2F)), unused(counted(ctx, {3}, 1.0F)) {}
  std::vector<Tensor> all() const { return {table, bias, unused}; }
  Tensor loss(Context& ctx) const {
    const Tensor ids = Tensor::from<std::int64_t>(ctx, {4}, {1, 7, 7, 3}), next = Tensor::from<std::int64_t>(ctx, {4}, {7, 7, 3, 0});
    return linear_cross_entropy(ctx, embedding(ctx, ids, table), table, bias, next);
  }
};

}  // namespace

TEST(Arena, LeavesMoveAndWhoHasThemSeesNothing) {
  Context ctx;
  const Small model(ctx);
  const Tensor block_of_table = model.table.row_block(2, 3);
  const std::vector<float> before = model.table.to_vector<float>(), part = block_of_table.to_vector<float>();
  std::int64_t apart = 0;
  {
    const Arena arena(ctx, model.all());
    EXPECT_EQ(model.table.to_vector<float>(), before);
    EXPECT_EQ(block_of_table.to_vector<float>(), part);
    EXPECT_EQ(arena.weights().numel(), 128 + 64 + 64);
    apart = (model.bias.raw() - model.table.raw()) / size_of(DType::float32);
    EXPECT_TRUE(arena.follow(0));
    EXPECT_EQ(*arena.find(model.bias), 1U);
    EXPECT_EQ(arena.find(counted(ctx, {2}, 0.0F)), nullptr);
    EXPECT_EQ(arena.range(arena.weights(), 0, 1).numel(), 128 + 11);
  }
  EXPECT_EQ(apart, 128);  // the next multiple of 64
  EXPECT_EQ(model.table.to_vector<float>(), before);
}

// The loss computes its gradients ahead, twice over, and they are where they belong.
TEST(Arena, GradientsLieInTheBlockAndAreThoseWithoutIt) {
  Context ctx;
  const Small plain(ctx), moved(ctx);
  const Arena arena(ctx, moved.all());
  for (int times = 1; times <= 2; ++times) {
    for (const Small* model : {&plain, &moved}) {
      const Tensor first = model->loss(ctx), second = scale(ctx, model->loss(ctx), 3.0F);
      backward(ctx, first);
      backward(ctx, second);
    }
    EXPECT_EQ(gradient(moved.table).to_vector<float>(), gradient(plain.table).to_vector<float>());
    EXPECT_EQ(gradient(moved.bias).to_vector<float>(), gradient(plain.bias).to_vector<float>());
    EXPECT_EQ(gradient(moved.table).raw(), arena.gradients().raw());
    EXPECT_FALSE(gradient(moved.unused).defined());
  }
}

TEST(Arena, WhatLiesElsewhereIsBroughtHome) {
  Context ctx;
  const Small model(ctx);
  Arena arena(ctx, model.all());
  const Arena other(ctx, model.all());  // has them now
  Tensor bias = model.bias;
  change(ctx, bias, [](std::vector<float>& values) { values[0] = 5.0F; });
  bias.node()->grad = Tensor::full(ctx, {11}, 2.0F);
  arena.settle(ctx);
  EXPECT_EQ(arena.part(arena.weights(), 1).to_vector<float>(), bias.to_vector<float>());
  EXPECT_EQ(bias.to_vector<float>()[0], 5.0F);
  EXPECT_EQ(arena.part(arena.gradients(), 1).to_vector<float>(), std::vector<float>(11, 2.0F));
  EXPECT_EQ(gradient(bias).raw(), arena.part(arena.gradients(), 1).raw());
  EXPECT_EQ(bias.raw(), arena.part(arena.weights(), 1).raw());
}

// Rows 0-2 and 4-5 of one matrix are trained, row 3 is not.
TEST(Arena, PartsOfOneStorageMoveTogether) {
  Context ctx;
  const Tensor matrix = Tensor::full(ctx, {6, 10}, 1.0F);
  Tensor above = matrix.row_block(0, 3), below = matrix.row_block(4, 2), last = counted(ctx, {4}, 1.0F);
  require_grad(above), require_grad(below);
  Adam adam(ctx, std::vector<Tensor>{above, below, last});
  EXPECT_FALSE(adam.arena().follow(0));
  EXPECT_TRUE(adam.arena().follow(1));
  backward(ctx, add(ctx, add(ctx, sum(ctx, above), sum(ctx, below)), sum(ctx, last)));
  adam.step(ctx, 0.25F);
  const std::vector<float> values = matrix.to_vector<float>();
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], i / 10 == 3 ? 1.0 : 0.75, 1e-6) << i;
}

TEST(Arena, TwoOptimizersOfOneParameterTakeTurns) {
  Context ctx;
  Tensor w = counted(ctx, {70}, 1.0F), alone = counted(ctx, {70}, 1.0F);
  Adam first(ctx, std::vector<Tensor>{w}), second(ctx, std::vector<Tensor>{w});
  Adam reference(ctx, std::vector<Tensor>{alone});
  const auto step = [&](Adam& adam, const Tensor& of, float lr) {
    backward(ctx, sum(ctx, square(ctx, of)));
    adam.step(ctx, lr);
    adam.zero_gradients();
  };
  step(first, w, 0.1F), step(second, w, 0.0F), step(first, w, 0.1F);
  step(reference, alone, 0.1F), step(reference, alone, 0.1F);
  EXPECT_EQ(w.to_vector<float>(), alone.to_vector<float>());
}

// However many parameters there are, and whatever the precision: the norm, and the update of those that decay and of the others.
TEST(Arena, AStepOfTheOptimizerIsTwoLaunchesAtTheSameAddresses) {
  for (DType precision : {DType::float32, DType::bfloat16}) {
    Context ctx({.device = Device::guarded(), .threads = 1, .precision = precision});
    std::vector<Adam::Parameter> parameters;
    for (int i = 0; i < 20; ++i) parameters.push_back({counted(ctx, {5 + i, 3}, 1.0F), "", i % 2 == 0});
    Adam adam(ctx, parameters, {.weight_decay = 0.1F});
    std::vector<const std::byte*> addresses;
    for (int step = 1; step <= 3; ++step) {
      std::vector<const std::byte*> now;
      Tensor loss = Tensor::zeros(ctx, {1});
      for (const auto& p : parameters) {
        const Tensor x = Tensor::full(ctx, {2, 3}, 1.0F, precision);
        loss = add(ctx, loss, cast(ctx, sum(ctx, linear(ctx, x, p.tensor)), DType::float32));
      }
      backward(ctx, loss);
      const GuardedCounts before = guarded_counts();
      adam.begin(ctx, 0.01F);
      adam.update(ctx, 1.0F);
      adam.zero_gradients();
      EXPECT_EQ(guarded_counts().launches - before.launches, 2);
      EXPECT_EQ(guarded_counts().uploads - before.uploads, 1);
      for (const auto& p : parameters)
        now.insert(now.end(), {p.tensor.raw(), p.tensor.node()->home.raw(), in_precision(ctx, p.tensor, precision).raw()});
      if (step > 1) {
        EXPECT_EQ(now, addresses);
      }
      addresses = now;
    }
  }
}

}  // namespace transformer::test
