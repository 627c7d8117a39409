#include "backend/cuda/pass.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "backend/cuda/launch.h"
#include "core/shared/hash.h"

namespace transformer {
namespace {

constexpr std::size_t most_graphs = 256, most_uploads = 4;
constexpr std::size_t large_upload = std::size_t{1} << 20;  // these the copy engine moves faster

// The pass that a thread is in. A card's passes are told apart by their owner.
struct Current {
  const CudaPasses* owner = nullptr;
  std::unique_ptr<CudaPass> pass;
};
Current& current_pass() {
  thread_local Current current;
  return current;
}

__global__ void copy_bytes(const uint4* from, uint4* to, std::size_t whole, const std::byte* rest_from, std::byte* rest_to, int rest) {
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < whole; i += std::size_t{gridDim.x} * blockDim.x)
    to[i] = from[i];
  if (blockIdx.x == 0 && static_cast<int>(threadIdx.x) < rest) rest_to[threadIdx.x] = rest_from[threadIdx.x];
}

std::uint64_t hash_of(const std::vector<std::byte>& log) {
  Hash hash;
  hash.bytes(log.data(), log.size());
  return hash.finish();
}

}  // namespace

void CudaPass::add(const char* name, std::function<void(cudaStream_t)> run) { works_.push_back({name, std::move(run)}); }

CudaPasses::CudaPasses(CudaKernels& device) : device_(device) {
  const char* setting = std::getenv("TRANSFORMER_CUDA_GRAPHS");
  graphs_wanted_ = setting == nullptr || std::string_view(setting) != "off";
  check_cuda(cudaStreamCreateWithFlags(&recorder_, cudaStreamNonBlocking), "stream");
  check_cuda(cudaMalloc(reinterpret_cast<void**>(&step_), sizeof *step_), "memory of passes");
}

CudaPasses::~CudaPasses() {
  for (auto& [hash, graph] : graphs_)
    if (graph.exec != nullptr) cudaGraphExecDestroy(graph.exec);
  for (PinnedUploads& uploads : uploads_) {
    cudaEventDestroy(uploads.copied);
    cudaFreeHost(uploads.data);
  }
  cudaFree(arrived_);
  cudaFree(step_);
  cudaStreamDestroy(recorder_);
}

CudaPass* CudaPasses::current() const {
  const Current& current = current_pass();
  return current.owner == this ? current.pass.get() : nullptr;
}

void CudaPasses::begin(std::uint32_t random_step) {
  Current& current = current_pass();
  if (current.pass != nullptr) return;  // of another card: this one does its work as it comes
  current.owner = this;
  current.pass = std::make_unique<CudaPass>();
  current.pass->random_step_ = random_step;
  current.pass->uploads_ = take_uploads();
  upload(&random_step, reinterpret_cast<std::byte*>(step_), sizeof random_step);
}

// A place for them whose last ones have left; the host is never more than a few passes ahead.
PinnedUploads CudaPasses::take_uploads() {
  PinnedUploads uploads;
  {
    const std::lock_guard lock(mutex_);
    if (uploads_.size() >= most_uploads) uploads = uploads_.front(), uploads_.pop_front();
  }
  if (uploads.copied == nullptr) check_cuda(cudaEventCreateWithFlags(&uploads.copied, cudaEventDisableTiming), "event");
  else check_cuda(cudaEventSynchronize(uploads.copied), "copy to the device");
  return uploads;
}

const std::uint32_t* CudaPasses::random_step(std::uint32_t step) const {
  const CudaPass* pass = current();
  return pass != nullptr && pass->random_step_ == step ? step_ : nullptr;
}

