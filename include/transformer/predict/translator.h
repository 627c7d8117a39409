#pragma once
// A translator: a trained model with its tokenizers, from text to text.
//
//   Context ctx;
//   Translator translator = Translator::load(ctx, "model");
//   std::string german = translator.translate(ctx, "A man is cooking.");

#include <filesystem>
#include <functional>
#include <iosfwd>

#include "transformer/generate/search.h"
#include "transformer/models/model.h"
#include "transformer/predict/text_report.h"
#include "transformer/tokenizers/tokenizer_pair.h"

namespace transformer {

struct Translation {
  std::string text = {};
  Hypothesis hypothesis = {};             // its tokens, scores and alignment
  std::vector<std::int32_t> source = {};  // what was translated, as the model read it: the columns of the alignment
};

// How translate_lines writes.
struct LineOptions {
  bool scores = false;
  std::int64_t chunk_lines = 4096;

  static void visit(auto& self, auto&& field) {
    field("scores", self.scores, "write the score behind each translation");
    field("chunk_lines", self.chunk_lines, "lines read before the first of them is written, if they are there");
  }
};

// The tokenizers of a translator's folder, for these languages where it is a model of many; generation_config.json may name the target's.
TokenizerPair translator_tokenizers(const std::filesystem::path& folder, Languages languages = {});
// The special tokens of a target as the model in that folder has them: generation_config.json, or config.json, wins over its
// tokenizer.
SpecialTokens target_tokens(const TokenizerPair& tokenizers, const std::filesystem::path& folder);

class Translator {
 public:
  // Error when the tokenizers do not fit the model's vocabularies.
  Translator(std::shared_ptr<const EncoderDecoder> model, TokenizerPair tokenizers);
  // The same with other special tokens of the target than its tokenizer says.
  Translator(std::shared_ptr<const EncoderDecoder> model, TokenizerPair tokenizers, const SpecialTokens& target);
  // A model's folder: config.json, model.safetensors and its tokenizers, of any family with an encoder and a decoder: Marian,
  // Pegasus, T5, BART, the original; mBART, M2M100 and NLLB with their languages. In bfloat16 the weights take half the memory.
  static Translator load(Context& ctx, const std::filesystem::path& folder, const Languages& languages = {},
                         const std::filesystem::path& adapter = {});
  // The same of a model that is loaded already, from this folder: others may share it.
  static Translator open(std::shared_ptr<const Model> model, const std::filesystem::path& folder, const Languages& languages = {});

  std::string translate(Context& ctx, const std::string& text, const GenerationConfig& config = {.num_beams = 5}) const;
  std::vector<std::string> translate(Context& ctx, std::span<const std::string> texts, const GenerationConfig& config = {.num_beams = 5},
                                     const SearchOptions& options = {}) const;
  // The num_return_sequences best translations of each text, best first, with all that is known about them. A text without tokens has one,
  // empty.
  std::vector<std::vector<Translation>> translate_n_best(Context& ctx, std::span<const std::string> texts,
                                                         const GenerationConfig& config = {.num_beams = 5},
                                                         const SearchOptions& options = {}, TextReport* report = nullptr) const;

  // Lines in, lines out, in order: one for each, an empty one for an empty one, whatever bytes they hold. Reads until next()
  // says false; at most chunk_lines at a time, and no more than are there when ready() says that the next one is not. With
  // several sequences the lines are "number ||| translation ||| score", so many for each line in; otherwise the score stands behind " ||| "
  // when asked for. So does the alignment: "source tokens ||| target tokens ||| 0-0 1-2 …", pairs source-target of their numbers
  // from 0, for each target token the source token that it attends to most. Error when writing fails.
  TextReport translate_lines(Context& ctx, const LineSource& next, std::ostream& out, const GenerationConfig& config = {.num_beams = 5},
                             const SearchOptions& options = {}, const LineOptions& lines = {},
                             const std::function<bool()>& ready = {}) const;

  // For who searches himself: the ids of a text as the view reads them. The view must not outlive this object.
  std::vector<std::int32_t> encode(const std::string& text, TextReport* report = nullptr, LongTexts long_texts = LongTexts::cut) const;
  EncoderDecoderView view() const;

  const EncoderDecoder& model() const { return *model_; }
  const TokenizerPair& tokenizers() const { return tokenizers_; }

 private:
  // The ids of a text as the model reads it, but for the end token; at most `longest`.
  std::vector<std::int32_t> source_ids(const std::string& text, std::size_t longest, std::int64_t& replaced, std::int64_t& cut) const;
  bool complete() const;  // does the source's tokenizer say what stands around a text?

  std::shared_ptr<const EncoderDecoder> model_;
  TokenizerPair tokenizers_;
  SpecialTokens target_;
  TokenFrame frame_;         // around every source, but for the end token
  std::int32_t source_eos_;  // behind every source; -1: none
};

}  // namespace transformer
