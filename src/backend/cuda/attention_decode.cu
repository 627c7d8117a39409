// Attention forward of few queries against many keys, as in generation: the keys are split into pieces of 256, a block of threads does
// one piece for all queries and heads that share the keys, and a second kernel joins the pieces. Lengths and rows are read on the
// device, so that the number of blocks depends on the longest sequence alone.

#include <algorithm>

#include "backend/cuda/attention.cuh"
#include "backend/cuda/early.cuh"
#include "backend/cuda/types.cuh"

namespace transformer {
namespace {

constexpr int kDecodeWarps = 8, kDecodeThreads = kDecodeWarps * 32, kPiece = 256, kLanes = 8;  // lanes that share a key
constexpr int kAtATime = kDecodeThreads / kLanes;                                              // keys
constexpr int kMostRows = 32, kMostQueries = 8, kMostWidth = 256;

// Rows are the queries of all heads that share the keys: row r is query r % longest_q of head first + r / longest_q.
struct DecodePieces {
  int rows, pieces;
  float2* sums;  // [sequences, kv heads, pieces, rows]: the largest score and the sum of exponentials
  float* out;    // [sequences, kv heads, pieces, rows, head_dim]
};

// N elements from memory; kWide: rows of whole 16 bytes.
template <int N, class T>
__device__ void load_columns(const T* from, float (&to)[N]) {
  if constexpr (N == 1) to[0] = to_float(*from);
  else load(from, to);
}

// Grid: pieces × kv heads × sequences. kRows rows at a time.
template <class T, int kRows, bool kWide>
__global__ void __launch_bounds__(kDecodeThreads) attention_decode_piece(AttentionProblem p, DecodePieces to) {
  SHARED_OF_LAUNCH(memory, float);
  __shared__ int key_rows[kPiece];
  wait_for_last();
  constexpr int N = kWide ? 16 / sizeof(T) : 1, kColumns = kLanes * N;
  constexpr int kBatch = kRows == 1 ? 4 : 2;  // keys of a thread that are on their way at once
  const int d = p.head_dim, lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  float *q = memory, *scores = q + to.rows * d, *parts = scores + to.rows * kPiece;  // [rows, d], [rows, keys], [warps, kRows, d]
  const int piece = static_cast<int>(blockIdx.x) % to.pieces, place = static_cast<int>(blockIdx.x) / to.pieces;
  const int sequence = place / p.kv_heads, kv_head = place % p.kv_heads, shared_by = p.heads / p.kv_heads, longest_q = p.queries.longest;
  HeadPlace at(p, sequence, kv_head * shared_by);
  const int first = piece * kPiece, keys = min(kPiece, at.keys - first);
  if (at.queries == 0 || (keys <= 0 && piece > 0)) return;

  for (int i = static_cast<int>(threadIdx.x); i < to.rows * d; i += kDecodeThreads) {
    const int r = i / d, query = r % longest_q;
    const std::int64_t column = static_cast<std::int64_t>(at.head + r / longest_q) * d + i % d;
    q[i] = query < at.queries ? to_float(*p.q.at<T>(at.q_begin + query, column)) * p.scale : 0.0F;
  }
  for (int j = static_cast<int>(threadIdx.x); j < keys; j += kDecodeThreads) key_rows[j] = static_cast<int>(at.key_row(p, first + j));
  __syncthreads();
  const int key_of_warp = warp * 4 + lane / kLanes, column_of_lane = lane % kLanes * N;
  const std::int64_t kv_column = static_cast<std::int64_t>(kv_head) * d;
  for (int r0 = 0; r0 < to.rows; r0 += kRows) {
    for (int j0 = key_of_warp; j0 < (keys + kAtATime - 1) / kAtATime * kAtATime; j0 += kAtATime * kBatch) {
      float sum[kBatch][kRows] = {};
      for (int c = column_of_lane; c < d; c += kColumns) {
        float x[kBatch][N] = {};
#pragma unroll
        for (int b = 0; b < kBatch; ++b)
          if (j0 + kAtATime * b < keys) load_columns<N>(p.k.at<T>(key_rows[j0 + kAtATime * b], kv_column + c), x[b]);
#pragma unroll
        for (int b = 0; b < kBatch; ++b)
#pragma unroll
          for (int r = 0; r < kRows; ++r)
            if (kRows == 1 || r0 + r < to.rows) {
#pragma unroll
              for (int i = 0; i < N; ++i) sum[b][r] += x[b][i] * q[(r0 + r) * d + c + i];
            }
      }
#pragma unroll
      for (int b = 0; b < kBatch; ++b)
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          for (int m = 1; m < kLanes; m *= 2) sum[b][r] += __shfl_xor_sync(0xFFFFFFFFU, sum[b][r], m);
          if (lane % kLanes == 0 && j0 + kAtATime * b < keys && r0 + r < to.rows) scores[(r0 + r) * kPiece + j0 + kAtATime * b] = sum[b][r];
        }
    }
  }
  __syncthreads();
  let_next_begin();
  // Largest score, exponentials and their sum, a warp for each row.
  for (int r = warp; r < to.rows; r += kDecodeThreads / 32) {
    const int query = r % longest_q;
    const HeadPlace of_row(p, sequence, at.head + r / longest_q);
    const KeyRange seen = query < at.queries ? at.visible(p, query) : KeyRange{0, 0};
    float top = -INFINITY, total = 0.0F;
    for (int j = lane; j < keys; j += 32) {
      const bool sees = first + j >= seen.begin && first + j < seen.end;
      const float s = sees ? scores[r * kPiece + j] + of_row.added(p, query, first + j) : -INFINITY;
      scores[r * kPiece + j] = s;
      top = fmaxf(top, s);
    }
    top = over_warp<Max>(top);
    for (int j = lane; j < keys; j += 32) {
      const float weight = top == -INFINITY ? 0.0F : expf(scores[r * kPiece + j] - top);
      scores[r * kPiece + j] = weight;
      total += weight;
    }
    total = over_warp<Sum>(total);
    if (lane > 0 || query >= at.queries) continue;
    if (to.pieces > 1) to.sums[static_cast<std::int64_t>(blockIdx.x) * to.rows + r] = make_float2(top, total);
    else
      p.lse[static_cast<std::int64_t>(of_row.head) * p.queries.total + at.q_begin + query] = total > 0.0F ? top + logf(total) : -INFINITY;
    q[r * d] = total > 0.0F ? 1.0F / total : 0.0F;  // the query is not needed any more
  }
  __syncthreads();
  for (int r0 = 0; r0 < to.rows; r0 += kRows) {
    for (int c = column_of_lane; c < (d + kColumns - 1) / kColumns * kColumns; c += kColumns) {
      float sum[kRows][N] = {};
      if (c < d) {
        for (int j0 = key_of_warp; j0 < keys; j0 += kAtATime * kBatch) {
          float x[kBatch][N];
#pragma unroll
          for (int b = 0; b < kBatch; ++b)
            if (j0 + kAtATime * b < keys) load_columns<N>(p.v.at<T>(key_rows[j0 + kAtATime * b], kv_column + c), x[b]);
#pragma unroll
          for (int b = 0; b < kBatch; ++b) {
            if (j0 + kAtATime * b >= keys) continue;
#pragma unroll
            for (int r = 0; r < kRows; ++r)
              if (kRows == 1 || r0 + r < to.rows) {
#pragma unroll
                for (int i = 0; i < N; ++i) sum[r][i] += x[b][i] * scores[(r0 + r) * kPiece + j0 + kAtATime * b];
              }
          }
        }
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int i = 0; i < N; ++i) {
          for (int m = kLanes; m < 32; m *= 2) sum[r][i] += __shfl_xor_sync(0xFFFFFFFFU, sum[r][i], m);
          if (lane < kLanes && c + i < d) parts[(warp * kRows + r) * d + c + i] = sum[r][i];
        }
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kRows * d; i += kDecodeThreads) {
      const int r = r0 + i / d, c = i % d, query = r % longest_q;
      if (r >= to.rows || query >= at.queries) continue;
      float sum = 0.0F;
#pragma unroll
      for (int w = 0; w < kDecodeWarps; ++w) sum += parts[w * kRows * d + i];
      if (to.pieces > 1) to.out[(static_cast<std::int64_t>(blockIdx.x) * to.rows + r) * d + c] = sum;
      else *p.out.at<T>(at.q_begin + query, static_cast<std::int64_t>(at.head + r / longest_q) * d + c) = from_float<T>(sum * q[r * d]);
    }
    __syncthreads();
  }
}

// Grid: rows × kv heads × sequences.
template <class T>
__global__ void __launch_bounds__(kDecodeThreads) attention_decode_join(AttentionProblem p, DecodePieces from) {
  wait_for_last();
  const int r = static_cast<int>(blockIdx.x) % from.rows, place = static_cast<int>(blockIdx.x) / from.rows, d = p.head_dim;
  const int query = r % p.queries.longest, head = place % p.kv_heads * (p.heads / p.kv_heads) + r / p.queries.longest;
  const HeadPlace at(p, place / p.kv_heads, head);
  if (query >= at.queries) return;
  const int pieces = (at.keys + kPiece - 1) / kPiece;
  const std::int64_t first = static_cast<std::int64_t>(place) * from.pieces * from.rows + r;
  float top = -INFINITY, total = 0.0F;
  for (int i = 0; i < pieces; ++i) top = fmaxf(top, from.sums[first + static_cast<std::int64_t>(i) * from.rows].x);
  const float shift = top == -INFINITY ? 0.0F : top;
  for (int i = 0; i < pieces; ++i) {
    const float2 s = from.sums[first + static_cast<std::int64_t>(i) * from.rows];
    total += s.y * expf(s.x - shift);
  }
  for (int c = static_cast<int>(threadIdx.x); c < d; c += kDecodeThreads) {
    float sum = 0.0F;
    for (int i = 0; i < pieces; ++i) {
      const std::int64_t row = first + static_cast<std::int64_t>(i) * from.rows;
      sum += from.out[row * d + c] * expf(from.sums[row].x - shift);
    }
    *p.out.at<T>(at.q_begin + query, static_cast<std::int64_t>(head) * d + c) = from_float<T>(total > 0.0F ? sum / total : 0.0F);
  }
  if (threadIdx.x == 0)
    p.lse[static_cast<std::int64_t>(head) * p.queries.total + at.q_begin + query] = total > 0.0F ? top + logf(total) : -INFINITY;
}

bool in_whole_vectors(const TokenRows& rows, std::size_t size) {
  return reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 && static_cast<std::size_t>(rows.stride) * size % 16 == 0;
}

}  // namespace

