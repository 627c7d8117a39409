#include <dlfcn.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "backend/cuda/algorithms.h"
#include "backend/cuda/cublaslt.h"
#include "backend/cuda/few_rows.cuh"

namespace transformer {
namespace {

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
constexpr int most_algorithms = 8;

char layout_of(const Product& p) { return p.transpose_a ? (p.transpose_b ? 'x' : 'w') : p.transpose_b ? 't' : 'n'; }
bool may_be_measured(const Product& p) { return p.batch == 1 && p.in == DType::bfloat16 && p.alignment == 256 && layout_of(p) != 'x'; }

// The number of the algorithm that was measured to be the fastest; 0: the first.
int measured_algorithm(const Product& p) {
  if (!may_be_measured(p)) return 0;
  const auto same = [&](const MeasuredProduct& t) {
    return t.m == p.m && t.n == p.n && t.k == p.k && t.layout == layout_of(p) && t.accumulate == p.accumulate && t.bias == p.bias &&
        t.narrow == (p.out == DType::bfloat16);
  };
  const auto* found = std::find_if(std::begin(measured_products), std::end(measured_products), same);
  return found == std::end(measured_products) ? 0 : found->algorithm;
}

void check_product(cublasStatus_t status, const Product& p) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail("matmul", "cuBLASLt refuses [{}, {}] · [{}, {}] of {} (status {})", p.m, p.k, p.k, p.n, p.in, static_cast<int>(status));
}

cudaDataType_t type_of(DType t) {
  switch (t) {
    case DType::float32: return CUDA_R_32F;
    case DType::bfloat16: return CUDA_R_16BF;
    case DType::float16: return CUDA_R_16F;
    default: fail("matmul", "needs floating-point tensors, got {}", t);
  }
}

__global__ void make_noise(__nv_bfloat16* to, std::int64_t n) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += std::int64_t{gridDim.x} * blockDim.x) {
    const auto bits = static_cast<unsigned>(i) * 2654435761U;
    to[i] = __float2bfloat16_rn(static_cast<float>((bits ^ bits >> 15) % 2048) / 1024.0F - 1.0F);
  }
}

}  // namespace

struct CublasLt::Functions {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtGetVersion) version;

  Functions() {
    constexpr int major = CUBLAS_VER_MAJOR;
    const std::string file = "libcublasLt.so." + std::to_string(major);
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      fail("Device",
           "{} is needed for products on the GPU and cannot be opened: {}. It is part of the CUDA {} toolkit; use the device cpu, "
           "or put its folder into LD_LIBRARY_PATH",
           file, dlerror(), major);
    const auto get = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr) fail("Device", "{} has no function {}: expected cuBLASLt {}", file, name, major);
    };
    get(create, "cublasLtCreate"), get(destroy, "cublasLtDestroy");
    get(desc_create, "cublasLtMatmulDescCreate"), get(desc_destroy, "cublasLtMatmulDescDestroy");
    get(desc_set, "cublasLtMatmulDescSetAttribute");
    get(layout_create, "cublasLtMatrixLayoutCreate"), get(layout_destroy, "cublasLtMatrixLayoutDestroy");
    get(layout_set, "cublasLtMatrixLayoutSetAttribute");
    get(preference_create, "cublasLtMatmulPreferenceCreate"), get(preference_destroy, "cublasLtMatmulPreferenceDestroy");
    get(preference_set, "cublasLtMatmulPreferenceSetAttribute");
    get(heuristic, "cublasLtMatmulAlgoGetHeuristic"), get(matmul, "cublasLtMatmul");
    get(version, "cublasLtGetVersion");
  }
};

