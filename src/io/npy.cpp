#include "transformer/io/npy.h"

#include "io/shared/atomic_file.h"
#include "transformer/core/error.h"

namespace transformer {

// \x93NUMPY, the version 1.0, the length of the header in two bytes, the header (a Python dictionary, filled with spaces so that
// the data begin at a multiple of 64), the data row by row.
void save_npy(const std::filesystem::path& path, const Tensor& t) {
  if (t.dtype() != DType::float32 && t.dtype() != DType::int64)
    fail(path.string(), "{} cannot be written as .npy: expected float32 or int64", t.dtype());
  std::string shape;
  for (std::int64_t n : t.shape()) shape += std::to_string(n) + ",";
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                   t.dtype() == DType::float32 ? "<f4" : "<i8", shape);
  constexpr std::size_t before = 10, alignment = 64;
  header.append((alignment - (before + header.size() + 1) % alignment) % alignment, ' ');
  header += '\n';
  AtomicFile file(path);
  file.write(std::string_view("\x93NUMPY\x01\x00", 8));
  const char length[] = {static_cast<char>(header.size() & 0xFFU), static_cast<char>(header.size() >> 8U)};
  file.write(length, sizeof(length));
  file.write(header);
  const Tensor values = t.to_host();
  file.write(values.raw(), static_cast<std::size_t>(values.numel() * size_of(values.dtype())));
  file.commit();
}

}  // namespace transformer
