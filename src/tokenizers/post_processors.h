#pragma once
// What is put around the tokens of a text, or of two: the post-processors of tokenizer.json.

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "transformer/tokenizers/tokenizer.h"

namespace transformer {

// Tokens of one text, or special ones.
struct EncodedPart {
  Encoding encoding;
  std::string_view original;  // the text that its places are places of
};

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  // One part for each text comes in; all parts, in their order, come out.
  virtual std::vector<EncodedPart> process(std::vector<EncodedPart> parts, bool special_tokens) const = 0;
};
using PostProcessorPtr = std::unique_ptr<const PostProcessor>;

// Of a part of tokenizer.json; none for null. Error for what is not supported.
PostProcessorPtr read_post_processor(const nlohmann::json& part, int depth = 0);

void append(Encoding& to, Encoding&& from);

}  // namespace transformer
