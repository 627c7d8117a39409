#pragma once
// Training steps of published sizes and generation on a GPU, in bfloat16: ./run bench cuda.

#include <nlohmann/json.hpp>

namespace transformer::bench {

void cuda_bench(bool profile, bool tune);  // profile: also time by kernel; tune: also the fastest algorithms of their products

// config.json of what is trained; generation has models like them.
nlohmann::json base_translator();
nlohmann::json gpt2_124m();

}  // namespace transformer::bench
