#pragma once
// The files of sentence-transformers beside a checkpoint: how its vectors are made.

#include <filesystem>

#include "transformer/predict/embedder.h"

namespace transformer {

struct SentenceModules {
  EmbedOptions options = {};
  std::int64_t longest = 0;  // tokens of a text; 0: what the model takes
};
// Error names what would change the vectors and is not supported.
SentenceModules read_sentence_modules(const std::filesystem::path& folder);

}  // namespace transformer
