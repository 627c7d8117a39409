// The emulator itself: does it do what the instructions do, and does it notice what must not be?
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "backend/cuda/ptx.cuh"
#include "backend/cuda/start.h"
#include "emulator/numbers.h"
#include "emulator/settings.h"

namespace transformer::test {
namespace {

class Emulator : public testing::Test {
 protected:
  Emulator() {
    emulator::chance = emulator::Chance(0);  // whatever the environment says
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~Emulator() override {
    cudaStreamDestroy(stream_);
    emulator::chance = emulator::Chance::of_environment();
  }

  template <class T>
  T* on_card(const std::vector<T>& values) {
    void* at = nullptr;
    EXPECT_EQ(cudaMalloc(&at, values.size() * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(at, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice, stream_), cudaSuccess);
    return static_cast<T*>(at);
  }
  template <class T>
  std::vector<T> on_host(const T* at, std::size_t n) {
    std::vector<T> values(n);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), at, n * sizeof(T), cudaMemcpyDeviceToHost, stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    return values;
  }
  // In a process of its own, as the card is lost then: the error must say this.
  template <class... Parameters, class... Arguments>
  void expect_lost(const char* message, void (*kernel)(Parameters...), unsigned threads, std::size_t shared, Arguments... arguments) {
    EXPECT_EXIT(
        {
          start("a kernel", kernel, dim3(1), dim3(threads), shared, stream_, static_cast<Parameters>(arguments)...);
          std::_Exit(cudaStreamSynchronize(stream_) != cudaSuccess && cudaStreamSynchronize(stream_) != cudaSuccess ? 1 : 0);
        },
        testing::ExitedWithCode(1), message);
  }
  cudaStream_t stream_ = nullptr;
};

void different_barriers() {
  if (threadIdx.x < 32) __syncthreads();
  else __syncthreads();
}
void barrier_of_some(float* x) {
  if (threadIdx.x == 0) x[0] = __shfl_xor_sync(~0U, x[0], 1);
  __syncthreads();
}
void beyond_shared(int at) {
  SHARED_OF_LAUNCH(memory, float);
  memory[at] = 1.0F;
}
void write_at(float* x, std::int64_t at) { x[at] = 1.0F; }
void end_before_copies(const float* x) {
  SHARED_OF_LAUNCH(memory, float4);
  ptx::copy_async(emulator::shared_address(memory), x, true);
}

TEST_F(Emulator, NoticesWhatMustNotBe) {
  float* x = on_card(std::vector<float>(64));
  float* gone = on_card(std::vector<float>(64));
  cudaFree(gone);
  expect_lost("different places, __syncthreads of emulator_test.cpp:[0-9]+ and __syncthreads", different_barriers, 64, 0);
  expect_lost("wait for ever: .*__shfl_xor_sync.*emulator_test.cpp", barrier_of_some, 32, 0, x);
  expect_lost("memory that is not there.*thread \\(0, 0, 0\\) of block \\(0, 0, 0\\) of a kernel", beyond_shared, 1, 1024, 256);
  expect_lost("memory that is not there", write_at, 1, 0, x, 64);
  expect_lost("memory that is not there", write_at, 1, 0, x, -1024);
  expect_lost("memory that is not there", write_at, 1, 0, gone, 0);
  expect_lost("before its copies", end_before_copies, 1, 1024, x);
  EXPECT_DEATH(x[0] = 1.0F, "the host touched the card's memory");
  start("a kernel", write_at, dim3(1), dim3(1), 49 << 10, stream_, x, 0);  // more shared memory than was asked for
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  cudaFree(x);
}

TEST_F(Emulator, NewMemoryIsNotANumber) {
  void* at = nullptr;
  ASSERT_EQ(cudaMallocAsync(&at, 400, stream_), cudaSuccess);
  for (const float v : on_host(static_cast<const float*>(at), 100)) EXPECT_TRUE(std::isnan(v));
  EXPECT_EQ(cudaFreeAsync(at, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
}

TEST_F(Emulator, CopiesHappenLate) {
  void *pinned = nullptr, *at = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 4), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&at, 4), cudaSuccess);
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  *static_cast<float*>(pinned) = 1.0F;
  ASSERT_EQ(cudaMemcpyAsync(at, pinned, 4, cudaMemcpyHostToDevice, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  *static_cast<float*>(pinned) = 2.0F;  // too early
  EXPECT_EQ(on_host(static_cast<const float*>(at), 1).front(), 2.0F);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  cudaEventDestroy(event), cudaFree(at), cudaFreeHost(pinned);
}

void turn_around(const int* x, int* y) {  // a barrier is missing
  static int held[256];
  held[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = held[255 - threadIdx.x];
}

TEST_F(Emulator, AMissingBarrierShows) {
  std::vector<int> values(256);
  std::iota(values.begin(), values.end(), 1000);
  int *x = on_card(values), *y = on_card(std::vector<int>(256));
  std::vector<int> first;
  int others = 0;
  for (const std::uint64_t seed : {0, 1, 2}) {
    for (int& v : values) v += 7;
    cudaFree(x), x = on_card(values);
    emulator::chance = emulator::Chance(seed);
    start("a kernel", turn_around, dim3(1), dim3(256), 0, stream_, x, y);
    const std::vector<int> turned = on_host(y, 256);
    for (std::size_t i = 0; i < 256; ++i) others += turned[i] != values[255 - i];
  }
  EXPECT_GT(others, 0);
  cudaFree(x), cudaFree(y);
}

// c [16, 8] = a [16, 16] · b [16, 8] by a warp, b as it lies.
void multiply_of_warp(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) {
  SHARED_OF_LAUNCH(tile, __align__(16) __nv_bfloat16);
  const int l = static_cast<int>(threadIdx.x);
  for (int i = l; i < 256; i += 32) tile[i] = a[i];
  for (int i = l; i < 256; i += 32) tile[256 + i] = i % 16 < 8 ? b[i / 16 * 8 + i % 16] : __nv_bfloat16{};
  __syncwarp();
  const std::uint32_t at = emulator::shared_address(tile);
  const auto left = ptx::load_matrices(at + static_cast<std::uint32_t>((l % 16 * 16 + l / 16 * 8) * 2));
  const auto right = ptx::load_matrices_turned(at + 512 + static_cast<std::uint32_t>((l % 16 * 16 + l / 16 * 8) * 2));
  float sums[4] = {};
  ptx::multiply_add(sums, left, right.r[0], right.r[1]);
  for (int i = 0; i < 4; ++i) c[(l / 4 + i / 2 * 8) * 8 + l % 4 * 2 + i % 2] = sums[i];
}

std::vector<__nv_bfloat16> numbers(std::size_t n, unsigned seed) {
  std::vector<__nv_bfloat16> values(n);
  for (__nv_bfloat16& v : values) v = __float2bfloat16_rn(static_cast<float>((seed = seed * 1664525 + 1013904223) >> 20) / 2048.0F - 1.0F);
  return values;
}

TEST_F(Emulator, ProductsOfAWarp) {
  const auto a = numbers(256, 1), b = numbers(128, 2);
  __nv_bfloat16 *x = on_card(a), *y = on_card(b);
  float* c = on_card(std::vector<float>(128));
  start("a kernel", multiply_of_warp, dim3(1), dim3(32), 1024, stream_, x, y, c);
  const std::vector<float> got = on_host(c, 128);
  for (int r = 0; r < 16; ++r)
    for (int n = 0; n < 8; ++n) {
      float sum = 0.0F;
      for (int k = 0; k < 16; ++k) sum += __bfloat162float(a[r * 16 + k]) * __bfloat162float(b[k * 8 + n]);
      EXPECT_NEAR(got[r * 8 + n], sum, 1e-5F);
    }
  cudaFree(x), cudaFree(y), cudaFree(c);
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Two tiles [64, 64] as attention_products.cuh has them: s = a · bᵀ, and its rounded values · b.
void multiply_of_group(const __nv_bfloat16* a, const __nv_bfloat16* b, float* s, float* o) {
  SHARED_OF_LAUNCH(bytes, __align__(1024) unsigned char);
  const int t = static_cast<int>(threadIdx.x), l = t % 32;
  for (int i = t; i < 64 * 64; i += 128) {
    const int r = i / 64, c = i % 64, at = r * 128 + ((c / 8 ^ r % 8) * 16) + c % 8 * 2;
    *reinterpret_cast<__nv_bfloat16*>(bytes + at) = a[i];
    *reinterpret_cast<__nv_bfloat16*>(bytes + 8192 + at) = b[i];
  }
  __syncthreads();
  const std::uint32_t left = ptx::descriptor(emulator::shared_address(bytes), 8192),
                      right = ptx::descriptor(emulator::shared_address(bytes) + 8192, 8192);
  float sums[8][4], out[8][4] = {};
  ptx::begin_products();
  ptx::issue_rows<0>(sums, left, right), ptx::issue_rows<32>(sums, left, right);
  ptx::issue_rows<64>(sums, left, right), ptx::issue_rows<96>(sums, left, right);
  ptx::commit_products();
  ptx::wait_for_products();
  const auto put = [&](const float(&from)[8][4], float* to) {
    for (int n = 0; n < 8; ++n)
      for (int i = 0; i < 4; ++i) to[(t / 32 * 16 + l / 4 + i / 2 * 8) * 64 + 8 * n + l % 4 * 2 + i % 2] = from[n][i];
  };
  put(sums, s);
  const auto pack = [](float low, float high) { return std::bit_cast<std::uint32_t>(__floats2bfloat162_rn(low, high)); };
  ptx::Fragment held[4];
  for (int k = 0; k < 4; ++k)
    for (int i = 0; i < 4; ++i) held[k].r[i] = pack(sums[2 * k + i / 2][i % 2 * 2], sums[2 * k + i / 2][i % 2 * 2 + 1]);
  ptx::issue_columns<0>(out, held[0], right), ptx::issue_columns<2048>(out, held[1], right);
  ptx::issue_columns<4096>(out, held[2], right), ptx::issue_columns<6144>(out, held[3], right);
  ptx::commit_products();
  ptx::wait_for_products();
  put(out, o);
}

TEST_F(Emulator, ProductsOfFourWarps) {
  const auto a = numbers(4096, 1), b = numbers(4096, 2);
  __nv_bfloat16 *x = on_card(a), *y = on_card(b);
  float *s = on_card(std::vector<float>(4096)), *o = on_card(std::vector<float>(4096));
  start("a kernel", multiply_of_group, dim3(1), dim3(128), 16384, stream_, x, y, s, o);
  const std::vector<float> scores = on_host(s, 4096), out = on_host(o, 4096);
  for (int r = 0; r < 64; ++r)
    for (int n = 0; n < 64; ++n) {
      float sum = 0.0F, second = 0.0F;
      for (int k = 0; k < 64; ++k) {
        sum += __bfloat162float(a[r * 64 + k]) * __bfloat162float(b[n * 64 + k]);
        second += __bfloat162float(__float2bfloat16_rn(scores[r * 64 + k])) * __bfloat162float(b[k * 64 + n]);
      }
      EXPECT_NEAR(scores[r * 64 + n], sum, 1e-4F);
      EXPECT_NEAR(out[r * 64 + n], second, 1e-3F);
    }
  cudaFree(x), cudaFree(y), cudaFree(s), cudaFree(o);
}
#endif

}  // namespace
}  // namespace transformer::test
