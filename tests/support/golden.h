#pragma once
// Reference cases: folders with config.json, model.safetensors and expected.safetensors. They lie in tests/golden,
// or in the folder that the variable TRANSFORMER_GOLDEN names. Sizes and values are read from the case, never
// written into a test.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/op_check.h"
#include "transformer/io/safetensors.h"

namespace transformer::test {

std::filesystem::path golden_root();
// The folders of the root whose names begin with `prefix`; a failure if there is none.
std::vector<std::filesystem::path> golden_cases(const std::string& prefix);

struct GoldenCase {
  std::filesystem::path folder;
  nlohmann::json config;
  SafetensorsFile expected;
  explicit GoldenCase(const std::filesystem::path& path);
};

// got against the tensor `name` of the case, as many elements as that has: |got − want| ≤ tolerance · max(1, max |want|).
void expect_golden(const GoldenCase& c, const std::string& name, const Tensor& got, double tolerance);
// |got − want| ≤ tolerance · max |want| of that gradient: relative, however small it is.
void expect_golden_gradient(const GoldenCase& c, const std::string& name, const Tensor& got, double tolerance);

}  // namespace transformer::test
