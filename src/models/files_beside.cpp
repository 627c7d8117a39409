#include "models/shared/files_beside.h"

namespace transformer {
namespace {

constexpr const char* known[] = {"tokenizer.json",
                                 "tokenizer_config.json",
                                 "special_tokens_map.json",
                                 "added_tokens.json",
                                 "vocab.json",
                                 "target_vocab.json",
                                 "vocab.txt",
                                 "merges.txt",
                                 "source.spm",
                                 "target.spm",
                                 "spiece.model",
                                 "sentencepiece.bpe.model",
                                 "tokenizer.model",
                                 "source.model",
                                 "target.model",
                                 "chat_template.jinja",
                                 "generation_config.json",
                                 "preprocessor_config.json",
                                 "series.json",
                                 "modules.json",
                                 "sentence_bert_config.json",
                                 "1_Pooling/config.json"};

}  // namespace

std::vector<std::string> files_beside(const std::filesystem::path& folder) {
  std::vector<std::string> out;
  for (const char* name : known)
    if (std::filesystem::is_regular_file(folder / name)) out.emplace_back(name);
  return out;
}

}  // namespace transformer
