#pragma once
// NumPy's file format, for results that someone reads in Python: numpy.load("x.npy").

#include <filesystem>

#include "transformer/core/tensor.h"

namespace transformer {

// Writes a float32 or int64 tensor on the CPU; the file appears as a whole or not at all.
void save_npy(const std::filesystem::path& path, const Tensor& tensor);

}  // namespace transformer
