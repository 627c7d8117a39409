#include "support/golden.h"

#include <algorithm>
#include <cstdlib>

#include "io/shared/json.h"
#include "support/paths.h"

namespace transformer::test {

std::filesystem::path golden_root() {
  const char* elsewhere = std::getenv("TRANSFORMER_GOLDEN");
  return elsewhere != nullptr && *elsewhere != '\0' ? std::filesystem::path(elsewhere) : source_folder() / "tests/golden";
}

std::vector<std::filesystem::path> golden_cases(const std::string& prefix) {
  std::vector<std::filesystem::path> cases;
  for (const auto& entry : std::filesystem::directory_iterator(golden_root()))
    if (entry.is_directory() && entry.path().filename().string().starts_with(prefix)) cases.push_back(entry.path());
  std::sort(cases.begin(), cases.end());
  EXPECT_FALSE(cases.empty()) << "no case " << prefix << "* in " << golden_root();
  return cases;
}

GoldenCase::GoldenCase(const std::filesystem::path& path)
    : folder(path), config(read_json(path / "config.json")), expected(path / "expected.safetensors") {}

namespace {
void expect_within(const GoldenCase& c, const std::string& name, const Tensor& got, double tolerance, double floor) {
  ASSERT_TRUE(c.expected.contains(name)) << name;
  ASSERT_TRUE(got.defined()) << name << " was not computed";
  const std::vector<double> want = detail::to_double(c.expected.tensor(name)), have = detail::to_double(got);
  ASSERT_EQ(want.size(), have.size()) << name;
  double largest = floor, error = 0.0;
  for (double w : want) largest = std::max(largest, std::abs(w));
  for (std::size_t i = 0; i < want.size(); ++i) error = std::max(error, std::isnan(have[i]) ? INFINITY : std::abs(have[i] - want[i]));
  EXPECT_LE(error, tolerance * largest) << name << ": largest magnitude " << largest;
}
}  // namespace

void expect_golden(const GoldenCase& c, const std::string& name, const Tensor& got, double tolerance) {
  expect_within(c, name, got, tolerance, 1.0);
}

void expect_golden_gradient(const GoldenCase& c, const std::string& name, const Tensor& got, double tolerance) {
  // Gradients that are zero in exact arithmetic (a bias of K shifts all scores of a row alike) are rounding noise in
  // both: measure those against 1e-3.
  expect_within(c, name, got, tolerance, 1e-3);
}

}  // namespace transformer::test
