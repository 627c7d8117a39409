// Vectorised Philox: the numbers of RandomStream (transformer/core/random.h), many at a time.
#if defined(TRANSFORMER_RANDOM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSFORMER_RANDOM_INL_H_
#undef TRANSFORMER_RANDOM_INL_H_
#else
#define TRANSFORMER_RANDOM_INL_H_
#endif

#include <algorithm>

#include "backend/cpu/simd-inl.h"
#include "backend/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {

using VU = hn::Vec<DU>;

#if HWY_TARGET != HWY_SCALAR
using DW = hn::Repartition<std::uint64_t, DU>;
using VW = hn::Vec<DW>;

// Ten rounds on one block per 64-bit lane. Only the low half of each lane counts: that is what MulEven multiplies, and
// it gives both halves of the product at once.
HWY_INLINE void PhiloxRounds(std::uint64_t seed, VW& c0, VW& c1, VW& c2, VW& c3) {
  const DU du;
  const DW dw;
  auto k0 = static_cast<std::uint32_t>(seed);
  auto k1 = static_cast<std::uint32_t>(seed >> 32);
  HWY_UNROLL(10)
  for (int round = 0; round < 10; ++round) {
    const VW a = hn::MulEven(hn::BitCast(du, c0), hn::Set(du, 0xD2511F53U));
    const VW b = hn::MulEven(hn::BitCast(du, c2), hn::Set(du, 0xCD9E8D57U));
    c0 = hn::Xor3(hn::ShiftRight<32>(b), c1, hn::Set(dw, k0));
    c1 = b;
    c2 = hn::Xor3(hn::ShiftRight<32>(a), c3, hn::Set(dw, k1));
    c3 = a;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
}

// Low halves of the 64-bit lanes, from two vectors in turn.
HWY_INLINE VU Interleaved(VW even, VW odd) { return hn::OddEven(hn::BitCast(DU(), hn::ShiftLeft<32>(odd)), hn::BitCast(DU(), even)); }
#endif

// The 64 words of elements [group·64, group·64 + 64).
HWY_INLINE void PhiloxGroup(const RandomStream& stream, std::uint64_t group, std::uint32_t* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t lane = 0; lane < 16; ++lane) {
    const std::uint64_t block = group * 16 + lane;
    const auto words = philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), stream.op, stream.step},
                              {static_cast<std::uint32_t>(stream.seed), static_cast<std::uint32_t>(stream.seed >> 32)});
    for (std::size_t i = 0; i < 4; ++i) out[i * 16 + lane] = words[i];
  }
#else
  const DU du;
  const DW dw;
  for (std::size_t lane = 0; lane < 16; lane += hn::Lanes(du)) {
    const std::uint64_t block = group * 16 + lane;  // 16 divides: no carry into the upper word between lanes
    const VW first = hn::Add(hn::Set(dw, block), hn::ShiftLeft<1>(hn::Iota(dw, 0)));
    VW a0 = first, b0 = hn::Add(first, hn::Set(dw, 1));  // even and odd blocks
    VW a1 = hn::Set(dw, block >> 32), b1 = a1;
    VW a2 = hn::Set(dw, stream.op), b2 = a2;
    VW a3 = hn::Set(dw, stream.step), b3 = a3;
    PhiloxRounds(stream.seed, a0, a1, a2, a3);
    PhiloxRounds(stream.seed, b0, b1, b2, b3);
    hn::StoreU(Interleaved(a0, b0), du, out + lane);
    hn::StoreU(Interleaved(a1, b1), du, out + 16 + lane);
    hn::StoreU(Interleaved(a2, b2), du, out + 32 + lane);
    hn::StoreU(Interleaved(a3, b3), du, out + 48 + lane);
  }
#endif
}

// Calls f(words, first, count) for pieces that cover elements [begin, begin + n): words[i] belongs to element
// begin + first + i.
template <class F>
HWY_INLINE void ForRandomWords(const RandomStream& stream, std::uint64_t begin, std::int64_t n, F&& f) {
  HWY_ALIGN std::uint32_t words[64];
  for (std::int64_t done = 0; done < n;) {
    const std::uint64_t element = begin + static_cast<std::uint64_t>(done);
    const auto skip = static_cast<std::int64_t>(element % 64);
    const std::int64_t count = std::min<std::int64_t>(64 - skip, n - done);
    PhiloxGroup(stream, element / 64, words);
    f(words + skip, done, count);
    done += count;
  }
}

// factor[i] = 0 where element begin + i is dropped (its bits < p·2³²), 1/(1-p) where it is kept.
HWY_INLINE void DropoutFactors(const DropoutArgs& args, std::uint64_t begin, std::int64_t n, float* HWY_RESTRICT factor) {
  const DU du;
  const auto threshold = hn::Set(du, static_cast<std::uint32_t>(static_cast<double>(args.p) * 0x1p32));
  const VF keep = hn::Set(DF(), 1.0F / (1.0F - args.p));
  ForRandomWords(args.stream, begin, n, [&](const std::uint32_t* words, std::int64_t first, std::int64_t count) HWY_ATTR {
    HWY_ALIGN std::uint32_t padded[64 + 16];
    if (count < 64) {  // whole vectors may be read past the piece: give them room
      std::memcpy(padded, words, static_cast<std::size_t>(count) * sizeof(std::uint32_t));
      words = padded;
    }
    ForVectors(count, [&](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
      const auto dropped = hn::Lt(hn::LoadU(du, words + i), threshold);
      StoreSome(whole, hn::IfThenZeroElse(hn::RebindMask(DF(), dropped), keep), factor + first + i, m);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();
#endif
