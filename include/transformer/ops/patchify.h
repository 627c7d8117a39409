#pragma once
// Images and series cut into patches, the tokens of vision and time-series Transformers.

#include <cstdint>

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"

namespace transformer {

struct Patches {
  std::int64_t height, width;
  std::int64_t stride_y = 0, stride_x = 0;  // 0: the size, patches side by side
};

// How many whole patches fit: ⌊(size - patch) / stride⌋ + 1; stride 0: patch. Error when not one does.
std::int64_t patch_count(std::int64_t size, std::int64_t patch, std::int64_t stride);

// images [n, channels, h, w] → [n · patches, channels · height · width]. The patches of an image come row by row;
// inside a patch the order is (channel, y, x), that of a convolution's weight [out, channels, height, width]
// flattened, so that a linear layer on the patches is that convolution. Patches side by side must cover the
// image exactly.
Tensor patchify(Context& ctx, const Tensor& images, Patches patches);

// x [n, size] → [n · patch_count(size, length, stride), length]; values at the end that fill no patch are left out.
Tensor patchify_series(Context& ctx, const Tensor& x, std::int64_t length, std::int64_t stride);

}  // namespace transformer
