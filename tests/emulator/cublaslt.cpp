// cuBLASLt's products, in plain loops with float32 sums. What is asked for and not understood is an error.
#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "card.h"
#include "emulator/numbers.h"
#include "memory.h"

struct cublasLtMatmulDescOpaque_t {
  bool turn_a = false, turn_b = false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::int64_t rows, cols, ld, stride = 0;
  std::int32_t batch = 1;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::size_t workspace = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};
};

namespace {

using Desc = cublasLtMatmulDescOpaque_t;
using Layout = cublasLtMatrixLayoutOpaque_t;

std::size_t size_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }
float read(const void* at, cudaDataType_t type, std::int64_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(at)[i];
  if (type == CUDA_R_16F) return __half2float(static_cast<const __half*>(at)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(at)[i]);
}
void write(void* at, cudaDataType_t type, std::int64_t i, float x) {
  if (type == CUDA_R_32F) static_cast<float*>(at)[i] = x;
  else if (type == CUDA_R_16F) static_cast<__half*>(at)[i] = __float2half_rn(x);
  else static_cast<__nv_bfloat16*>(at)[i] = __float2bfloat16_rn(x);
}

// to[k][rows]: the operand with its inner index first.
std::vector<float> inner_first(const void* from, const Layout& l, bool inner_is_rows) {
  std::vector<float> to(static_cast<std::size_t>(l.rows * l.cols));
  for (std::int64_t c = 0; c < l.cols; ++c)
    for (std::int64_t r = 0; r < l.rows; ++r)
      to[static_cast<std::size_t>(inner_is_rows ? r * l.cols + c : c * l.rows + r)] = read(from, l.type, c * l.ld + r);
  return to;
}

constexpr int strip = 32, columns = 4;

// Sums of a strip of rows and some columns.
#if defined(__x86_64__) && defined(__gnu_linux__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void multiply(const float* a, std::int64_t m, const float* b, std::int64_t n, std::int64_t k, float (*sums)[strip]) {
  for (int j = 0; j < columns; ++j)
    for (int i = 0; i < strip; ++i) sums[j][i] = 0.0F;
  for (std::int64_t x = 0; x < k; ++x)
    for (int j = 0; j < columns; ++j)
      for (int i = 0; i < strip; ++i) sums[j][i] += a[x * m + i] * b[x * n + j];
}

struct Call {
  Desc desc;
  Layout a, b, c;
  const void *a_at, *b_at;
  void* c_at;
  float alpha, beta;
};

void run(const Call& call, int batch) {
  const auto at = [&](const void* begin, const Layout& l) {
    return static_cast<const std::byte*>(begin) + static_cast<std::size_t>(batch * l.stride) * size_of(l.type);
  };
  const std::int64_t m = call.c.rows, n = call.c.cols, k = call.desc.turn_a ? call.a.rows : call.a.cols;
  // Whole strips: the rest is zeros.
  const std::int64_t wide_m = (m + strip - 1) / strip * strip, wide_n = (n + columns - 1) / columns * columns;
  const auto widened = [&](const std::vector<float>& x, std::int64_t size, std::int64_t wide) {
    std::vector<float> y(static_cast<std::size_t>(wide * k));
    for (std::int64_t i = 0; i < k; ++i) std::copy_n(x.begin() + i * size, size, y.begin() + i * wide);
    return y;
  };
  const std::vector<float> a = widened(inner_first(at(call.a_at, call.a), call.a, call.desc.turn_a), m, wide_m);
  const std::vector<float> b = widened(inner_first(at(call.b_at, call.b), call.b, !call.desc.turn_b), n, wide_n);
  auto* c = const_cast<std::byte*>(at(call.c_at, call.c));
  for (std::int64_t i0 = 0; i0 < m; i0 += strip)
    for (std::int64_t j0 = 0; j0 < n; j0 += columns) {
      float sums[columns][strip];
      multiply(a.data() + i0, wide_m, b.data() + j0, wide_n, k, sums);
      for (std::int64_t j = j0; j < std::min(j0 + columns, n); ++j)
        for (std::int64_t i = i0; i < std::min(i0 + strip, m); ++i) {
          float x = call.alpha * sums[j - j0][i - i0];
          if (call.beta != 0.0F) x += call.beta * read(c, call.c.type, j * call.c.ld + i);
          if (call.desc.epilogue == CUBLASLT_EPILOGUE_BIAS) x += read(call.desc.bias, call.c.type, i);
          write(c, call.c.type, j * call.c.ld + i, x);
        }
    }
}

