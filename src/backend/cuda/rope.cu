// Rotary positions: the first rotary_dim of each head are turned in pairs, the rest copied.
#include "backend/cuda/known.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/types.cuh"

namespace transformer {
namespace {

// One thread for two elements that turn together, or for two that are copied.
template <class T>
__global__ void rope_rows(Rows<const T> x, Rows<T> y, std::int64_t rows, int cols, int heads, int head_dim, int rotary, bool interleaved,
                          float direction, Rows<const float> cos, Rows<const float> sin, const std::int32_t* position) {
  const int half_dim = (head_dim + 1) / 2, turned = heads * half_dim, units = turned + (cols - heads * head_dim);
  for (std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; row < rows; row += std::int64_t{gridDim.x} * blockDim.y) {
    const float *c = cos.at(position[row], 0), *s = sin.at(position[row], 0);
    const T* from = x.at(row, 0);
    T* to = y.at(row, 0);
    for (int unit = static_cast<int>(threadIdx.x); unit < units; unit += static_cast<int>(blockDim.x)) {
      if (unit >= turned) {  // behind the heads
        const int at = heads * head_dim + unit - turned;
        to[at] = from[at];
        continue;
      }
      const int head = unit / half_dim, i = unit % half_dim, base = head * head_dim;
      if (i >= rotary / 2) {
        const int first = rotary + 2 * (i - rotary / 2);
        for (int k = first; k < min(first + 2, head_dim); ++k) to[base + k] = from[base + k];
        continue;
      }
      const int a = base + (interleaved ? 2 * i : i), b = base + (interleaved ? 2 * i + 1 : rotary / 2 + i);
      const float u = to_float(from[a]), v = to_float(from[b]), turn = direction * s[i];
      to[a] = from_float<T>(u * c[i] - v * turn);
      to[b] = from_float<T>(v * c[i] + u * turn);
    }
  }
}

}  // namespace

void CudaKernels::rope(Context& ctx, const Tensor& x, const RopeArgs& args, Tensor& y) {
  if (known_on_host(args.position)) {
    const std::vector<std::int32_t> position = args.position.to_vector<std::int32_t>();
    for (std::size_t i = 0; i < position.size(); ++i)
      if (position[i] < 0 || position[i] >= args.cos.dim(0))
        fail("rope", "position {} of token {} is out of range: the table has {} positions", position[i], i, args.cos.dim(0));
  }
  visit_device_float("rope", x.dtype(), [&]<class T>() {
    launch(ctx, "rope", rope_rows<T>, dim3(static_cast<unsigned>(std::min<std::int64_t>(blocks_of(x.rows(), 2), 65536))), dim3(128, 2), 0,
           rows_of<T>(x), mutable_rows_of<T>(y), x.rows(), static_cast<int>(x.cols()), static_cast<int>(args.heads),
           static_cast<int>(args.head_dim), static_cast<int>(args.rotary_dim), args.pairs == RopePairs::interleaved,
           args.inverse ? -1.0F : 1.0F, rows_of<float>(args.cos), rows_of<float>(args.sin), values_of<std::int32_t>(args.position));
  });
}

}  // namespace transformer
