#include "transformer/train/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/change.h"
#include "support/op_check.h"
#include "transformer/ops/linear.h"

namespace transformer::test {
namespace {

void set_gradient(Context& ctx, const Tensor& leaf, const Tensor& g) {
  leaf.node()->grad = Tensor();
  GradientSlot(leaf.node().get()).add(ctx, g);
}

Tensor random(Context& ctx, const Shape& shape, std::uint64_t seed) {
  const std::vector<double> v = detail::draw({.shape = shape, .ids = {}}, seed);
  return tensor(ctx, shape, {v.begin(), v.end()});
}

Tensor leaf(Context& ctx, const Shape& shape, std::uint64_t seed) {
  Tensor t = random(ctx, shape, seed);
  require_grad(t);
  return t;
}

// PyTorch's update, in float64.
struct Reference {
  std::vector<double> w, m, v;
  explicit Reference(const Tensor& t) : w(detail::to_double(t)), m(w.size()), v(w.size()) {}
  void step(const Tensor& gradient, const AdamOptions& o, double decay, double lr, double scale, int t) {
    const std::vector<double> g0 = detail::to_double(gradient);
    const double beta1 = o.beta1, beta2 = o.beta2;
    for (std::size_t i = 0; i < w.size(); ++i) {
      double g = g0[i] * scale;
      if (o.decoupled) w[i] *= 1.0 - lr * decay;
      else g += decay * w[i];
      m[i] = beta1 * m[i] + (1.0 - beta1) * g;
      v[i] = beta2 * v[i] + (1.0 - beta2) * g * g;
      w[i] -= lr / (1.0 - std::pow(beta1, t)) * m[i] / (std::sqrt(v[i]) / std::sqrt(1.0 - std::pow(beta2, t)) + o.eps);
    }
  }
};

TEST(Adam, AgreesWithTheFormulas) {
  for (bool decoupled : {true, false})
    for (float max_norm : {0.0F, 1.0F}) {
      Context ctx;
      const AdamOptions options{.weight_decay = 0.1F, .decoupled = decoupled};
      const std::vector<Shape> shapes{{1}, {3}, {17}, {5, 13}, {0}, {129, 300}};
      std::vector<Adam::Parameter> parameters;
      std::vector<Reference> references;
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        parameters.push_back({leaf(ctx, shapes[i], i + 1), fmt::format("p{}", i), i % 2 == 1});
        references.emplace_back(parameters.back().tensor);
      }
      Adam adam(ctx, parameters, options);
      for (int t = 1; t <= 4; ++t) {
        double squares = 0.0;
        for (std::size_t i = 0; i < shapes.size(); ++i) {
          set_gradient(ctx, parameters[i].tensor, random(ctx, shapes[i], 100 * static_cast<std::uint64_t>(t) + i));
          for (double g : detail::to_double(gradient(parameters[i].tensor))) squares += g * g;
        }
        const double scale = max_norm > 0.0F ? std::min(1.0, max_norm / (std::sqrt(squares) + 1e-6)) : 1.0;
        for (std::size_t i = 0; i < shapes.size(); ++i)
          references[i].step(gradient(parameters[i].tensor), options, parameters[i].decay ? 0.1F : 0.0, 1e-2F, scale, t);
        EXPECT_NEAR(adam.step(ctx, 1e-2F, max_norm), std::sqrt(squares), 1e-9 * std::sqrt(squares));
      }
      EXPECT_EQ(adam.steps(), 4);
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        expect_near(parameters[i].tensor, references[i].w, 2e-6);
        expect_near(adam.state()[i].m, references[i].m, 1e-6);
        expect_near(adam.state()[i].v, references[i].v, 1e-6);
      }
    }
}

TEST(Adam, FirstStepIsTheLearningRate) {
  Context ctx;  // m/√v = ±1 after one step, whatever the size of the gradient
  Tensor w = tensor(ctx, {3}, {1.0F, 2.0F, 3.0F});
  require_grad(w);
  Adam adam(ctx, std::vector<Tensor>{w});
  set_gradient(ctx, w, tensor(ctx, {3}, {1e-3F, -5.0F, 1e4F}));
  adam.step(ctx, 0.1F);
  expect_near(w, {0.9, 2.1, 2.9}, 1e-6);
}

