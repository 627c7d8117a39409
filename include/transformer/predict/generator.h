#pragma once
// A model that writes text, with all that its folder has for it: tokenizer, generation_config.json, chat template. Decoder-only
// (GPT-2, LLaMA, Mistral, Qwen2, Falcon) or with an encoder (T5, BART, Marian, the original Transformer).
//
//   Context ctx;
//   Generator generator = Generator::load(ctx, "gpt2");
//   std::cout << generator.generate(ctx, "Once upon a time", {.max_new_tokens = 40, .temperature = 0.7});
//
// or, with all that can be asked for and said,
//
//   GenerationConfig config = with_wishes(generator.config(), {.max_new_tokens = 40, .temperature = 0.7});
//   std::vector<std::vector<std::int32_t>> prompts{generator.encode("Once upon a time")};
//   auto found = generator.generate(ctx, prompts, config, {.seed = 1});
//   std::cout << found[0][0].text;

#include <iosfwd>

#include "transformer/chat/chat_template.h"
#include "transformer/generate/generate.h"
#include "transformer/models/model.h"
#include "transformer/tokenizers/tokenizer_pair.h"

namespace transformer {

// What a user asks for; what is not set stays as the model's folder has it.
struct GenerationWishes {
  std::optional<std::int64_t> max_new_tokens = {};
  std::optional<std::int64_t> min_new_tokens = {};
  std::optional<double> temperature = {};
  std::optional<std::int64_t> top_k = {};
  std::optional<double> top_p = {};
  std::optional<double> min_p = {};
  std::optional<double> repetition_penalty = {};
  std::optional<std::int64_t> no_repeat_ngram_size = {};
  std::optional<std::int64_t> beam = {};
  std::optional<double> length_penalty = {};
  std::optional<std::int64_t> num_return_sequences = {};
  std::vector<std::string> stop = {};

  static void visit(auto& self, auto&& field) {
    field("max_new_tokens", self.max_new_tokens, "tokens generated at most");
    field("min_new_tokens", self.min_new_tokens, "tokens generated at least");
    field("temperature", self.temperature, "draw tokens; below 1 is more certain, 0 takes the best one (greedy)");
    field("top_k", self.top_k, "draw from this many tokens (0: all)");
    field("top_p", self.top_p, "draw from the most probable tokens that together have this probability");
    field("min_p", self.min_p, "draw from tokens with at least this share of the best one's probability");
    field("repetition_penalty", self.repetition_penalty, "above 1: tokens that were there are less probable");
    field("no_repeat_ngram_size", self.no_repeat_ngram_size, "no sequence of this many tokens comes twice");
    field("beam", self.beam, "beam search that keeps so many hypotheses");
    field("length_penalty", self.length_penalty, "beam search: score = sum of log-probabilities / length ^ penalty");
    field("num_return_sequences", self.num_return_sequences, "sequences given for each prompt: draws, or the best of the beam");
    field("stop", self.stop, "texts that end the generation; they are not shown");
  }
};
// Who sets a temperature above 0, top_k, top_p or min_p wants tokens to be drawn; who sets temperature 0 wants the best one; who
// sets beam wants beam search: each ends what the folder says instead.
GenerationConfig with_wishes(GenerationConfig config, const GenerationWishes& wishes);

struct GeneratorOptions {
  // False: prompts and what is generated are token ids; no tokenizer is looked for, and every token of the model is possible.
  bool text = true;
  // A decoder with a table of positions goes on when the table is full: the older half of the text is forgotten (CausalView).
  bool slide = true;
  std::filesystem::path adapter = {};  // a folder, see models/lora.h
};

// A token of a text, and how probable it is behind those before it.
struct ReadToken {
  std::optional<float> score = {};    // log p; of the first token nothing is known
  std::vector<TokenScore> best = {};  // what is most probable in its place, best first
};

class Generator {
 public:
  // Opens a model's folder. With a Context of bfloat16 the weights take half the memory. Error when it is not a model that generates
  // (it says what it is for), or has no tokenizer though text is wanted.
  static Generator load(Context& ctx, const std::filesystem::path& folder, const GeneratorOptions& options = {});
  // The same of a model that is loaded already, from this folder: others may share it.
  static Generator open(std::shared_ptr<const Model> model, const std::filesystem::path& folder, const GeneratorOptions& options = {});