void CudaPasses::upload(const void* from, std::byte* to, std::size_t bytes) {
  CudaPass& pass = *current();
  PinnedUploads& uploads = pass.uploads_;
  const std::size_t begin = pass.uploaded_;
  pass.uploaded_ = (begin + bytes + 255) / 256 * 256;
  if (pass.uploaded_ > uploads.size) {
    PinnedUploads larger = uploads;
    larger.size = std::max({2 * uploads.size, pass.uploaded_, std::size_t{1} << 16});
    check_cuda(cudaMallocHost(reinterpret_cast<void**>(&larger.data), larger.size), "pinned memory");
    if (begin > 0) std::memcpy(larger.data, uploads.data, begin);
    cudaFreeHost(uploads.data);
    uploads = larger;
  }
  std::memcpy(uploads.data + begin, from, bytes);
  pass.note(begin), pass.note(to), pass.note(bytes);
  pass.add("upload", [this, begin, to, bytes](cudaStream_t stream) {
    const std::byte* at = arrived_ + begin;
    if (bytes >= large_upload || reinterpret_cast<std::uintptr_t>(to) % 16 != 0)
      return check_cuda(cudaMemcpyAsync(to, at, bytes, cudaMemcpyDeviceToDevice, stream), "upload");
    const std::size_t whole = bytes / 16;
    const auto blocks = static_cast<unsigned>(std::clamp<std::size_t>((whole + 255) / 256, 1, 128));
    start("upload", copy_bytes, dim3(blocks), dim3(256), 0, stream, reinterpret_cast<const uint4*>(at), reinterpret_cast<uint4*>(to), whole,
          at + whole * 16, to + whole * 16, static_cast<int>(bytes % 16));
  });
}

// All uploads of a pass in one copy.
void CudaPasses::send_uploads(CudaPass& pass) {
  if (pass.uploaded_ > arrived_size_) {
    if (arrived_ != nullptr) check_cuda(cudaFreeAsync(arrived_, device_.stream()), "memory of uploads");
    arrived_ = nullptr;
    arrived_size_ = std::max(2 * arrived_size_, pass.uploaded_);
    check_cuda(cudaMallocAsync(reinterpret_cast<void**>(&arrived_), arrived_size_, device_.stream()), "memory of uploads");
  }
  check_cuda(cudaMemcpyAsync(arrived_, pass.uploads_.data, pass.uploaded_, cudaMemcpyHostToDevice, device_.stream()), "copy to the device");
  check_cuda(cudaEventRecord(pass.uploads_.copied, device_.stream()), "event");
  uploads_.push_back(std::exchange(pass.uploads_, {}));
}

void CudaPasses::run_each(const CudaPass& pass) {
  for (const CudaPass::Work& work : pass.works_) {
    device_.launching();
    work.run(device_.stream());
    device_.launched(work.name);
  }
}

cudaGraphExec_t CudaPasses::make_graph(const CudaPass& pass) {
  return graph_of(recorder_, [&] {
    for (const CudaPass::Work& work : pass.works_) {
      work.run(recorder_);
      check_cuda(cudaPeekAtLastError(), work.name);
    }
  });
}

void CudaPasses::forget_oldest() {
  while (graphs_.size() >= most_graphs) {
    const auto oldest = std::min_element(graphs_.begin(), graphs_.end(),
                                         [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    if (oldest->second.exec != nullptr) check_cuda(cudaGraphExecDestroy(oldest->second.exec), "graph");
    graphs_.erase(oldest);
  }
}

void CudaPasses::end(bool wanted) {
  Current& current = current_pass();
  if (current.owner != this || current.pass == nullptr) return;  // flushed, or another card's
  const std::unique_ptr<CudaPass> pass = std::move(current.pass);
  device_.use();
  const std::lock_guard lock(mutex_);
  if (!wanted) return uploads_.push_back(pass->uploads_);
  send_uploads(*pass);
  if (!graphs_wanted_ || device_.is_timing()) return run_each(*pass);
  pass->note(arrived_);
  const std::uint64_t hash = hash_of(pass->log_);
  if (!graphs_.contains(hash)) forget_oldest();
  Graph& graph = graphs_[hash];
  graph.used = ++clock_;
  if (graph.log != pass->log_) {  // new, or by chance of the same hash as another
    if (graph.exec != nullptr) check_cuda(cudaGraphExecDestroy(std::exchange(graph.exec, nullptr)), "graph");
    graph.log = std::move(pass->log_);
    return run_each(*pass);
  }
  if (graph.exec == nullptr) graph.exec = make_graph(*pass);
  check_cuda(cudaGraphLaunch(graph.exec, device_.stream()), "graph");
  ++replayed_;
  device_.count_launches(static_cast<std::int64_t>(pass->works_.size()));
}

void CudaPasses::flush() {
  Current& current = current_pass();
  if (current.owner != this || current.pass == nullptr) return;
  const std::unique_ptr<CudaPass> pass = std::move(current.pass);
  const std::lock_guard lock(mutex_);
  send_uploads(*pass);
  run_each(*pass);
}

}  // namespace transformer
