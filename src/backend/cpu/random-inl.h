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

// High and low halves of the 64-bit products of 32-bit lanes.
HWY_INLINE void MulWide(VU a, VU b, VU& high, VU& low) {
  const DU du;
#if HWY_TARGET == HWY_SCALAR  // no lanes to pair
  const std::uint64_t product = std::uint64_t{hn::GetLane(a)} * hn::GetLane(b);
  high = hn::Set(du, static_cast<std::uint32_t>(product >> 32));
  low = hn::Set(du, static_cast<std::uint32_t>(product));
#else
  const hn::Repartition<std::uint64_t, DU> dw;
  const auto even = hn::MulEven(a, b);                                                                     // 64-bit products of lanes 0, 2, …
  const auto odd = hn::MulEven(hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(dw, a))),
                               hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(dw, b))));
  const auto upper = hn::Set(dw, 0xffffffff00000000ULL);
  high = hn::BitCast(du, hn::Or(hn::ShiftRight<32>(even), hn::And(odd, upper)));
  low = hn::Mul(a, b);
#endif
}

// The 64 words of elements [group·64, group·64 + 64).
HWY_INLINE void PhiloxGroup(const RandomStream& stream, std::uint64_t group, std::uint32_t* HWY_RESTRICT out) {
  const DU du;
  for (std::size_t lane = 0; lane < 16; lane += hn::Lanes(du)) {
    const std::uint64_t block = group * 16 + lane;  // 16 divides: no carry into the upper word between lanes
    VU c0 = hn::Iota(du, static_cast<std::uint32_t>(block));
    VU c1 = hn::Set(du, static_cast<std::uint32_t>(block >> 32));
    VU c2 = hn::Set(du, stream.op);
    VU c3 = hn::Set(du, stream.step);
    auto k0 = static_cast<std::uint32_t>(stream.seed);
    auto k1 = static_cast<std::uint32_t>(stream.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      VU high_a, low_a, high_b, low_b;
      MulWide(c0, hn::Set(du, 0xD2511F53U), high_a, low_a);
      MulWide(c2, hn::Set(du, 0xCD9E8D57U), high_b, low_b);
      c0 = hn::Xor(hn::Xor(high_b, c1), hn::Set(du, k0));
      c1 = low_b;
      c2 = hn::Xor(hn::Xor(high_a, c3), hn::Set(du, k1));
      c3 = low_a;
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    hn::StoreU(c0, du, out + lane);
    hn::StoreU(c1, du, out + 16 + lane);
    hn::StoreU(c2, du, out + 32 + lane);
    hn::StoreU(c3, du, out + 48 + lane);
  }
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
