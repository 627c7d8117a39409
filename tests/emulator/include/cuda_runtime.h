#pragma once
// CUDA's runtime without a GPU, as far as src/backend/cuda uses it: found in the place of the toolkit's header of this name, so that a C++
// compiler takes the backend as it is. What is not here does not compile, and is to be added together with what it means.

#include "emulator/device.h"
#include "emulator/host.h"
