#include "backend/cpu/kernels.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "backend/cpu/matmul_cache.h"

namespace transformer {

CpuKernels::CpuKernels() : matmuls_(std::make_unique<MatmulCache>()) {}
CpuKernels::~CpuKernels() = default;

namespace {

constexpr std::size_t direct = std::size_t{256} << 10, huge = std::size_t{2} << 20;

[[noreturn]] void out_of_memory(std::size_t bytes) {
  fail("cpu",
       "out of memory: {:.1f} MiB asked for. Try smaller batches, to train with a larger update_freq, bfloat16 (--precision) or LoRA; "
       "several processes with --shard weights keep a part of the model each",
       static_cast<double>(bytes) / (1 << 20));
}

std::byte* map(std::size_t bytes, int flags) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (data == MAP_FAILED) out_of_memory(bytes);
  return static_cast<std::byte*>(data);
}

}  // namespace

// Larger blocks come from the system itself and go back to it: freed ones in the heap of malloc would stay resident. The largest are on
// huge pages, since an optimizer step walks over hundreds of megabytes; their tails are on small ones, so that no more is resident than
// is used.
std::byte* CpuKernels::allocate(std::size_t bytes) {
  if (bytes < direct) {
    void* data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (data == nullptr) out_of_memory(bytes);
    return static_cast<std::byte*>(data);
  }
  if (bytes < huge) return map(bytes, MAP_POPULATE);
  // What is before the first huge page, and behind the block, is not needed.
  std::byte* begin = map(bytes + huge, 0);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t skipped = (huge - reinterpret_cast<std::uintptr_t>(begin) % huge) % huge, used = (bytes + page - 1) / page * page;
  if (skipped > 0) munmap(begin, skipped);
  if (skipped + used < bytes + huge) munmap(begin + skipped + used, bytes + huge - skipped - used);
#ifdef MADV_HUGEPAGE
  madvise(begin + skipped, bytes / huge * huge, MADV_HUGEPAGE);
#endif
  return begin + skipped;
}

void CpuKernels::deallocate(std::byte* data, std::size_t bytes) noexcept {
  if (bytes < direct) std::free(data);
  else munmap(data, bytes);
}

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
