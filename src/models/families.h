#pragma once
// The rows of the registry, each in its family's own file.

#include "transformer/models/model.h"

namespace transformer::families {

// extern const Family gpt2;

}  // namespace transformer::families
