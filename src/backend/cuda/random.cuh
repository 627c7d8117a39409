#pragma once
// The numbers of RandomStream (transformer/core/random.h) on the device: the same bits as the host's.

#include "backend/cuda/kernels.h"

namespace transformer {

// One block of Philox 4x32-10: words of elements e, e + 16, e + 32 and e + 48, where e = group·64 + lane, lane < 16.
__device__ inline uint4 philox_words(const RandomStream& stream, std::uint64_t group, unsigned lane) {
  const std::uint64_t block = group * 16 + lane;
  uint4 c = make_uint4(static_cast<unsigned>(block), static_cast<unsigned>(block >> 32), stream.op, stream.step);
  unsigned k0 = static_cast<unsigned>(stream.seed), k1 = static_cast<unsigned>(stream.seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * c.x, b = std::uint64_t{0xCD9E8D57U} * c.z;  // one instruction each
    c = make_uint4(static_cast<unsigned>(b >> 32) ^ c.y ^ k0, static_cast<unsigned>(b), static_cast<unsigned>(a >> 32) ^ c.w ^ k1,
                   static_cast<unsigned>(a));
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

__device__ inline unsigned random_bits(const RandomStream& stream, std::uint64_t element) {
  const uint4 w = philox_words(stream, element / 64, static_cast<unsigned>(element % 16));
  switch (element / 16 % 4) {
    case 0: return w.x;
    case 1: return w.y;
    case 2: return w.z;
    default: return w.w;
  }
}

// What the kept and the dropped are multiplied by.
struct Dropout {
  RandomStream stream;
  const std::uint32_t* step = nullptr;  // where the stream's step is found; null: in the stream
  unsigned threshold = 0;               // dropped: bits below it
  float keep = 1.0F;                    // 1/(1-p)
  Dropout() = default;
  Dropout(Context& ctx, const DropoutArgs& args)
      : stream(args.stream), step(cuda(ctx).random_step(args.stream.step)),
        threshold(static_cast<unsigned>(static_cast<double>(args.p) * 0x1p32)), keep(1.0F / (1.0F - args.p)) {
    if (step != nullptr) stream.step = 0;  // the same in every pass
  }
  __device__ RandomStream address() const { return {stream.seed, step != nullptr ? __ldg(step) : stream.step, stream.op}; }
  __device__ float factor(unsigned bits) const { return bits < threshold ? 0.0F : keep; }
};

// Eight elements of a group of 64 for one of eight threads: pairs at 2·thread + {0, 1} + {0, 16, 32, 48}, which are the words of two
// blocks of Philox. Calls f(offset of the pair, factor, factor).
template <class F>
__device__ inline void dropout_pairs(const Dropout& dropout, std::uint64_t group, unsigned thread, F&& f) {
  const RandomStream stream = dropout.address();
  const uint4 a = philox_words(stream, group, 2 * thread), b = philox_words(stream, group, 2 * thread + 1);
  f(2 * thread, dropout.factor(a.x), dropout.factor(b.x));
  f(2 * thread + 16, dropout.factor(a.y), dropout.factor(b.y));
  f(2 * thread + 32, dropout.factor(a.z), dropout.factor(b.z));
  f(2 * thread + 48, dropout.factor(a.w), dropout.factor(b.w));
}

}  // namespace transformer
