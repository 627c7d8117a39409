// Attention backward in bfloat16 for sequences that fit into shared memory, in one kernel. A block of threads does one sequence and
// key-value head: first every warp the gradients of its 16 keys, leaving dS behind, then the queries' from dS. Nothing is summed by
// more than one warp.

#include <algorithm>

#include "backend/cuda/attention_backward.cuh"
#include "backend/cuda/launch.h"

namespace transformer {
namespace {

using namespace mma;

// Where things are in shared memory, in bytes, for so many tiles of 16 queries and keys.
template <int D>
struct ShortLayout {
  static constexpr int kMostThreads = 256;  // 128 keys
  int q_rows, k_rows, groups, ds_stride;    // ds [keys, queries]
  int q, dout, k, v, ds, stats, kept, size;

  __host__ __device__ ShortLayout(int longest_q, int longest_k, bool dropout)
      : q_rows((longest_q + 15) / 16 * 16), k_rows((longest_k + 15) / 16 * 16), groups((longest_k + 63) / 64), ds_stride(q_rows + 8) {
    constexpr int kRow = kStride<D> * 2;
    q = 0;
    dout = q + q_rows * kRow;
    k = dout + q_rows * kRow;
    v = k + k_rows * kRow;
    ds = v + k_rows * kRow;  // and the output at first
    const int ds_size = k_rows * ds_stride * 2, out_size = q_rows * kRow;
    stats = ds + (ds_size > out_size ? ds_size : out_size);
    kept = stats + q_rows * 8;
    size = kept + (dropout ? q_rows * groups * 8 : 0);
  }
};

// stats [rows] = (lse · log2(e), rowsum(dout ∘ out)): four lanes a row.
template <int D>
__device__ void short_stats(const AttentionProblem& p, const HeadPlace& at, int rows, const unsigned char* out, const unsigned char* dout,
                            float2* stats) {
  for (int r = static_cast<int>(threadIdx.x) / 4; r < rows; r += static_cast<int>(blockDim.x) / 4) {
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < D / 32; ++i) {
      const int c = (static_cast<int>(threadIdx.x) % 4 + 4 * i) * 8;
      sum += dot_of_pieces(out, dout, static_cast<uint32_t>((r * kStride<D> + c) * 2));
    }
    sum += __shfl_xor_sync(0xFU << (threadIdx.x % 32 / 4 * 4), sum, 1);
    sum += __shfl_xor_sync(0xFU << (threadIdx.x % 32 / 4 * 4), sum, 2);
    if (threadIdx.x % 4 == 0) {
      const float lse = r < at.queries ? p.lse[static_cast<std::int64_t>(at.head) * p.queries.total + at.q_begin + r] : 0.0F;
      stats[r] = make_float2(lse == -INFINITY ? INFINITY : lse * kLog2e, sum);
    }
  }
}

// Grid: key-value heads × sequences; a warp for every 16 keys.
template <int D, bool kBiased>
__global__ void __launch_bounds__(ShortLayout<D>::kMostThreads, D <= 64 ? 2 : 1) attention_backward_short(AttentionProblem p) {
  SHARED_OF_LAUNCH(bytes, __align__(16) unsigned char);
  const ShortLayout<D> layout(p.queries.longest, p.keys.longest, p.dropout.threshold > 0);
  const int sequence = static_cast<int>(blockIdx.x) / p.kv_heads, kv_head = static_cast<int>(blockIdx.x) % p.kv_heads;
  const int shared_by = p.heads / p.kv_heads, lane = lane_id(), warp = warp_id(), warps = static_cast<int>(blockDim.x) / 32;
  const uint32_t memory = shared_address(bytes);
  const uint32_t q_tile = memory + layout.q, g_tile = memory + layout.dout, k_tile = memory + layout.k, v_tile = memory + layout.v;
  float2* const stats = reinterpret_cast<float2*>(bytes + layout.stats);
  uint32_t* const kept = p.dropout.threshold > 0 ? reinterpret_cast<uint32_t*>(bytes + layout.kept) : nullptr;
  const auto tile_rows = [&](int offset, int row) { return reinterpret_cast<__nv_bfloat16*>(bytes + offset) + row * kStride<D>; };
  const std::int64_t kv_column = static_cast<std::int64_t>(kv_head) * p.head_dim;

  KeySums<D, D <= 32> sums;
  sums.begin();
  const int keys = p.keys.lengths[sequence], k_begin = p.keys.begins[sequence], queries = p.queries.lengths[sequence];
  const int q_tiles = (queries + 15) / 16, k_tiles = (keys + 15) / 16;
  if (queries > 0) {
    load_rows<D>(k_tile, 16 * k_tiles, p.k, k_begin, nullptr, keys, kv_column, p.head_dim);
    load_rows<D>(v_tile, 16 * k_tiles, p.v, k_begin, nullptr, keys, kv_column, p.head_dim);
  }
  for (int head = kv_head * shared_by; head < (kv_head + 1) * shared_by && queries > 0; ++head) {
    const HeadPlace at(p, sequence, head);
    const std::int64_t column = static_cast<std::int64_t>(head) * p.head_dim;
    load_rows<D>(q_tile, 16 * q_tiles, p.q, at.q_begin, nullptr, queries, column, p.head_dim);
    load_rows<D>(g_tile, 16 * q_tiles, p.dout, at.q_begin, nullptr, queries, column, p.head_dim);
    load_rows<D>(memory + layout.ds, 16 * q_tiles, p.out, at.q_begin, nullptr, queries, column, p.head_dim);
    commit_copies();
    if (kept) draw_kept(p, at, 0, queries, 0, layout.groups, kept);
    wait_for_copies();
    __syncthreads();
    short_stats<D>(p, at, 16 * q_tiles, bytes + layout.ds, bytes + layout.dout, stats);
    if (head == kv_head * shared_by && warp < k_tiles) sums.hold(k_tile, v_tile, 16 * warp);
    __syncthreads();

    if (warp < k_tiles) {
      const int key = 16 * warp;
      for (int query = 0; query < queries; query += 16) {
        const Sight sight(p, at, query, key);
        if (!sight.any) continue;
        const StepTiles tiles{q_tile,
                              g_tile,
                              k_tile,
                              v_tile,
                              query,
                              key,
                              stats + query,
                              kept ? kept + (query * layout.groups + key / 64) * 2 : nullptr,
                              layout.groups * 2};
        const Fragment ds = sums.template add<kBiased>(p, at, tiles, query, key, !sight.all);
        __nv_bfloat16* to = reinterpret_cast<__nv_bfloat16*>(bytes + layout.ds) + (key + lane / 4) * layout.ds_stride + query +
            lane % 4 * 2;
        *reinterpret_cast<uint32_t*>(to) = ds.r[0];
        *reinterpret_cast<uint32_t*>(to + 8 * layout.ds_stride) = ds.r[1];
        *reinterpret_cast<uint32_t*>(to + 8) = ds.r[2];
        *reinterpret_cast<uint32_t*>(to + 8 * layout.ds_stride + 8) = ds.r[3];
      }
    }
    __syncthreads();
    for (int query = 16 * warp; query < queries && p.dq.data; query += 16 * warps) {
      float dq[D / 8][4];
      zero(dq);
      for (int key = 0; key < keys; key += 16) {
        if (!Sight(p, at, query, key).any) continue;
        const Fragment ds = left_turned(memory + layout.ds, layout.ds_stride, key, query);
#pragma unroll
        for (int c = 0; c < D / 16; ++c) multiply_add(dq[2 * c], dq[2 * c + 1], ds, right_as_it_lies(k_tile, kStride<D>, key, 16 * c));
      }
      write_rows<D>(dq, p.scale, p.scale, tile_rows(layout.q, query), p.dq, at.q_begin + query, queries - query, column, p.head_dim);
    }
    __syncthreads();
  }
  if (warp >= k_tiles) return;
  const int key = 16 * warp;
  if (p.dk.data) write_rows<D>(sums.dk, p.scale, p.scale, tile_rows(layout.k, key), p.dk, k_begin + key, keys - key, kv_column, p.head_dim);
  if (p.dv.data) write_rows<D>(sums.dv, 1.0F, 1.0F, tile_rows(layout.k, key), p.dv, k_begin + key, keys - key, kv_column, p.head_dim);
}

}  // namespace

bool short_attention_backward(Context& ctx, const AttentionProblem& p) {
  if (!takes(p)) return false;
  const int tiles = static_cast<int>(blocks_of(p.keys.longest, 16));
  if (p.queries.longest > 128) return false;
  bool fits = false;
  with_width(p, [&]<int D, bool kBiased>() {
    const ShortLayout<D> layout(p.queries.longest, p.keys.longest, p.dropout.threshold > 0);
    fits = tiles * 32 <= ShortLayout<D>::kMostThreads && static_cast<std::size_t>(layout.size) <= cuda(ctx).most_shared_memory();
    if (!fits) return;
    launch(ctx, "attention_backward", attention_backward_short<D, kBiased>, dim3(static_cast<unsigned>(p.kv_heads * p.queries.count)),
           dim3(static_cast<unsigned>(std::max(tiles, 1) * 32)), static_cast<std::size_t>(layout.size), p);
  });
  return fits;
}

}  // namespace transformer
