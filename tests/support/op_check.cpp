#include "support/op_check.h"

#include <algorithm>

namespace transformer::test {
namespace detail {

std::vector<double> draw(const Input& input, std::uint64_t seed) {
  std::vector<double> values;
  if (!input.ids.empty()) return {input.ids.begin(), input.ids.end()};
  const RandomStream stream{seed, 0, 0};
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(input.shape.numel()); ++i) {
    double v = input.low + (input.high - input.low) * stream.uniform(i);
    if (std::abs(v - input.away_from) < 0.02) v = input.away_from + (v < input.away_from ? -0.02 : 0.02);
    values.push_back(v);
  }
  return values;
}

std::vector<double> rounded(const std::vector<double>& values, DType dtype) {
  std::vector<double> out;
  for (double v : values) {
    const auto f = static_cast<float>(v);
    out.push_back(dtype == DType::bfloat16 ? static_cast<float>(bfloat16(f)) : f);
  }
  return out;
}

Tensor make_input(Context& ctx, const Input& input, const std::vector<double>& values, DType dtype) {
  if (!input.ids.empty()) return Tensor::from<std::int64_t>(ctx, input.shape, input.ids);
  if (dtype == DType::bfloat16) {
    std::vector<bfloat16> v;
    for (double x : values) v.emplace_back(static_cast<float>(x));
    return Tensor::from<bfloat16>(ctx, input.shape, v);
  }
  return Tensor::from<float>(ctx, input.shape, std::vector<float>(values.begin(), values.end()));
}

std::vector<double> to_double(const Tensor& t) {
  std::vector<double> out;
  visit_float("test", t.dtype(), [&]<class T>() {
    for (const T& v : t.to_vector<T>()) out.push_back(static_cast<float>(v));
  });
  return out;
}

void compare(const std::string& what, const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double largest = 0.0;
  for (double w : want)
    if (std::isfinite(w)) largest = std::max(largest, std::abs(w));
  if (largest < 1e-5) largest = 1.0;  // it vanishes: what is computed is the rounding of terms of the inputs' size
  std::size_t worst = 0;
  double error = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double e = got[i] == want[i] ? 0.0 : std::abs(got[i] - want[i]) / largest;
    if (!(e <= error)) worst = i, error = std::isnan(e) ? INFINITY : e;
  }
  EXPECT_LE(error, tolerance) << what << ": element " << worst << " of " << want.size() << " is " << (got.empty() ? 0.0 : got[worst])
                              << ", expected " << (want.empty() ? 0.0 : want[worst]);
}

}  // namespace detail

void expect_error(const std::function<void()>& f, const std::vector<std::string>& parts) {
  try {
    f();
    ADD_FAILURE() << "no Error was thrown";
  } catch (const Error& e) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << "'" << part << "' is not in: " << e.what();
  }
}

Tensor tensor(Context& ctx, const Shape& shape, const std::vector<float>& values) { return Tensor::from<float>(ctx, shape, values); }

void expect_near(const Tensor& got, const std::vector<double>& want, double tolerance) {
  const std::vector<double> values = detail::to_double(got);
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(values[i], want[i], tolerance) << "element " << i;
}

}  // namespace transformer::test