// cuBLASLt counts columns first: a row-major [rows, cols] is its [cols, rows], so that it computes cᵀ = op(b)ᵀ · op(a)ᵀ.
struct CublasLt::Plan {
  const Functions& f;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};

  Plan(const Functions& functions, cublasLtHandle_t handle, const Product& p, int choice) : f(functions) {
    const cudaDataType_t in = type_of(p.in), out = type_of(p.out);
    check_product(f.desc_create(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), p);
    const cublasOperation_t turned = CUBLAS_OP_T;
    if (p.transpose_b) check_product(f.desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned), p);
    if (p.transpose_a) check_product(f.desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSB, &turned, sizeof turned), p);
    const cublasLtEpilogue_t with_bias = CUBLASLT_EPILOGUE_BIAS;
    if (p.bias) check_product(f.desc_set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &with_bias, sizeof with_bias), p);
    a = layout(p, in, p.transpose_a ? p.m : p.k, p.transpose_a ? p.k : p.m, p.a_row, p.a_batch);
    b = layout(p, in, p.transpose_b ? p.k : p.n, p.transpose_b ? p.n : p.k, p.b_row, p.b_batch);
    c = layout(p, out, p.n, p.m, p.c_row, p.c_batch);
    Algorithms all;
    const int count = algorithms(handle, p, choice + 1, all);
    algorithm = all[std::min(choice, count - 1)].algo;
  }
  // As cuBLASLt names them, the one that it takes for the fastest first; how many there are.
  using Algorithms = cublasLtMatmulHeuristicResult_t[most_algorithms];
  int algorithms(cublasLtHandle_t handle, const Product& p, int most, Algorithms& all) const {
    cublasLtMatmulPreference_t preference = nullptr;
    check_product(f.preference_create(&preference), p);
    const std::size_t workspace = workspace_bytes;
    f.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    const auto alignment = static_cast<std::uint32_t>(p.alignment);
    for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                 CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      f.preference_set(preference, attribute, &alignment, sizeof alignment);
    int count = 0;
    const cublasStatus_t status = f.heuristic(handle, desc, b, a, c, c, preference, most, all, &count);
    f.preference_destroy(preference);
    check_product(status, p);
    if (count == 0) check_product(CUBLAS_STATUS_NOT_SUPPORTED, p);
    return count;
  }
  ~Plan() {
    for (cublasLtMatrixLayout_t l : {a, b, c})
      if (l != nullptr) f.layout_destroy(l);
    if (desc != nullptr) f.desc_destroy(desc);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

 private:
  cublasLtMatrixLayout_t layout(const Product& p, cudaDataType_t type, std::int64_t rows, std::int64_t cols, std::int64_t ld,
                                std::int64_t stride) const {
    cublasLtMatrixLayout_t l = nullptr;
    check_product(f.layout_create(&l, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols), std::max(ld, rows)), p);
    if (p.batch > 1) {
      const auto count = static_cast<std::int32_t>(p.batch);
      check_product(f.layout_set(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), p);
      check_product(f.layout_set(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride), p);
    }
    return l;
  }
};

CublasLt::CublasLt() : functions_(std::make_unique<Functions>()) {
  if (const cublasStatus_t status = functions_->create(&handle_); status != CUBLAS_STATUS_SUCCESS)
    fail("Device", "cuBLASLt cannot start (status {})", static_cast<int>(status));
  check_cuda(cudaMalloc(&workspace_, workspace_bytes), "the workspace of products");
  int device = 0;
  cudaDeviceProp card{};
  check_cuda(cudaGetDevice(&device), "Device");
  check_cuda(cudaGetDeviceProperties(&card, device), "Device");
  measured_here_ = functions_->version() == measured_version && card.name == measured_card;
}

CublasLt::~CublasLt() {
  plans_.clear();
  cudaFree(workspace_);
  functions_->destroy(handle_);
}

std::size_t CublasLt::Hash::operator()(const Product& p) const {
  transformer::Hash hash;
  for (const std::int64_t v : {p.m, p.n, p.k, p.batch, p.a_row, p.b_row, p.c_row, p.a_batch, p.b_batch, p.c_batch})
    hash.word(static_cast<std::uint64_t>(v));
  for (const int v : {int{p.transpose_a}, int{p.transpose_b}, int{p.accumulate}, int{p.bias}, static_cast<int>(p.in),
                      static_cast<int>(p.out), p.alignment})
    hash.word(static_cast<std::uint64_t>(v));
  return hash.finish();
}