bool fit(const Desc& desc, const Layout& a, const Layout& b, const Layout& c) {
  const std::int64_t m = desc.turn_a ? a.cols : a.rows, k = desc.turn_a ? a.rows : a.cols;
  const std::int64_t n = desc.turn_b ? b.rows : b.cols, other_k = desc.turn_b ? b.cols : b.rows;
  return m == c.rows && n == c.cols && k == other_k && a.batch == c.batch && b.batch == c.batch && a.type == b.type &&
      (c.type == a.type || c.type == CUDA_R_32F);
}

template <class T>
cublasStatus_t take(T& to, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t take_turned(bool& to, const void* value, std::size_t bytes) {
  cublasOperation_t operation = CUBLAS_OP_N;
  const cublasStatus_t status = take(operation, value, bytes);
  if (status == CUBLAS_STATUS_SUCCESS) to = operation == CUBLAS_OP_T;
  return status;
}

}  // namespace

std::size_t cublasLtGetVersion() { return 0; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *desc = new Desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return take_turned(desc->turn_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return take_turned(desc->turn_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return take(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return take(desc->bias, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows, std::uint64_t cols,
                                          std::int64_t ld) {
  if (rows == 0 || cols == 0 || ld < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return take(layout->batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return take(layout->stride, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return take(preference->workspace, value, bytes);
  return take(preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
}

// The only algorithm remembers what it was promised.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  *count = 0;
  if (c != d || most < 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!fit(*desc, *a, *b, *c)) return CUBLAS_STATUS_INVALID_VALUE;
  *count = 1;
  results[0] = {
      {{preference->alignment[0], preference->alignment[1], preference->alignment[2], preference->alignment[3]}}, 0, CUBLAS_STATUS_SUCCESS};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algo, void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  if (c != d || c_layout != d_layout || !fit(*desc, *a_layout, *b_layout, *c_layout)) return CUBLAS_STATUS_INVALID_VALUE;
  if (desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT && (desc->epilogue != CUBLASLT_EPILOGUE_BIAS || desc->bias == nullptr))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const void* operands[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if (reinterpret_cast<std::uintptr_t>(operands[i]) % algo->data[i] != 0) return CUBLAS_STATUS_INVALID_VALUE;
  const Call call{*desc, *a_layout, *b_layout, *c_layout, a, b, d, *static_cast<const float*>(alpha), *static_cast<const float*>(beta)};
  const cudaError_t error = emulator::enqueue(
      "a product",
      [call, workspace, workspace_bytes] {
    if (!emulator::Memory::instance().is_allocated(workspace, workspace_bytes))
      emulator::stop_work(cudaErrorIllegalAddress, "a product without its workspace");
    for (int batch = 0; batch < call.c.batch; ++batch) run(call, batch);
      },
      stream);
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

namespace emulator {

void* open_library(const char* name) {
  static char library;
  return std::strcmp(name, "libcublasLt.so.13") == 0 ? &library : nullptr;
}

void* function_of(void*, const char* name) {
#define FUNCTION(f) \
  { #f, reinterpret_cast < void*>(&f) }
  static const struct {
    const char* name;
    void* at;
  } functions[] = {FUNCTION(cublasLtCreate),
                   FUNCTION(cublasLtDestroy),
                   FUNCTION(cublasLtGetVersion),
                   FUNCTION(cublasLtMatmul),
                   FUNCTION(cublasLtMatmulDescCreate),
                   FUNCTION(cublasLtMatmulDescDestroy),
                   FUNCTION(cublasLtMatmulDescSetAttribute),
                   FUNCTION(cublasLtMatrixLayoutCreate),
                   FUNCTION(cublasLtMatrixLayoutDestroy),
                   FUNCTION(cublasLtMatrixLayoutSetAttribute),
                   FUNCTION(cublasLtMatmulPreferenceCreate),
                   FUNCTION(cublasLtMatmulPreferenceDestroy),
                   FUNCTION(cublasLtMatmulPreferenceSetAttribute),
                   FUNCTION(cublasLtMatmulAlgoGetHeuristic)};
#undef FUNCTION
  for (const auto& function : functions)
    if (std::strcmp(function.name, name) == 0) return function.at;
  return nullptr;
}

}  // namespace emulator