TEST(Adam, ParametersWithoutGradientAreLeftAlone) {
  Context ctx;
  Tensor a = leaf(ctx, {4}, 1), b = leaf(ctx, {4}, 2);
  Adam adam(ctx, std::vector<Tensor>{a, b}, {.weight_decay = 0.5F});
  EXPECT_EQ(adam.step(ctx, 0.1F), 0.0);
  EXPECT_EQ(adam.steps(), 0);
  const std::vector<float> before = b.to_vector<float>();
  set_gradient(ctx, a, random(ctx, {4}, 3));
  EXPECT_GT(adam.step(ctx, 0.1F), 0.0);
  EXPECT_EQ(b.to_vector<float>(), before);
  EXPECT_NE(a.to_vector<float>(), random(ctx, {4}, 1).to_vector<float>());
  adam.zero_gradients();
  EXPECT_FALSE(gradient(a).defined());
}

TEST(Adam, TiedParametersAreUpdatedOnce) {
  Context ctx;
  Tensor w = leaf(ctx, {4}, 1), once = leaf(ctx, {4}, 1);
  Adam tied(ctx, std::vector<Tensor>{w, w}), single(ctx, std::vector<Tensor>{once});
  set_gradient(ctx, w, random(ctx, {4}, 3)), set_gradient(ctx, once, random(ctx, {4}, 3));
  EXPECT_EQ(tied.step(ctx, 0.1F), single.step(ctx, 0.1F));
  EXPECT_EQ(w.to_vector<float>(), once.to_vector<float>());
}

TEST(Adam, RenewsTheBfloat16Copy) {
  Context ctx({.precision = DType::bfloat16});
  Tensor w = leaf(ctx, {7, 33}, 1);
  Adam adam(ctx, std::vector<Tensor>{w});
  const Tensor copy = in_precision(ctx, w, DType::bfloat16);
  set_gradient(ctx, w, random(ctx, {7, 33}, 2));
  adam.step(ctx, 0.1F);
  const Tensor after = in_precision(ctx, w, DType::bfloat16);
  EXPECT_TRUE(after.same_memory(copy));  // not made anew
  const std::vector<float> values = w.to_vector<float>();
  const std::vector<bfloat16> rounded = after.to_vector<bfloat16>();
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(rounded[i].bits, bfloat16(values[i]).bits);
  // A later write to the weight still makes a new one.
  change(ctx, w, [](std::vector<float>& values) { values[0] = 100.0F; });
  EXPECT_EQ(static_cast<float>(in_precision(ctx, w, DType::bfloat16).to_vector<bfloat16>()[0]), 100.0F);
}

