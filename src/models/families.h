#pragma once
// The rows of the registry, each in its family's own file.

#include "transformer/models/model.h"

namespace transformer::families {

extern const Family bart, classic, marian, t5;
extern const Family bert, distilbert, falcon, gpt2, llama, mistral, qwen2, roberta;
extern const Family deit, patchtst, swin, vit;

}  // namespace transformer::families