std::shared_ptr<CublasLt::Plan> CublasLt::plan_of(const Product& product) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Plan>& plan = plans_[product];
  if (!plan) {
    plan = std::make_shared<Plan>(*functions_, handle_, product, measured_here_ ? measured_algorithm(product) : 0);
    if (plans_.size() > 65536) {  // ragged batches bring new sizes all the time
      const std::shared_ptr<Plan> kept = plan;
      plans_.clear();
      return plans_[product] = kept;
    }
  }
  return plan;
}

void CublasLt::run(Context& ctx, Product p, float alpha, const void* a, const void* b, void* c, const void* bias) {
  p.bias = bias != nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) | reinterpret_cast<std::uintptr_t>(c) |
      256U;
  p.alignment = static_cast<int>(address & (~address + 1));
  const float beta = p.accumulate ? 1.0F : 0.0F;
  launch_with(
      ctx, "matmul",
      [=, this, plan = plan_of(p)](cudaStream_t stream) {
    // A product may be several kernels that hand parts over through the workspace: another thread's must not come between.
    const std::lock_guard lock(mutex_);
    if (p.bias) check_product(functions_->desc_set(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias), p);
    check_product(functions_->matmul(handle_, plan->desc, &alpha, b, plan->b, a, plan->a, &beta, c, plan->c, c, plan->c, &plan->algorithm,
                                     workspace_, workspace_bytes, stream),
                  p);
      },
      p, alpha, a, b, c, bias);
}

std::string CublasLt::measure(Context& ctx) {
  std::vector<const Product*> products;
  for (const auto& entry : plans_)
    if (may_be_measured(entry.first)) products.push_back(&entry.first);
  std::sort(products.begin(), products.end(), [](const Product* a, const Product* b) {
    return a->m != b->m ? a->m < b->m : a->n != b->n ? a->n < b->n : a->k < b->k;
  });
  const auto noise = [&](std::int64_t elements) {  // products of zeros are faster
    Tensor t = Tensor::empty(ctx, {elements}, DType::bfloat16);
    launch(ctx, "noise", make_noise, dim3(1024), dim3(256), 0, mutable_values_of<__nv_bfloat16>(t), elements);
    return t;
  };
  cudaEvent_t begin = nullptr, end = nullptr;
  check_cuda(cudaEventCreate(&begin), "event"), check_cuda(cudaEventCreate(&end), "event");
  std::string lines = fmt::format("// {} products, version {}\n", products.size(), functions_->version());
  for (const Product* product : products) {
    const Product& p = *product;
    const std::shared_ptr<Plan> plan = plan_of(p);
    const Tensor a = noise((p.transpose_a ? p.k : p.m) * p.a_row), b = noise((p.transpose_b ? p.n : p.k) * p.b_row), bias = noise(p.n);
    Tensor c = noise(p.m * p.c_row * (p.out == DType::float32 ? 2 : 1));
    const void* at = bias.raw();
    if (p.bias) check_product(functions_->desc_set(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at, sizeof at), p);
    const float alpha = 1.0F, beta = p.accumulate ? 1.0F : 0.0F;
    Plan::Algorithms all;
    const int count = plan->algorithms(handle_, p, most_algorithms, all);
    float best[most_algorithms];
    std::fill(best, best + most_algorithms, 1e9F);
    for (int round = 0; round < 4; ++round)
      for (int i = 0; i < count; ++i) {
        constexpr int times = 8;
        const auto run = [&] {
          check_product(functions_->matmul(handle_, plan->desc, &alpha, b.raw(), plan->b, a.raw(), plan->a, &beta, c.mutable_raw(), plan->c,
                                           c.mutable_raw(), plan->c, &all[i].algo, workspace_, workspace_bytes, cuda(ctx).stream()),
                        p);
        };
        run();
        check_cuda(cudaEventRecord(begin, cuda(ctx).stream()), "event");
        for (int t = 0; t < times; ++t) run();
        check_cuda(cudaEventRecord(end, cuda(ctx).stream()), "event");
        check_cuda(cudaEventSynchronize(end), "event");
        float milliseconds = 0.0F;
        check_cuda(cudaEventElapsedTime(&milliseconds, begin, end), "event");
        best[i] = std::min(best[i], milliseconds / times);
      }
    const auto fastest = std::min_element(best, best + count) - best;
    if (best[fastest] > 0.97F * best[0]) continue;
    lines += fmt::format("    {{{}, {}, {}, '{}', {}, {}, {}, {}}},  // {:.3f} ms, the first {:.3f}\n", p.m, p.n, p.k, layout_of(p),
                         p.accumulate, p.bias, p.out == DType::bfloat16, fastest, best[fastest], best[0]);
  }
  cudaEventDestroy(begin), cudaEventDestroy(end);
  return lines;
}

