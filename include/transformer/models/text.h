#pragma once
// Encoders and decoders of text: token embedding → stack → head. BERT, RoBERTa, DistilBERT, GPT-2, LLaMA, Mistral, Qwen2 and
// Falcon are settings of this one model; their files give the settings and the names.

#include <optional>
#include <string>
#include <vector>

#include "transformer/models/label_loss.h"
#include "transformer/models/model.h"
#include "transformer/nn/embedding.h"
#include "transformer/nn/stack.h"

namespace transformer {

enum class TextTask : std::uint8_t {
  hidden,           // the stack's output, and pooler_output where there is a pooler
  causal_lm,        // the next token
  masked_lm,        // the token that was there
  sequence_labels,  // a class of the whole text
  token_labels,     // a class of each token
};

struct TextConfig {
  StackConfig stack = {};
  std::int64_t vocabulary = 0;
  std::int64_t padding = -1;  // the id whose row learns nothing from being looked up (torch's padding_idx)

  std::int64_t positions = 0;           // rows of a learned table, 0: none
  std::int64_t position_offset = 0;     // row of the first position
  bool positions_skip_padding = false;  // RoBERTa: tokens are counted from the ids, padding keeps row position_offset - 1
  std::int64_t max_positions = 0;       // the most tokens that a text should have
  std::int64_t types = 0;               // rows of the table of token types, 0: none
  bool types_are_tokens = false;        // GPT-2: types are looked up among the tokens
  bool embedding_norm = false;
  float embedding_dropout = 0.0F;
  bool falcon_alibi = false;  // positions are a bias on the scores by the key's place, rounded to bfloat16 as there

  TextTask task = TextTask::hidden;
  bool tied = true;  // the output projection of a language model is the token embedding
  bool output_bias = false;
  bool unused_bias = false;                // masked_lm, not tied: the checkpoint has a second bias that is not used
  std::optional<Activation> transform;     // masked_lm: a layer and a norm before the output
  bool pooler = false;                     // a layer on the first token
  bool pooler_relu = false;                // with relu instead of tanh
  bool last_token = false;                 // sequence_labels: of the last token instead of the first
  std::optional<std::int64_t> padding_id;  // which tells the last token
  std::int64_t labels = 0;
  ProblemType problem = ProblemType::by_labels;
  float pooler_dropout = 0.0F, head_dropout = 0.0F;  // before the pooler, before the output
};

// What goes into the stack, packed.
struct TextInput {
  Tensor ids = {};  // [tokens]
  Sequences sequences = {};
  Tensor positions = {};     // int32 [tokens]: rows of the learned table or places for RoPE; by default counted in each sequence
  std::int64_t longest = 0;  // with positions: one more than the largest
  Tensor types = {};         // [tokens]; by default 0
  Tensor bias = {};          // mask or bias on the scores, see StackInput
  KVCache* cache = nullptr;  // the tokens go on after those in it
};

// Texts on the host, one behind the other without padding.
struct PackedTexts {
  std::vector<std::int64_t> ids = {}, lengths = {};  // all tokens, and how many of them each text has
  std::vector<std::int64_t> types = {};              // of the tokens: which of two texts; empty: one

  void add(auto&& text) { ids.insert(ids.end(), text.begin(), text.end()), lengths.push_back(std::ssize(text)); }
  std::int64_t count() const { return std::ssize(lengths); }
};

struct TextEmbedder {
  TokenEmbedding tokens;
  std::optional<TokenEmbedding> positions, types;
  std::optional<Norm> norm;
  float dropout = 0.0F;
  std::int64_t offset = 0;
  bool types_are_tokens = false;

  explicit TextEmbedder(const TextConfig& config);
  Tensor operator()(Context& ctx, const TextInput& input) const;  // [tokens, d]
  void visit(auto&& f) { f("tokens", tokens), f("positions", positions), f("types", types), f("norm", norm); }
};

struct TextHead {
  std::optional<Linear> pooler, transform, output;  // output is absent where the token embedding is used
  std::optional<Norm> transform_norm;
  Parameter bias;    // of the output where the token embedding is used
  Parameter unused;  // BERT has a second bias, which an output of its own does not use

  explicit TextHead(const TextConfig& config);
  void visit(auto&& f) {
    f("pooler", pooler), f("transform", transform), f("transform_norm", transform_norm), f("output", output);
    f("bias", bias), f("unused", unused);
  }
};

class TextModel final : public Model {
 public:
  TextModel(const TextConfig& config, std::vector<NameRule> rules, LoadRules load_rules);

  const TextConfig& text() const { return config_; }
  const TextEmbedder& embedder() const { return embedder_; }
  Purpose purpose() const override;
  NamedTensors compute(Context& ctx, const NamedTensors& inputs, const RunOptions& options) const override;
  std::vector<NamedParameter> parameters() override { return transformer::parameters(*this); }
  std::vector<NamedLinear> linears() override;  // all but a language model's output, which its loss uses without its layer
  std::vector<Binding> bindings() override { return bind_names(parameters(), rules_); }
  LoadRules load_rules() const override { return load_rules_; }

  // The two steps of a language model, packed: for generation.
  Tensor hidden(Context& ctx, const TextInput& input, StackTrace* trace = nullptr) const;  // [tokens, d]
  Tensor logits(Context& ctx, const Tensor& hidden) const;                                 // [rows, vocabulary], or labels
  // Packed texts as they go into the stack, and what heads say of them: the labels of each text, or of each token where tokens are
  // labelled, [texts or tokens, labels]; the pooler's vectors [texts, d]. Error for a model without such a head.
  TextInput input_of(Context& ctx, const PackedTexts& texts) const;
  Tensor label_logits(Context& ctx, const PackedTexts& texts) const;
  Tensor pooler_output(Context& ctx, const PackedTexts& texts) const;
  bool has_pooler() const { return config_.task == TextTask::hidden && head_.pooler; }
  // A language model's mean loss, packed: targets [tokens] are what should be said at each place (a decoder: the next token), or
  // -100 for nothing. For training: unlike run(), which has Hugging Face's inputs, it lets the last token of a text have a target.
  Tensor loss(Context& ctx, const TextInput& input, const Tensor& targets) const;

  void visit(auto&& f) { f("embedder", embedder_), f("stack", stack_), f("head", head_); }

 private:
  struct Batch;  // the padded inputs, packed
  bool labels_at_padding(const NamedTensors& inputs, const Tensor& mask) const;
  Batch read(Context& ctx, const NamedTensors& inputs) const;
  Tensor transformed(Context& ctx, const Tensor& hidden) const;
  std::vector<std::int64_t> last_tokens(const std::vector<std::int64_t>& ids, const Sequences& sequences) const;  // their rows, if asked
  Tensor pooled(Context& ctx, const Tensor& hidden, const Sequences& sequences, const std::vector<std::int64_t>& last) const;  // [texts, d]
  Tensor token_loss(Context& ctx, const Tensor& hidden, const Tensor& labels, const Batch& batch) const;
  Tensor language_loss(Context& ctx, const Tensor& hidden, const Tensor& targets) const;

  TextConfig config_;
  TextEmbedder embedder_;
  Stack stack_;
  TextHead head_;
  std::vector<NameRule> rules_;
  LoadRules load_rules_;
};

}  // namespace transformer
