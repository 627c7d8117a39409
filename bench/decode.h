#pragma once
// A language model of GPT-2's size as its user meets it: how long it takes to open, how much memory it then holds, how fast it
// reads a prompt and how fast it writes.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "transformer/core/dtype.h"

namespace transformer::bench {

struct DecodeOptions {
  std::string folder = "";  // of the model, kept; default: a temporary one
  std::int64_t prompt = 512, tokens = 64;
  int threads = 2, rounds = 3;
  std::string json = "";  // where the figures go
};
nlohmann::json gpt2_settings(DType dtype);  // as published in its smallest size, 124 million parameters
void decode_bench(const DecodeOptions& options);

}  // namespace transformer::bench
