#pragma once
// What is done to a text before it is cut: the normalizers of tokenizer.json.

#include <memory>
#include <nlohmann/json.hpp>

#include "tokenizers/aligned_text.h"

namespace transformer {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void normalize(AlignedText& text) const = 0;
};
using NormalizerPtr = std::unique_ptr<const Normalizer>;

// Of a part of tokenizer.json; none for null. Error for what is not supported.
NormalizerPtr read_normalizer(const nlohmann::json& part, int depth = 0);

// SentencePiece's own rules, in its own format.
NormalizerPtr precompiled_normalizer(std::string charsmap);

enum class NormalForm : std::uint8_t { nfc, nfd, nfkc, nfkd };
void normalize_form(AlignedText& text, NormalForm form);

}  // namespace transformer
