#pragma once
// The small vocabulary that kernels, ops and modules share.

#include <cstdint>

namespace transformer {

enum class Activation : std::uint8_t { none, relu, gelu, gelu_tanh, silu };
enum class NormKind : std::uint8_t { layer_norm, rms_norm };

// How the pairs of a head's dimensions that RoPE turns together are laid out:
// interleaved (0,1)(2,3)… as in the paper, or half_split (0,d/2)(1,d/2+1)… as in LLaMA's Hugging Face weights.
enum class RopePairs : std::uint8_t { interleaved, half_split };

}  // namespace transformer
