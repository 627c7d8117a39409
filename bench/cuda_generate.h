#pragma once

namespace transformer::bench {

// ./run bench cuda generate [--profile] [--large]: generation on a GPU, beside Hugging Face's where there is a Python with it.
void cuda_generate_bench(bool profile, bool large);

}  // namespace transformer::bench
