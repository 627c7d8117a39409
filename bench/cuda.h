#pragma once
// Training steps of published sizes and generation on a GPU, in bfloat16: ./run bench cuda.

namespace transformer::bench {

void cuda_bench(bool profile, bool tune);  // tune: and the fastest algorithms of their products  // profile: also time by kernel

}  // namespace transformer::bench
