#pragma once
// Products of tensors, as oneDNN is asked for them.

#include "backend/cpu/matmul_cache.h"

namespace transformer {

MatmulCache::Product product_of(const Tensor& a, const Tensor& b, Tensor& c, const MatmulArgs& args);

}  // namespace transformer
