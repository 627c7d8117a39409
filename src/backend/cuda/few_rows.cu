#include "backend/cuda/few_rows.cuh"

namespace transformer {

bool few_rows(Context& ctx, const Tensor& a, const Tensor& w, const Tensor& bias, Activation activation, Tensor& c) {
  const std::int64_t m = a.rows(), n = w.rows(), k = a.cols();
  if (m > most_few_rows || k % 8 != 0 || !is_wide(a) || !is_wide(w)) return false;
  constexpr unsigned warps = 4;
  const dim3 grid(static_cast<unsigned>(blocks_of(n, warps))), block(32, warps);
  visit_device_float("matmul", c.dtype(), [&]<class T>() {
    const auto with = [&]<class B>() {
      const auto run = [&](auto most) {
        launch_early(ctx, "few_rows", multiply_few_rows<decltype(most)::value, T, B>, grid, block, 0, rows_of<T>(a), rows_of<T>(w),
                     values_of<B>(bias), activation, mutable_rows_of<T>(c), static_cast<int>(m), n, k);
      };
      if (m == 1) run(std::integral_constant<int, 1>{});
      else if (m <= 4) run(std::integral_constant<int, 4>{});
      else run(std::integral_constant<int, 8>{});
    };
    if (!bias.defined() || bias.dtype() == DType::float32) with.template operator()<float>();
    else with.template operator()<T>();
  });
  return true;
}

}  // namespace transformer