std::string CudaKernels::measure_products(Context& ctx) { return products_->measure(ctx); }
std::string measured_cuda_products(Context& ctx) { return cuda(ctx).measure_products(ctx); }

void CudaKernels::matmul(Context& ctx, const Tensor& a, const Tensor& b, Tensor& c, const MatmulArgs& args) {
  // A batch whose b is shared and whose a and c are plain is one tall product.
  const bool shared_b = b.rank() < 3 || b.dim(0) == 1;
  const bool batched = a.rank() == 3 && a.dim(0) != 1 && !(shared_b && !args.transpose_a && a.is_contiguous() && c.is_contiguous());
  const auto rows = [&](const Tensor& t) { return batched || t.rank() < 3 ? t.dim(-2) : t.dim(0) * t.dim(-2); };
  Product p;
  p.batch = batched ? a.dim(0) : 1;
  p.m = rows(c), p.n = c.dim(-1), p.k = args.transpose_a ? rows(a) : a.dim(-1);
  p.a_row = a.row_stride(), p.b_row = b.row_stride(), p.c_row = c.row_stride();
  if (batched) {
    p.a_batch = a.dim(-2) * a.row_stride();
    p.b_batch = shared_b ? 0 : b.dim(-2) * b.row_stride();
    p.c_batch = c.dim(-2) * c.row_stride();
  }
  p.transpose_a = args.transpose_a, p.transpose_b = args.transpose_b, p.accumulate = args.accumulate;
  p.in = a.dtype(), p.out = c.dtype();
  if (args.bias.defined() && args.alpha != 1.0F) fail("matmul", "alpha together with a bias is not supported");
  if (p.batch == 0 || p.m == 0 || p.n == 0) return;
  if (p.k == 0) {  // an empty sum
    if (args.bias.defined()) fail("matmul", "inner size 0 together with a bias is not supported");
    if (!p.accumulate) fill(ctx, 0.0F, c);
    return;
  }
  check_place(a), check_place(b), check_place(c);
  if (!batched && !p.transpose_a && p.transpose_b && !p.accumulate && args.alpha == 1.0F && p.in == p.out &&
      few_rows(ctx, a.view({p.m, p.k}), b, args.bias, args.activation, c))
    return;
  // Rows of an odd vocabulary lie anyhow in memory, which makes the product several times slower: it gets rows of its own.
  constexpr std::int64_t wide = 4096, grain = 64;
  if (!batched && !p.accumulate && p.n >= wide && p.c_row * size_of(c.dtype()) % 16 != 0) {
    Tensor room = Tensor::empty(ctx, {p.m, blocks_of(p.n, grain) * grain}, c.dtype()).column_block(0, p.n);
    matmul(ctx, a, b, room, args);
    return copy(ctx, room, c);
  }
  // The bias in the type that cuBLASLt wants: it is a row long.
  Tensor bias = args.bias;
  if (bias.defined() && bias.dtype() != c.dtype()) {
    bias = Tensor::empty(ctx, args.bias.shape(), c.dtype());
    copy(ctx, args.bias, bias);
  }
  products_->run(ctx, p, args.alpha, a.raw(), b.raw(), c.mutable_raw(), bias.raw());
  if (args.activation != Activation::none) unary(ctx, unary_of(args.activation), c, c);
}

}  // namespace transformer
