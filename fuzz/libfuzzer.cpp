// One program of libFuzzer for the target that FUZZ_TARGET names.
#include "targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { return transformer::fuzz::FUZZ_TARGET(data, size); }
