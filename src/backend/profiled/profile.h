#pragma once
// How long each kernel takes: time, calls, bytes, FLOPs and threads, by the kernel's name.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace transformer {

class Kernels;

struct KernelProfile {
  std::string kernel;  // products with their sizes and what is transposed: "matmul 512x2048x512 nt"
  std::int64_t calls = 0;
  double seconds = 0.0;
  double bytes = 0.0, flops = 0.0;  // of the tensors that were given, each once; FLOPs of products and attention
  std::int64_t regions = 0;         // parallel ones, and the threads summed over them
  std::int64_t threads = 0;
};

// Whether the kernels of contexts that are made from now on are timed, on any device. Each then waits for the device: the whole is slower.
void profile_kernels(bool on);
// What was timed since the last time this was asked, the longest first.
std::vector<KernelProfile> take_profile();
// For the dispatch: the kernels themselves, or these timed.
std::shared_ptr<Kernels> profiled_if_asked(std::shared_ptr<Kernels> kernels);

}  // namespace transformer
