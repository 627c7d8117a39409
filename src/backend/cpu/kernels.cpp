#include "backend/cpu/kernels.h"

#include <sys/mman.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "backend/cpu/matmul_cache.h"

namespace transformer {

CpuKernels::CpuKernels() : matmuls_(std::make_unique<MatmulCache>()) {}
CpuKernels::~CpuKernels() = default;

std::byte* CpuKernels::allocate(std::size_t bytes) {
  // Large blocks on huge pages: an optimizer step walks over hundreds of megabytes. Their tails are on small ones, so that no
  // more is resident than is used.
  constexpr std::size_t huge = std::size_t{2} << 20;
  const std::size_t alignment = bytes >= huge ? huge : 64;
  void* data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (data == nullptr) fail("cpu", "out of memory: {} bytes asked for", bytes);
#ifdef MADV_HUGEPAGE
  if (bytes >= huge) madvise(data, bytes / huge * huge, MADV_HUGEPAGE);
#endif
  return static_cast<std::byte*>(data);
}

void CpuKernels::deallocate(std::byte* data, std::size_t) noexcept { std::free(data); }

std::string CpuKernels::description() const {
  std::string model = "a processor";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const std::size_t at = line.find(": "); at != std::string::npos) {
        model = line.substr(at + 2);
        break;
      }
  return fmt::format("{}, {} bfloat16 products", model, processor_multiplies_bfloat16() ? "with" : "without");
}

std::shared_ptr<Kernels> make_cpu_kernels() { return std::make_shared<CpuKernels>(); }

}  // namespace transformer
