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

cudaGraphExec_t graph_of(cudaStream_t recorder, const std::function<void()>& work) {
  check_cuda(cudaStreamBeginCapture(recorder, cudaStreamCaptureModeRelaxed), "recorder");  // memory may be taken meanwhile
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(recorder, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check_cuda(cudaStreamEndCapture(recorder, &graph), "recorder");
  cudaGraphExec_t exec = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  check_cuda(error, "recorder");
  return exec;
}

bool CudaKernels::recording() const { return recorded_by == this; }

std::unique_ptr<Recorded> CudaKernels::record(const std::function<void()>& work) {
  use();
  const std::lock_guard lock(recorder_mutex_);
  if (recorder_ == nullptr) check_cuda(cudaStreamCreateWithFlags(&recorder_, cudaStreamNonBlocking), "recorder");
  struct Recording {
    explicit Recording(const CudaKernels* device) { recorded_by = device; }
    ~Recording() { recorded_by = nullptr; }
  };
  return std::make_unique<CudaRecorded>(*this, graph_of(recorder_, [&] {
    const Recording recording(this);
    work();
  }));
}

void CudaKernels::repeat(cudaGraphExec_t work) {
  use();
  check_cuda(cudaGraphLaunch(work, stream_), "recorded work");
  ++counts_.launches;
}

}  // namespace transformer
