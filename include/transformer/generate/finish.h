#pragma once

#include "transformer/io/config.h"

namespace transformer {

// Why a sequence ends.
enum class FinishReason : std::uint8_t {
  eos,     // the model gave an end token
  stop,    // a stop string came, or the caller said so
  length,  // it is as long as it may be
};
inline EnumNames<FinishReason> names(FinishReason) {
  return {{FinishReason::eos, "eos"}, {FinishReason::stop, "stop"}, {FinishReason::length, "length"}};
}

}  // namespace transformer
