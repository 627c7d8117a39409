#pragma once
// A tokenizer in the parts that tokenizer.json has: added tokens are found, the rest is normalised, cut, given to a model, and
// surrounded by special tokens.

#include <map>
#include <optional>
#include <string>

#include "tokenizers/added_tokens.h"
#include "tokenizers/decoders.h"
#include "tokenizers/post_processors.h"
#include "tokenizers/pre_tokenizers.h"
#include "tokenizers/token_model.h"

namespace transformer {

// The languages of a model for many: their tokens, and where one stands.
struct LanguageTokens {
  std::map<std::string, std::string> tokens = {};  // from the names of the languages: "en" → "__en__"
  bool first = true;                               // "language A </s>"; otherwise "A </s> language"
  std::string source = {}, target = {};            // what the files say; may be empty
};

struct Pipeline {
  NormalizerPtr normalizer = nullptr;
  PreTokenizerPtr pre_tokenizer = nullptr;
  TokenModelPtr model = nullptr;
  PostProcessorPtr post_processor = nullptr;
  Decoder decoder = nullptr;
  AddedTokens added = {};
  SpecialTokens special = {-1, -1, -1, -1};
  std::optional<LanguageTokens> languages = {};
  std::map<std::string, std::string> files = {};  // what it was read from: names and bytes
  std::string main_file = {};                     // the one of them that is enough alone; "" when none is
};

TokenizerPtr make_tokenizer(Pipeline pipeline);
// The parts of a tokenizer that make_tokenizer made; null for others.
const Pipeline* pipeline_of(const Tokenizer& tokenizer);
// The same tokenizer, which make_tokenizer made, with other tokens around its texts.
TokenizerPtr with_frame(const Tokenizer& tokenizer, PostProcessorPtr frame);

// The parts of a tokenizer.json; all but the special tokens and the files.
Pipeline read_pipeline(const nlohmann::json& file);

}  // namespace transformer