TEST(Adam, SameBitsForAnyNumberOfThreads) {
  std::vector<float> first;
  double first_norm = 0.0;
  for (int threads : {1, 2, 3}) {
    Context ctx({.threads = threads});
    Tensor a = leaf(ctx, {100'003}, 1), b = leaf(ctx, {33}, 2);
    Adam adam(ctx, std::vector<Tensor>{a, b});
    set_gradient(ctx, a, random(ctx, {100'003}, 3)), set_gradient(ctx, b, random(ctx, {33}, 4));
    const double norm = adam.step(ctx, 0.1F, 1.0F);
    if (threads == 1) first = a.to_vector<float>(), first_norm = norm;
    EXPECT_EQ(a.to_vector<float>(), first);
    EXPECT_EQ(norm, first_norm);
  }
}

TEST(Adam, GoesOnFromASavedState) {
  Context ctx;
  Tensor a = leaf(ctx, {20}, 1), b = leaf(ctx, {20}, 1);
  Adam straight(ctx, std::vector<Tensor>{a}), stopped(ctx, std::vector<Tensor>{b});
  for (std::uint64_t t = 0; t < 3; ++t) {
    set_gradient(ctx, a, random(ctx, {20}, t)), set_gradient(ctx, b, random(ctx, {20}, t));
    straight.step(ctx, 0.01F), stopped.step(ctx, 0.01F);
  }
  Adam resumed(ctx, std::vector<Tensor>{b});
  resumed.set_state(ctx, 0, stopped.state()[0].m, stopped.state()[0].v);
  resumed.set_steps(stopped.steps());
  set_gradient(ctx, a, random(ctx, {20}, 9)), set_gradient(ctx, b, random(ctx, {20}, 9));
  straight.step(ctx, 0.01F), resumed.step(ctx, 0.01F);
  EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
}

TEST(Adam, LargeAndBrokenGradients) {
  Context ctx;
  Tensor w = leaf(ctx, {40}, 1);
  Adam adam(ctx, std::vector<Tensor>{w});
  set_gradient(ctx, w, Tensor::full(ctx, {40}, 1e30F));
  EXPECT_NEAR(adam.step(ctx, 0.1F, 1.0F) / (1e30 * std::sqrt(40.0)), 1.0, 1e-6);  // no overflow in the norm
  for (float v : w.to_vector<float>()) EXPECT_TRUE(std::isfinite(v));
  set_gradient(ctx, w, Tensor::full(ctx, {40}, std::numeric_limits<float>::quiet_NaN()));
  const std::vector<float> before = w.to_vector<float>();
  EXPECT_TRUE(std::isnan(adam.step(ctx, 0.1F, 1.0F)));
  EXPECT_EQ(w.to_vector<float>(), before);  // one broken batch does not spoil the model
  EXPECT_EQ(adam.steps(), 1);
}

TEST(Adam, TrainsALinearModel) {
  Context ctx({.threads = 1});  // y = x·Wᵀ with a known W is found again
  const Tensor truth = random(ctx, {3, 5}, 1), x = random(ctx, {40, 5}, 2);
  const Tensor y = linear(ctx, x, truth);
  Tensor w = leaf(ctx, {3, 5}, 7);
  Adam adam(ctx, std::vector<Tensor>{w}, {.beta2 = 0.9F});
  const std::vector<float> want = y.to_vector<float>();
  for (int i = 0; i < 400; ++i) {
    const Tensor out = linear(ctx, x, w);
    std::vector<float> d = out.to_vector<float>();  // gradient of half the squared error
    for (std::size_t j = 0; j < d.size(); ++j) d[j] -= want[j];
    backward(ctx, out, tensor(ctx, {40, 3}, d));
    adam.step(ctx, 0.05F * std::pow(0.985F, static_cast<float>(i)));
    adam.zero_gradients();
  }
  expect_near(w, detail::to_double(truth), 1e-3);
}

TEST(Adam, NamesWhatIsWrong) {
  Context ctx;
  const Tensor plain = Tensor::zeros(ctx, {2});
  Tensor w = leaf(ctx, {2}, 1);
  expect_error([&] { Adam(ctx, std::vector<Adam::Parameter>{{plain, "norm.bias"}}); }, {"Adam", "norm.bias", "leaf"});
  expect_error([&] { Adam(ctx, std::vector<Tensor>{Tensor()}); }, {"parameter 0", "undefined"});
  expect_error([&] { Adam(ctx, std::vector<Tensor>{Tensor::empty(ctx, {2}, DType::bfloat16)}); }, {"float32", "bfloat16"});
  expect_error([&] { Adam(ctx, std::vector<Tensor>{w}, {.beta1 = 1.0F}); }, {"betas", "1"});
  Adam adam(ctx, std::vector<Tensor>{w});
  expect_error([&] { adam.step(ctx, 0.1F, -1.0F); }, {"max_norm", "-1"});
  expect_error([&] { adam.set_state(ctx, 1, w, w); }, {"no parameter 1"});
  expect_error([&] { adam.set_state(ctx, 0, Tensor::zeros(ctx, {3}), w); }, {"parameter 0", "[3]", "[2]"});
  expect_error([&] { adam.set_steps(-1); }, {"steps is -1"});
}

TEST(ClipGradients, WorkedNumber) {
  Context ctx;  // norm 15, threshold 1: scaled by 1/15
  Tensor a = leaf(ctx, {2}, 1), b = leaf(ctx, {1}, 2), unused = leaf(ctx, {5}, 3);
  const Tensor shared = tensor(ctx, {2}, {10.0F, 5.0F});
  set_gradient(ctx, a, shared);
  set_gradient(ctx, b, tensor(ctx, {1}, {10.0F}));
  EXPECT_NEAR(clip_gradients(ctx, std::vector<Tensor>{a, b, unused}, 1.0F), 15.0, 1e-9);
  expect_near(gradient(a), {10.0 / 15.0, 5.0 / 15.0}, 1e-6);
  expect_near(gradient(b), {10.0 / 15.0}, 1e-6);
  expect_near(shared, {10.0, 5.0}, 0.0);                                         // someone else's memory
  EXPECT_NEAR(clip_gradients(ctx, std::vector<Tensor>{a, b}, 2.0F), 1.0, 1e-6);  // below the threshold: as it is
  expect_near(gradient(b), {10.0 / 15.0}, 1e-6);
  expect_error([&] { clip_gradients(ctx, std::vector<Tensor>{a}, 0.0F); }, {"clip_gradients", "max_norm"});
}

}  // namespace
}  // namespace transformer::test
