// Multiplies two matrices with the installed library.
#include <cstdio>
#include <vector>

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"
#include "transformer/ops/linear.h"

int main() {
  transformer::Context ctx;
  const auto a = transformer::Tensor::from(ctx, {2, 2}, std::vector<float>{1, 2, 3, 4});
  const auto b = transformer::Tensor::from(ctx, {2, 2}, std::vector<float>{5, 6, 7, 8});
  const std::vector<float> c = transformer::matmul(ctx, a, b).to_vector<float>();
  std::printf("%g %g %g %g\n", c[0], c[1], c[2], c[3]);
  return 0;
}
