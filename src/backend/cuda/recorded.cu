// Work that is recorded (Backend::record): the kernels of a thread become a graph, which is one launch from then on.
#include "backend/cuda/launch.h"

namespace transformer {
namespace {

thread_local const CudaKernels* recorded_by = nullptr;

class CudaRecorded final : public Recorded {
 public:
  CudaRecorded(CudaKernels& device, cudaGraphExec_t exec) : device_(device), exec_(exec) {}
  ~CudaRecorded() override { cudaGraphExecDestroy(exec_); }  // one that is under way ends first
  void run() override { device_.repeat(exec_); }

 private:
  CudaKernels& device_;
  cudaGraphExec_t exec_;
};

}  // namespace

bool CudaKernels::recording() const { return recorded_by == this; }

std::unique_ptr<Recorded> CudaKernels::record(const std::function<void()>& work) {
  use();
  const std::lock_guard lock(recorder_mutex_);
  if (recorder_ == nullptr) check_cuda(cudaStreamCreateWithFlags(&recorder_, cudaStreamNonBlocking), "recorder");
  check_cuda(cudaStreamBeginCapture(recorder_, cudaStreamCaptureModeRelaxed), "recorder");
  cudaGraph_t graph = nullptr;
  recorded_by = this;
  try {
    work();
  } catch (...) {
    recorded_by = nullptr;
    cudaStreamEndCapture(recorder_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  recorded_by = nullptr;
  check_cuda(cudaStreamEndCapture(recorder_, &graph), "recorder");
  cudaGraphExec_t exec = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  check_cuda(error, "recorder");
  return std::make_unique<CudaRecorded>(*this, exec);
}

void CudaKernels::repeat(cudaGraphExec_t work) {
  use();
  check_cuda(cudaGraphLaunch(work, stream_), "recorded work");
  ++counts_.launches;
}

}  // namespace transformer
