#pragma once
// One declarative case per op: its inputs, the op, and a plain reference generic over the scalar. check_op then
// shows that
//   1. the reference's own gradient agrees with central differences of its value (float64),
//   2. the op's value and every gradient agree with the reference in float32,
//   3. and in bfloat16, within 1e-2.
// Errors are relative to the largest magnitude of the tensor itself, however small it is; one that vanishes (a key's bias, which
// softmax does not see) is held to the tolerance as it stands.
//
//   check_op({.name = "gelu", .inputs = {{{3, 17}}}},
//            [](Context& ctx, const Tensors& in) { return gelu(ctx, in[0]); },
//            [](const auto& in) { auto y = in[0]; for (auto& v : y.values) v = …; return y; });

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "support/autodiff.h"
#include "transformer/autograd/autograd.h"
#include "transformer/core/context.h"
#include "transformer/core/tensor.h"

// For what the CPU promises and a GPU does not: that a row's bits do not depend on what else is in its batch, or what is known of the
// processor and of the host's memory.
#define NOT_ON_A_GPU(why) \
  if (::transformer::Device::usual().kind == ::transformer::Device::Kind::cuda) GTEST_SKIP() << "not promised on a GPU: " why

namespace transformer::test {

using Tensors = std::vector<Tensor>;

// A reference tensor: row-major values of scalar S.
template <class S>
struct Array {
  Shape shape;
  std::vector<S> values;
  Array() = default;
  explicit Array(const Shape& s) : shape(s), values(static_cast<std::size_t>(s.numel()), S(0.0)) {}
  std::int64_t dim(int i) const { return shape[i]; }
  S& operator[](std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
  const S& operator[](std::int64_t i) const { return values[static_cast<std::size_t>(i)]; }
  S& at(std::int64_t i, std::int64_t j) { return (*this)[i * shape.back() + j]; }  // as a matrix of rows
  const S& at(std::int64_t i, std::int64_t j) const { return (*this)[i * shape.back() + j]; }
};
template <class S>
using Arrays = std::vector<Array<S>>;

struct Input {
  Shape shape;
  double low = -1.0, high = 1.0;       // uniform values
  bool gradient = true;                // check its gradient?
  bool master = false;                 // stays float32 when the others are bfloat16 (weights, norms' parameters)
  double away_from = NAN;              // keep values at least 0.02 from this point (kinks), and
  std::vector<std::int64_t> ids = {};  // when not empty: an int64 input with these values (gradient is ignored)
};

struct OpCase {
  std::string name;
  std::vector<Input> inputs;
  double tolerance = 1e-5;           // float32
  double gradient_tolerance = 1e-4;  // float32
  double bfloat16_tolerance = 1e-2;  // 0: not run in bfloat16
  bool differences = true;           // check the reference's gradient by central differences
  ContextOptions context = {};
};

namespace detail {
Tensor make_input(Context& ctx, const Input& input, const std::vector<double>& values, DType dtype);
std::vector<double> draw(const Input& input, std::uint64_t seed);
std::vector<double> rounded(const std::vector<double>& values, DType dtype);
std::vector<double> to_double(const Tensor& t);
void compare(const std::string& what, const std::vector<double>& got, const std::vector<double>& want, double tolerance);

template <class S>
S weighted_sum(const Array<S>& y, const std::vector<double>& weights) {
  S sum(0.0);
  for (std::size_t i = 0; i < y.values.size(); ++i) sum += y.values[i] * S(weights[i]);
  return sum;
}
}  // namespace detail

template <class Op, class Reference>
void check_op(const OpCase& c, Op&& op, Reference&& reference) {
  SCOPED_TRACE(c.name);
  using ::reference::Var;
  for (DType dtype : {DType::float32, DType::bfloat16}) {
    if (dtype == DType::bfloat16 && c.bfloat16_tolerance == 0.0) continue;
    const std::string in_dtype = std::string(" in ") + std::string(name_of(dtype));
    std::vector<std::vector<double>> values;
    for (std::size_t i = 0; i < c.inputs.size(); ++i)
      values.push_back(detail::rounded(detail::draw(c.inputs[i], 17 * i + 1), c.inputs[i].master ? DType::float32 : dtype));
    auto differentiable = [&](std::size_t i) { return c.inputs[i].gradient && c.inputs[i].ids.empty(); };

    // The reference: value and gradients of Σ wᵢ·yᵢ with fixed random w.
    Var::clear();
    Arrays<Var> vars;
    for (std::size_t i = 0; i < values.size(); ++i) {
      vars.emplace_back(c.inputs[i].shape);
      for (std::size_t j = 0; j < values[i].size(); ++j)
        vars[i].values[j] = differentiable(i) ? Var::variable(values[i][j]) : Var(values[i][j]);
    }
    const Array<Var> y = reference(vars);
    const std::vector<double> weights = detail::rounded(detail::draw({.shape = y.shape}, 99), dtype);
    std::vector<double> want_y;
    for (const Var& v : y.values) want_y.push_back(v.value());
    Var::backward(detail::weighted_sum(y, weights));
    std::vector<std::vector<double>> want_grad(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      for (const Var& v : vars[i].values) want_grad[i].push_back(v.gradient());
    Var::clear();

    if (dtype == DType::float32 && c.differences) {
      Arrays<double> plain;
      for (std::size_t i = 0; i < values.size(); ++i) plain.emplace_back(c.inputs[i].shape).values = values[i];
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (!differentiable(i)) continue;
        const std::size_t step = std::max<std::size_t>(1, values[i].size() / 7);  // some elements of each input
        for (std::size_t j = 0; j < values[i].size(); j += step) {
          constexpr double h = 1e-5;
          double& x = plain[i].values[j];
          const double before = x;
          x = before + h;
          const double up = detail::weighted_sum(reference(plain), weights);
          x = before - h;
          const double down = detail::weighted_sum(reference(plain), weights);
          x = before;
          const double slope = (up - down) / (2.0 * h);
          EXPECT_NEAR(want_grad[i][j], slope, 1e-6 * std::max(1.0, std::abs(slope))) << "reference: input " << i << " element " << j;
        }
      }
    }

    ContextOptions options = c.context;
    options.precision = dtype;
    Context ctx(options);
    Tensors in;
    for (std::size_t i = 0; i < values.size(); ++i) {
      in.push_back(detail::make_input(ctx, c.inputs[i], values[i], c.inputs[i].master ? DType::float32 : dtype));
      if (differentiable(i)) require_grad(in.back());
    }
    const Tensor got = op(ctx, in);
    ASSERT_EQ(got.shape().str(), y.shape.str());
    const bool low = dtype == DType::bfloat16;
    detail::compare("value" + in_dtype, detail::to_double(got), want_y, low ? c.bfloat16_tolerance : c.tolerance);
    bool any = false;
    for (std::size_t i = 0; i < values.size(); ++i) any |= differentiable(i);
    ASSERT_EQ(has_gradient(got), any) << (any ? "the op records nothing" : "the op records without need");
    if (!any) continue;
    Tensor dy = detail::make_input(ctx, {.shape = y.shape}, weights, got.dtype());
    backward(ctx, got, dy);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!differentiable(i)) continue;
      const Tensor& g = gradient(in[i]);
      const std::string what = "gradient of input " + std::to_string(i) + in_dtype;
      const std::vector<double> got_grad = g.defined() ? detail::to_double(g) : std::vector<double>(values[i].size(), 0.0);
      detail::compare(what, got_grad, want_grad[i], low ? c.bfloat16_tolerance : c.gradient_tolerance);
    }
  }
}

// Expects f() to throw Error whose text contains every one of `parts`.
void expect_error(const std::function<void()>& f, const std::vector<std::string>& parts);

// A float32 tensor from values given row by row, and the reverse, for short tests.
Tensor tensor(Context& ctx, const Shape& shape, const std::vector<float>& values);
void expect_near(const Tensor& got, const std::vector<double>& want, double tolerance);

}  // namespace transformer::test
