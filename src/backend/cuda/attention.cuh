#pragma once
// What the attention kernels share: a call as they read it, which keys a query sees, what is added to its scores, its dropout.

#include <cmath>
#include <cstdint>

#include "backend/cuda/random.cuh"
#include "backend/cuda/sequences.h"

namespace transformer {

// Rows of tokens with the heads side by side; null where not wanted. Strides count elements.
struct TokenRows {
  void* data = nullptr;
  std::int64_t stride = 0;

  template <class T>
  __device__ T* at(std::int64_t row, std::int64_t column) const {
    return static_cast<T*>(data) + row * stride + column;
  }
};

// Strides of a bias over [sequence, head, query, key], 0 where it repeats.
struct BiasStrides {
  std::int64_t sequence = 0, head = 0, query = 0, key = 0;

  BiasStrides() = default;
  BiasStrides(const Tensor& t, std::int64_t row_stride) {
    std::int64_t* const strides[] = {&key, &query, &head, &sequence};
    std::int64_t step = 1;
    for (int i = 1; i <= t.rank(); ++i) {
      if (t.dim(-i) != 1) *strides[i - 1] = step;
      step = i == 1 ? row_stride : step * t.dim(-i);
    }
  }
  __device__ std::int64_t offset(int s, int h, int i, int j) const { return s * sequence + h * head + i * query + j * key; }
};

// The keys of Philox's ten rounds, so that kernels need not step them.
struct PhiloxKeys {
  std::uint32_t words[20] = {};
  PhiloxKeys() = default;
  explicit PhiloxKeys(std::uint64_t seed) {
    for (std::uint32_t round = 0; round < 10; ++round) {
      words[2 * round] = static_cast<std::uint32_t>(seed) + round * 0x9E3779B9U;
      words[2 * round + 1] = static_cast<std::uint32_t>(seed >> 32) + round * 0xBB67AE85U;
    }
  }
};

struct AttentionProblem {
  DeviceSequences queries, keys;
  int heads = 1, kv_heads = 1, head_dim = 1;
  float scale = 1.0F;
  bool causal = false;
  int window = 0;
  const float* bias = nullptr;
  BiasStrides bias_strides;
  const float* relative = nullptr;  // [heads, 2·L-1]
  std::int64_t relative_stride = 0;
  int relative_longest = 0;  // L
  Dropout dropout;
  PhiloxKeys philox_keys;           // of dropout.stream.seed
  std::int64_t dropout_groups = 1;  // of 64 random numbers, for each row of scores

  TokenRows q, k, v, out, dout, dq, dk, dv;
  float* lse = nullptr;      // [heads, q tokens]
  float* weights = nullptr;  // [sequences, heads, longest q, longest k]
  float2* stats = nullptr;   // backward, [heads, q tokens]: lse · log2(e), with +inf for -inf, and rowsum(dout ∘ out)
};

// The words of elements c, c + 16, c + 32 and c + 48 of a group of 64 of the dropout's random numbers, as philox_words has them.
__device__ inline uint4 dropout_words(const AttentionProblem& p, std::uint64_t group, int c) {
  const std::uint64_t block = group * 16 + static_cast<std::uint64_t>(c);
  std::uint32_t x = static_cast<std::uint32_t>(block), y = static_cast<std::uint32_t>(block >> 32);
  std::uint32_t z = p.dropout.stream.op, w = p.dropout.address().step;
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * x, b = std::uint64_t{0xCD9E8D57U} * z;
    x = static_cast<std::uint32_t>(b >> 32) ^ y ^ p.philox_keys.words[2 * round], y = static_cast<std::uint32_t>(b);
    z = static_cast<std::uint32_t>(a >> 32) ^ w ^ p.philox_keys.words[2 * round + 1], w = static_cast<std::uint32_t>(a);
  }
  return make_uint4(x, y, z, w);
}

struct KeyRange {
  int begin, end;
};

// One head of one sequence.
struct HeadPlace {
  int sequence, head, kv_head, q_begin, queries, k_begin, keys;

  __device__ HeadPlace(const AttentionProblem& p, int s, int h)
      : sequence(s), head(h), kv_head(h / (p.heads / p.kv_heads)), q_begin(p.queries.begins[s]), queries(p.queries.lengths[s]),
        k_begin(p.keys.begins[s]), keys(p.keys.lengths[s]) {}

  __device__ int position(int query) const { return query + keys - queries; }  // the queries are the last positions
  // The keys that a query sees, by causality and window; begin ≥ end where there are none.
  __device__ KeyRange visible(const AttentionProblem& p, int query) const {
    KeyRange r{0, keys};
    if (p.window > 0) r.begin = max(0, position(query) - p.window + 1);
    if (p.causal) r.end = min(keys, position(query) + 1);
    else if (p.window > 0) r.end = min(keys, position(query) + p.window);
    return r;
  }
  // The queries [begin, end) that see any of keys first … last; both ends of visible() grow with the query.
  __device__ KeyRange seen_by(const AttentionProblem& p, int first, int last) const {
    KeyRange r{0, queries};
    const int shift = keys - queries;
    if (p.causal) r.begin = max(0, first - shift);
    else if (p.window > 0) r.begin = max(0, first - shift - p.window + 1);
    if (p.window > 0) r.end = min(queries, last + p.window - shift);
    return r;
  }
  __device__ std::int64_t key_row(const AttentionProblem& p, int key) const {
    return p.keys.rows ? p.keys.rows[k_begin + key] : k_begin + key;
  }
  // What is added to the scaled score.
  __device__ float added(const AttentionProblem& p, int query, int key) const {
    float sum = 0.0F;
    if (p.bias) sum += p.bias[p.bias_strides.offset(sequence, head, query, key)];
    if (p.relative) sum += p.relative[head * p.relative_stride + key - position(query) + p.relative_longest - 1];
    return sum;
  }
  // The first group of random numbers of a row of scores: 64 keys each.
  __device__ std::uint64_t random_group(const AttentionProblem& p, int query) const {
    const std::int64_t row = (static_cast<std::int64_t>(sequence) * p.heads + head) * p.queries.longest + query;
    return static_cast<std::uint64_t>(row * p.dropout_groups);
  }
};

inline constexpr float kLog2e = 1.4426950408889634F, kLn2 = 0.6931471805599453F;

// The paths. Each says whether it takes a problem; the general one takes all.
void general_attention(Context& ctx, DType dtype, const AttentionProblem& p);
void attention_weights(Context& ctx, DType dtype, const AttentionProblem& p);  // p.weights, from p.lse
void general_attention_backward(Context& ctx, DType dtype, const AttentionProblem& p);
void attention_stats(Context& ctx, DType dtype, const AttentionProblem& p);  // p.stats
// dbias and drelative are added to; undefined where not wanted. Needs p.stats.
void attention_bias_backward(Context& ctx, DType dtype, const AttentionProblem& p, Tensor& dbias, Tensor& drelative);
// bfloat16 with rows of whole 16 bytes, head_dim up to 128.
bool mma_attention(Context& ctx, const AttentionProblem& p);
// Writes p.stats; drelative as attention_bias_backward.
bool mma_attention_backward(Context& ctx, const AttentionProblem& p, Tensor& drelative);
bool short_attention_backward(Context& ctx, const AttentionProblem& p);  // of short sequences; needs no p.stats
// Few queries and many keys, split over the keys. Any dtype.
bool decode_attention(Context& ctx, DType dtype, const AttentionProblem& p);

}  // namespace transformer
