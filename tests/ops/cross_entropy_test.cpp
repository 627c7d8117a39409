#include "transformer/ops/cross_entropy.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/op_check.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/random.h"

namespace transformer::test {
namespace {

using Ids = std::vector<std::int64_t>;

// The definition, on logits [n, vocab].
template <class S>
Array<S> reference_loss(const Array<S>& logits, const Ids& targets, const CrossEntropyOptions& o) {
  using std::exp, std::log, reference::exp, reference::log;
  const std::int64_t vocab = logits.dim(1);
  S sum(0.0);
  double counted = 0.0;
  for (std::int64_t i = 0; i < logits.dim(0); ++i) {
    const std::int64_t t = targets[static_cast<std::size_t>(i)];
    if (t == o.ignore) continue;
    S total(0.0), mean(0.0);
    for (std::int64_t v = 0; v < vocab; ++v) total += exp(logits.at(i, v)), mean += logits.at(i, v) * S(1.0 / static_cast<double>(vocab));
    const double eps = o.label_smoothing;
    sum += log(total) - logits.at(i, t) * S(1.0 - eps) - mean * S(eps);
    counted += 1.0;
  }
  Array<S> loss(Shape{1});
  loss[0] = o.reduction == CrossEntropyOptions::mean && counted > 0 ? sum * S(1.0 / counted) : sum;
  return loss;
}

template <class S>
Array<S> reference_linear(const Array<S>& x, const Array<S>& w, const Array<S>* bias) {
  Array<S> y({x.dim(0), w.dim(0)});
  for (std::int64_t i = 0; i < x.dim(0); ++i)
    for (std::int64_t v = 0; v < w.dim(0); ++v) {
      if (bias != nullptr) y.at(i, v) = (*bias)[v];
      for (std::int64_t k = 0; k < x.dim(1); ++k) y.at(i, v) += x.at(i, k) * w.at(v, k);
    }
  return y;
}

Ids targets_for(std::int64_t n, std::int64_t vocab, std::int64_t every_ignored = 0) {
  Ids ids;
  for (std::int64_t i = 0; i < n; ++i) ids.push_back(every_ignored != 0 && i % every_ignored == 1 ? -100 : (i * 7 + 3) % vocab);
  return ids;
}

TEST(CrossEntropy, AgreesWithTheDefinition) {
  for (const auto reduction : {CrossEntropyOptions::mean, CrossEntropyOptions::sum})
    for (float smoothing : {0.0F, 0.1F})
      for (auto [n, vocab] : {std::pair{1, 1}, {1, 3}, {3, 17}, {5, 65}, {2, 200}}) {
        const CrossEntropyOptions o{.label_smoothing = smoothing, .reduction = reduction};
        const Ids ids = targets_for(n, vocab, 3);
        check_op(
            {.name = "cross_entropy " + std::to_string(vocab),
             .inputs = {{.shape = {n, vocab}, .low = -3, .high = 3}, {.shape = {n}, .ids = ids}}},
            [&](Context& ctx, const Tensors& in) { return cross_entropy(ctx, in[0], in[1], o); },
            [&](const auto& in) { return reference_loss(in[0], ids, o); });
      }
}

// Each gradient is right by itself, also those of improbable tokens, which are small beside the target's.
TEST(CrossEntropy, EveryGradientInBfloat16IsRightToItsOwnSize) {
  Context ctx({.precision = DType::bfloat16});
  const std::int64_t n = 6, vocab = 300;
  const Input input{.shape = {n, vocab}, .low = -3, .high = 3};
  const std::vector<double> values = detail::rounded(detail::draw(input, 5), DType::bfloat16);
  Tensor logits = detail::make_input(ctx, input, values, DType::bfloat16);
  require_grad(logits);
  const Ids ids = targets_for(n, vocab);
  backward(ctx, cross_entropy(ctx, logits, Tensor::from<std::int64_t>(ctx, {n}, ids)));
  const std::vector<double> got = detail::to_double(gradient(logits));
  for (std::int64_t i = 0; i < n; ++i) {
    double total = 0.0;
    for (std::int64_t v = 0; v < vocab; ++v) total += std::exp(values[static_cast<std::size_t>(i * vocab + v)]);
    for (std::int64_t v = 0; v < vocab; ++v) {
      const auto at = static_cast<std::size_t>(i * vocab + v);
      const double want = (std::exp(values[at]) / total - (v == ids[static_cast<std::size_t>(i)] ? 1.0 : 0.0)) / static_cast<double>(n);
      EXPECT_NEAR(got[at], want, 0.01 * std::abs(want)) << "row " << i << ", token " << v;
    }
  }
}

TEST(CrossEntropy, FusedWithTheProjection) {
  for (float smoothing : {0.0F, 0.1F})
    for (std::int64_t chunk : {0, 1, 4})
      for (auto [n, d, vocab] : {std::tuple{1, 1, 2}, {3, 17, 5}, {9, 8, 33}}) {
        const CrossEntropyOptions o{.label_smoothing = smoothing, .chunk_rows = chunk};
        const Ids ids = targets_for(n, vocab, 4);
        const Input x{.shape = {n, d}}, weight{.shape = {vocab, d}, .master = true}, bias{.shape = {vocab}, .master = true},
            targets{.shape = {n}, .ids = ids};
        check_op(
            {.name = "linear_cross_entropy", .inputs = {x, weight, bias, targets}, .bfloat16_tolerance = 2e-2},  // p - 1 of rounded logits
            [&](Context& ctx, const Tensors& in) { return linear_cross_entropy(ctx, in[0], in[1], in[2], in[3], o); },
            [&](const auto& in) { return reference_loss(reference_linear(in[0], in[1], &in[2]), ids, o); });
        check_op(
            {.name = "linear_cross_entropy without bias", .inputs = {x, weight, targets}},
            [&](Context& ctx, const Tensors& in) { return linear_cross_entropy(ctx, in[0], in[1], {}, in[2], o); },
            [&](const auto& in) { return reference_loss(reference_linear(in[0], in[1], static_cast<decltype(&in[0])>(nullptr)), ids, o); });
      }
}

// A row of the weight that is a constant: its gradient is none, all others are as they are without it.
TEST(CrossEntropy, ARowThatIsNotTrained) {
  Context ctx({.seed = 2});
  const std::vector<float> rows{0.3F, -0.2F, 0.0F, 0.0F, 0.7F, 0.1F, -0.4F, 0.9F};
  auto gradients = [&](std::int64_t fixed) {
    Tensor x = tensor(ctx, {3, 2}, {1, 2, -1, 0.5F, 0.25F, 3}), w = tensor(ctx, {4, 2}, rows);
    require_grad(x), require_grad(w);
    backward(ctx,
             linear_cross_entropy(ctx, x, w, {}, Tensor::from<std::int32_t>(ctx, {3}, {0, 2, 3}),
                                  {.label_smoothing = 0.1F, .chunk_rows = 2, .fixed_row = fixed}));
    return std::pair(gradient(x).to_vector<float>(), gradient(w).to_vector<float>());
  };
  const auto [dx, dw] = gradients(-1);
  const auto [fixed_dx, fixed_dw] = gradients(1);
  EXPECT_EQ(fixed_dx, dx);
  EXPECT_NE(dw[2], 0.0F);
  for (std::size_t i = 0; i < dw.size(); ++i) EXPECT_EQ(fixed_dw[i], i / 2 == 1 ? 0.0F : dw[i]) << i;
  expect_error([&] { gradients(4); }, {"fixed_row is 4", "[4, 2]"});
}

TEST(CrossEntropy, WorkedNumber) {
  Context ctx;  // the target has probability 0.7
  const Tensor logits = tensor(ctx, {1, 3}, {std::log(0.2F), std::log(0.7F), std::log(0.1F)});
  EXPECT_NEAR(cross_entropy(ctx, logits, Tensor::from<std::int32_t>(ctx, {1}, {1})).item(), 0.3567, 5e-5);
}

TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  Context ctx;
  Tensor logits = tensor(ctx, {3, 3}, {1000, 0, -1000, -1e30F, 0, -1e30F, -INFINITY, 2, 2});
  require_grad(logits);
  const Tensor loss = cross_entropy(ctx, logits, Tensor::from<std::int32_t>(ctx, {3}, {1, 1, 2}), {.reduction = CrossEntropyOptions::sum});
  EXPECT_NEAR(loss.item(), 1000.0 + 0.0 + std::log(2.0), 1e-4);
  backward(ctx, loss);
  expect_near(gradient(logits), {1, -1, 0, 0, 0, 0, 0, 0.5, -0.5}, 1e-6);
}

TEST(CrossEntropy, NotANumberStaysVisible) {
  Context ctx;
  for (std::int64_t at : {0, 5, 18}) {
    std::vector<float> values(19, 0.5F);
    values[static_cast<std::size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(cross_entropy(ctx, tensor(ctx, {1, 19}, values), Tensor::from<std::int32_t>(ctx, {1}, {3})).item())) << at;
  }
}

TEST(CrossEntropy, NothingToPredict) {
  Context ctx;
  for (std::int64_t n : {0, 3}) {
    Tensor x = Tensor::full(ctx, {n, 4}, 1.0F), w = Tensor::full(ctx, {5, 4}, 1.0F), b = Tensor::full(ctx, {5}, 1.0F);
    for (Tensor* t : {&x, &w, &b}) require_grad(*t);
    const Tensor targets = Tensor::from<std::int64_t>(ctx, {n}, Ids(static_cast<std::size_t>(n), -100));
    const Tensor loss = linear_cross_entropy(ctx, x, w, b, targets);
    EXPECT_EQ(loss.item(), 0.0F);
    backward(ctx, loss);
    expect_near(gradient(x), std::vector<double>(static_cast<std::size_t>(n) * 4, 0.0), 0.0);
    expect_near(gradient(w), std::vector<double>(20, 0.0), 0.0);
    expect_near(gradient(b), std::vector<double>(5, 0.0), 0.0);

    Tensor logits = Tensor::full(ctx, {n, 5}, 1.0F);
    require_grad(logits);
    const Tensor plain = cross_entropy(ctx, logits, targets);
    EXPECT_EQ(plain.item(), 0.0F);
    backward(ctx, plain);
    expect_near(gradient(logits), std::vector<double>(static_cast<std::size_t>(n) * 5, 0.0), 0.0);
  }
}

TEST(CrossEntropy, RowsMayBeStridedAndAreLeftAlone) {
  Context ctx;
  const Tensor wide = tensor(ctx, {2, 4}, {1, 2, 3, 100, 4, 4, 6, 100});
  const Tensor targets = Tensor::from<std::int32_t>(ctx, {2}, {0, 2});
  Tensor block = wide.column_block(0, 3);
  const float want = cross_entropy(ctx, tensor(ctx, {2, 3}, {1, 2, 3, 4, 4, 6}), targets).item();
  EXPECT_EQ(cross_entropy(ctx, block, targets).item(), want);
  require_grad(block);
  EXPECT_EQ(cross_entropy(ctx, block, targets).item(), want);
  expect_near(wide, {1, 2, 3, 100, 4, 4, 6, 100}, 0.0);

  const Tensor w = tensor(ctx, {2, 3}, {1, 0, -1, 0.5, 0.25, 0.125});
  EXPECT_EQ(linear_cross_entropy(ctx, wide.column_block(0, 3), w, {}, Tensor::from<std::int32_t>(ctx, {2}, {0, 1})).item(),
            linear_cross_entropy(ctx, tensor(ctx, {2, 3}, {1, 2, 3, 4, 4, 6}), w, {}, Tensor::from<std::int32_t>(ctx, {2}, {0, 1})).item());
}

TEST(CrossEntropy, SameBitsForAnyNumberOfThreads) {
  std::vector<float> first;
  for (int threads : {1, 2, 3}) {
    Context ctx({.threads = threads});
    std::vector<float> values(64 * 5003);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = RandomStream{7, 0, 0}.uniform(i) * 8.0F;
    Tensor logits = tensor(ctx, {64, 5003}, values);
    require_grad(logits);
    const Tensor loss = cross_entropy(ctx, logits, Tensor::from<std::int64_t>(ctx, {64}, targets_for(64, 5003, 5)),
                                      {.label_smoothing = 0.1F});
    backward(ctx, loss);
    std::vector<float> all = gradient(logits).to_vector<float>();
    all.push_back(loss.item());
    if (threads == 1) first = all;
    EXPECT_EQ(all, first) << threads;
  }
}

TEST(CrossEntropy, NamesWhatIsWrong) {
  Context ctx;
  const Tensor logits = Tensor::full(ctx, {2, 3}, 0.0F), x = Tensor::full(ctx, {2, 4}, 0.0F), w = Tensor::full(ctx, {3, 4}, 0.0F);
  const Tensor ok = Tensor::from<std::int32_t>(ctx, {2}, {0, 1});
  expect_error(
      [&] {
    cross_entropy(ctx, logits, Tensor::from<std::int32_t>(ctx, {2}, {0, 3}));
      },
      {"cross_entropy", "target 3", "position 1", "[0, 3)"});
  expect_error([&] { cross_entropy(ctx, logits, Tensor::from<std::int64_t>(ctx, {2}, {-1, 0})); }, {"target -1", "position 0"});
  expect_error([&] { cross_entropy(ctx, {}, ok); }, {"cross_entropy", "undefined"});
  expect_error([&] { cross_entropy(ctx, logits, {}); }, {"targets", "undefined"});
  expect_error([&] { cross_entropy(ctx, logits, Tensor::from<std::int32_t>(ctx, {3}, {0, 1, 2})); }, {"[3]", "2 rows"});
  expect_error([&] { cross_entropy(ctx, logits, Tensor::full(ctx, {2}, 0.0F)); }, {"int32 or int64", "float32"});
  expect_error([&] { cross_entropy(ctx, logits.view({6}), ok); }, {"two dimensions", "[6]"});
  expect_error([&] { cross_entropy(ctx, logits, ok, {.label_smoothing = 1.5F}); }, {"label smoothing", "1.5"});
  expect_error(
      [&] {
    linear_cross_entropy(ctx, x, Tensor::full(ctx, {3, 5}, 0.0F), {}, ok);
      },
      {"linear_cross_entropy", "[2, 4]", "[3, 5]"});
  expect_error([&] { linear_cross_entropy(ctx, x, w, Tensor::full(ctx, {4}, 0.0F), ok); }, {"bias [4]", "[3]"});
  expect_error(
      [&] {
    linear_cross_entropy(ctx, x, w, {}, Tensor::from<std::int32_t>(ctx, {2}, {0, 7}));
      },
      {"linear_cross_entropy", "target 7"});
  expect_error([&] { linear_cross_entropy(ctx, x, w, {}, ok, {.chunk_rows = -1}); }, {"chunk_rows"});
}

TEST(CrossEntropy, FullLogitsNeverExist) {
  Context ctx({.threads = 2});  // what many threads have of their own would hide it
  const std::int64_t n = 256, d = 8, vocab = 20000;
  Tensor x = Tensor::full(ctx, {n, d}, 0.1F), w = Tensor::full(ctx, {vocab, d}, 0.1F);
  require_grad(x), require_grad(w);
  const Tensor targets = Tensor::from<std::int64_t>(ctx, {n}, targets_for(n, vocab));
  ctx.allocator().reset_peak();
  const std::size_t before = ctx.allocator().stats().in_use;
  backward(ctx, linear_cross_entropy(ctx, x, w, {}, targets, {.chunk_rows = 16}));
  EXPECT_LT(ctx.allocator().stats().peak_in_use - before, static_cast<std::size_t>(n * vocab) * sizeof(float) / 4);
}

// The guarded device makes room for more columns than there are classes: they change neither the loss nor a gradient.
TEST(CrossEntropy, ColumnsBeyondTheClassesDoNotCount) {
  std::vector<std::vector<float>> all;
  for (const Device device : {Device::cpu(), Device::guarded()}) {
    Context ctx({.device = device, .seed = 5});
    Tensor x = random_uniform(ctx, {7, 6}), w = random_uniform(ctx, {5, 6});
    require_grad(x), require_grad(w);
    const Tensor targets = Tensor::from<std::int32_t>(ctx, {7}, {0, 4, 2, -100, 3, 1, 4});
    const Tensor loss = linear_cross_entropy(ctx, x, w, {}, targets, {.label_smoothing = 0.1F, .chunk_rows = 3});
    backward(ctx, loss);
    std::vector<float>& values = all.emplace_back(loss.to_vector<float>());
    for (const Tensor& t : {gradient(x), gradient(w)})
      for (const float v : t.to_vector<float>()) values.push_back(v);
  }
  ASSERT_EQ(all[0].size(), all[1].size());
  for (std::size_t i = 0; i < all[0].size(); ++i) EXPECT_NEAR(all[0][i], all[1][i], 1e-6) << i;
}

}  // namespace
}  // namespace transformer::test