  const SequenceModel& model() const { return *view_; }
  const GenerationConfig& config() const { return config_; }  // what the folder says
  bool has_encoder() const { return encoder_; }
  std::int64_t context() const;  // tokens that a text may have: those of its table of positions, or that it was trained with; 0: not known
  const TokenizerPair& tokenizers() const { return tokenizers_; }  // of what is read and what is written; null without text
  const std::optional<ChatTemplate>& chat() const { return chat_; }

  // A prompt as the model reads it, with the special tokens that its tokenizer puts around a text. An empty text is the start
  // token, where there is one.
  std::vector<std::int32_t> encode(std::string_view text) const;
  // A conversation, up to where the assistant's answer begins. Error when the model has no chat template.
  std::vector<std::int32_t> encode_chat(const std::vector<ChatMessage>& messages, ChatOptions options = {}) const;

  // What tokens add to the text of their prompt, as they come.
  TextStream text_stream(std::span<const std::int32_t> prompt) const;

  // As transformer::generate. Generated::text and GeneratedToken::text are what a sequence adds to its prompt.
  std::vector<std::vector<Generated>> generate(Context& ctx, std::span<const std::vector<std::int32_t>> prompts,
                                               const GenerationConfig& config, GenerateOptions options = {}) const;
  // What goes on from this text (with an encoder: what answers it): the first sequence, without the prompt.
  std::string generate(Context& ctx, std::string_view prompt, const GenerationWishes& wishes = {},
                       const GenerateOptions& options = {}) const;

  // How probable each token of a text is, with so many of the most probable ones in its place. Error of a model with an encoder, which does
  // not go on from the text that it reads.
  std::vector<ReadToken> read(Context& ctx, std::span<const std::int32_t> ids, std::size_t alternatives = 0) const;

  // What is odd about a prompt, for people: "has 3000 tokens, …"; empty when nothing is. It was cut (GeneratorOptions::slide), is
  // longer than what the model was trained with, or is mostly unknown to its vocabulary.
  std::string odd_about(std::span<const std::int32_t> prompt) const;

 private:
  Generator() = default;
  const Tokenizer& source_tokenizer() const;  // Error without one

  std::shared_ptr<const Model> weights_;
  std::shared_ptr<const SequenceModel> view_;
  TokenizerPair tokenizers_;
  GenerationConfig config_;
  std::optional<ChatTemplate> chat_;
  std::int64_t vocabulary_ = 0;  // tokens that can be generated
  bool encoder_ = false, slide_ = true;
  bool frames_ = true;  // the tokenizer puts special tokens around a text
};

// Prompts in, what is generated out.
struct PromptStream {
  LineSource next;                                                   // prompts, until it says false
  std::function<bool()> ready = {};                                  // is the next one there? none: it is
  std::function<std::vector<std::int32_t>(const std::string&)> ids;  // what the model reads of a prompt
  std::int64_t batch = 16;                                           // prompts that are computed together at most
  std::function<bool()> stopped = {};                                // true: end what is under way, and read no more
};
// Writes what is generated for each prompt as it comes, in the order of the prompts, each sequence closed by a line end and each
// piece flushed: text, or ids with spaces between them where the generator has no text. Error when writing fails.
void generate_stream(Context& ctx, const Generator& generator, const PromptStream& prompts, std::ostream& out,
                     const GenerationConfig& config, const GenerateOptions& options = {});

// "464 3290" → ids. Error names what is not a number.
std::vector<std::int32_t> parse_ids(std::string_view text);

}  // namespace transformer