bool decode_attention(Context& ctx, DType dtype, const AttentionProblem& p) {
  const int rows = p.heads / p.kv_heads * p.queries.longest, d = p.head_dim;
  if (p.queries.longest == 0 || p.queries.longest > kMostQueries || rows > kMostRows || d > kMostWidth || p.dropout.threshold > 0)
    return false;
  const auto shared_by = [&](int rows_at_a_time) {
    return static_cast<std::size_t>(rows * d + rows * kPiece + kDecodeWarps * rows_at_a_time * d) * sizeof(float);
  };
  if (shared_by(8) + kPiece * sizeof(int) > cuda(ctx).most_shared_memory()) return false;
  DecodePieces to{rows, std::max(1, static_cast<int>(blocks_of(p.keys.longest, kPiece))), nullptr, nullptr};
  const std::int64_t places = std::int64_t{p.queries.count} * p.kv_heads;
  Tensor sums, out;
  if (to.pieces > 1) {
    sums = Tensor::empty(ctx, {places, to.pieces, rows, 2});
    out = Tensor::empty(ctx, {places, to.pieces, rows, d});
    to.sums = reinterpret_cast<float2*>(mutable_values_of<float>(sums));
    to.out = mutable_values_of<float>(out);
  }
  const dim3 grid(static_cast<unsigned>(places * to.pieces)), block(kDecodeThreads);
  visit_device_float("attention", dtype, [&]<class T>() {
    const bool wide = in_whole_vectors(p.k, sizeof(T)) && in_whole_vectors(p.v, sizeof(T)) && d * sizeof(T) % 16 == 0;
    const auto start = [&]<int kRows, bool kWide>() {
      launch_early(ctx, "attention", attention_decode_piece<T, kRows, kWide>, grid, block, shared_by(kRows), p, to);
    };
    if (!wide) start.template operator()<8, false>();
    else if (rows == 1) start.template operator()<1, true>();
    else start.template operator()<8, true>();
    if (to.pieces > 1)
      launch_early(ctx, "attention", attention_decode_join<T>, dim3(static_cast<unsigned>(places * rows)), block, 0, p, to);
  });
  return true;
}

}  // namespace transformer
