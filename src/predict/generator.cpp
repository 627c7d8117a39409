#include "transformer/predict/generator.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "core/shared/top_k.h"
#include "generate/shared/causal.h"
#include "generate/shared/loop.h"
#include "models/shared/purpose.h"
#include "predict/shared/text_reader.h"
#include "transformer/core/error.h"
#include "transformer/models/encoder_decoder_model.h"
#include "transformer/ops/shape.h"
#include "transformer/ops/softmax.h"

namespace transformer {
namespace {

// The tokens of what is generated: those of generation_config.json, or else of the tokenizer, if there is one.
SpecialTokens special_tokens(const GenerationConfig& config, const Tokenizer* tokenizer) {
  SpecialTokens special = tokenizer != nullptr ? tokenizer->special_tokens() : SpecialTokens{.pad = -1, .unk = -1, .bos = -1, .eos = -1};
  if (config.bos_token_id) special.bos = *config.bos_token_id;
  if (config.decoder_start_token_id) special.bos = *config.decoder_start_token_id;
  if (!config.eos_token_id.empty()) special.eos = config.eos_token_id.front();
  if (config.pad_token_id) special.pad = *config.pad_token_id;
  return special;
}

// What tokens say in the middle of a text. A prompt of a decoder is text that goes on: what the tokenizer does at the beginning
// of a text, such as dropping a space, it must not do again.
class Continuation {
 public:
  Continuation(const TokenizerPtr& tokenizer, std::span<const std::int32_t> prompt) : stream_(tokenizer) {
    std::vector<std::int32_t> known;
    for (std::int32_t id : prompt)
      if (id >= 0 && id < tokenizer->size()) known.push_back(id);
    for (std::int32_t id : known) shown_ += stream_.push(id).size();
    before_ = tokenizer->decode(known);
  }

  std::string next(std::int32_t id) {
    std::string text = id < 0 ? stream_.finish() : stream_.push(id);
    // What of the prompt was held back comes now.
    if (shown_ < before_.size() && !text.empty()) {
      const std::string_view rest = std::string_view(before_).substr(shown_);
      if (text.starts_with(rest)) text.erase(0, rest.size());
      shown_ = before_.size();
    }
    return text;
  }

 private:
  StreamDecoder stream_;
  std::string before_;     // the prompt's text
  std::size_t shown_ = 0;  // of it, in bytes
};

}  // namespace

GenerationConfig with_wishes(GenerationConfig config, const GenerationWishes& w) {
  auto set = [](auto& field, const auto& wish) {
    if (wish) field = *wish;
  };
  set(config.max_new_tokens, w.max_new_tokens);
  set(config.min_new_tokens, w.min_new_tokens);
  set(config.temperature, w.temperature);
  set(config.top_k, w.top_k);
  set(config.top_p, w.top_p);
  set(config.min_p, w.min_p);
  set(config.repetition_penalty, w.repetition_penalty);
  set(config.no_repeat_ngram_size, w.no_repeat_ngram_size);
  set(config.num_beams, w.beam);
  set(config.length_penalty, w.length_penalty);
  set(config.num_return_sequences, w.num_return_sequences);
  if (!w.stop.empty()) config.stop_strings = w.stop;
  const bool best = w.temperature && *w.temperature == 0.0;
  const bool draw = !best && (w.temperature || w.top_k || w.top_p || w.min_p);
  if (best || w.beam) config.do_sample = false;
  if (draw) config.do_sample = true;
  if ((best || draw) && !w.beam) config.num_beams = 1;
  return config;
}

Generator Generator::load(Context& ctx, const std::filesystem::path& folder, const GeneratorOptions& options) {
  return open(load_model(ctx, folder, {.dtype = ctx.precision(), .adapter = options.adapter}), folder, options);
}

Generator Generator::open(std::shared_ptr<const Model> model, const std::filesystem::path& folder, const GeneratorOptions& options) {
  Generator g;
  g.slide_ = options.slide;
  g.weights_ = model;
  const auto* text = dynamic_cast<const TextModel*>(model.get());
  const auto* seq2seq = dynamic_cast<const EncoderDecoderModel*>(model.get());
  if (const Purpose purpose = model->purpose(); purpose != Purpose::next_words && purpose != Purpose::another_text)
    fail(folder.string(), "{} does not generate text; {}", architecture_of(*model), describe(purpose));

  g.encoder_ = seq2seq != nullptr;
  g.config_ = load_generation_config(folder);
  if (options.text) {
    if (!has_tokenizers(folder))
      fail(folder.string(),
           "there is no tokenizer (tokenizer.json, tokenizer.model, vocab.json and merges.txt ...): put it there, or use token ids");
    g.tokenizers_ = load_tokenizers(folder);
    g.chat_ = ChatTemplate::load(folder);
  }
  const Tokenizer* target = g.tokenizers_.target.get();
  const SpecialTokens special = special_tokens(g.config_, target);
  if (g.config_.eos_token_id.empty() && special.eos >= 0) g.config_.eos_token_id = {special.eos};
  const std::int64_t vocabulary = text != nullptr ? text->text().vocabulary : seq2seq->network.target_vocabulary();
  const std::int64_t possible = g.vocabulary_ = target != nullptr ? std::min(target->size(), vocabulary) : vocabulary;
  if (text != nullptr) {
    g.view_ = std::make_shared<CausalView>(*text, special, possible, options.slide);
  } else {
    g.frames_ = g.tokenizers_.source == nullptr || g.tokenizers_.source->kind() == "huggingface";
    g.view_ = std::make_shared<EncoderDecoderView>(seq2seq->network, g.frames_ ? -1 : g.tokenizers_.source->eos(), special, possible);
  }
  return g;
}

const Tokenizer& Generator::source_tokenizer() const {
  if (tokenizers_.source == nullptr) fail("generate", "this generator was opened without text: give token ids");
  return *tokenizers_.source;
}

std::vector<std::int32_t> Generator::encode(std::string_view text) const {
  const Tokenizer& tokenizer = source_tokenizer();
  std::vector<std::int32_t> ids = frames_ ? tokenizer.tokenize(text).ids : tokenizer.encode(text);
  if (ids.empty() && !encoder_ && view_->special().bos >= 0) ids = {view_->special().bos};
  return ids;
}

std::vector<std::int32_t> Generator::encode_chat(const std::vector<ChatMessage>& messages, ChatOptions options) const {
  const Tokenizer& tokenizer = source_tokenizer();
  if (!chat_)
    fail("chat", "the model has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json): give it plain text");
  options.add_generation_prompt = true;
  return tokenizer.encode(chat_->render(messages, options));  // the template writes the special tokens itself
}

TextStream Generator::text_stream(std::span<const std::int32_t> prompt) const {
  const auto text = std::make_shared<Continuation>(tokenizers_.target, encoder_ ? std::span<const std::int32_t>() : prompt);
  return [text](std::int32_t id) { return text->next(id); };
}

std::int64_t Generator::context() const {
  if (const std::int64_t table = longest_text(*weights_); table > 0) return table;
  const auto* text = dynamic_cast<const TextModel*>(weights_.get());
  return text != nullptr ? text->text().max_positions : 0;
}

std::vector<std::vector<Generated>> Generator::generate(Context& ctx, std::span<const std::vector<std::int32_t>> prompts,
                                                        const GenerationConfig& config, GenerateOptions options) const {
  if (tokenizers_.target != nullptr && !options.text)
    options.text = [this, prompts](std::size_t prompt) { return text_stream(prompts[prompt]); };
  return transformer::generate(ctx, *view_, prompts, config, options);
}

std::string Generator::generate(Context& ctx, std::string_view prompt, const GenerationWishes& wishes,
                                const GenerateOptions& options) const {
  GenerationConfig config = with_wishes(config_, wishes);
  if (!config.max_new_tokens && !config.max_length) config.max_new_tokens = 256;
  const std::vector<std::int32_t> ids = encode(prompt);
  return generate(ctx, std::span(&ids, 1), config, options).front().front().text;
}

std::vector<ReadToken> Generator::read(Context& ctx, std::span<const std::int32_t> ids, std::size_t alternatives) const {
  const auto* text = dynamic_cast<const TextModel*>(weights_.get());
  if (text == nullptr) fail("generate", "a model with an encoder does not say how probable the text is that it reads");
  std::vector<ReadToken> out(ids.size());
  if (ids.size() < 2) return out;
  const Inference inference(ctx);
  const std::int64_t count = std::ssize(ids) - 1;
  const Tensor hidden = text->hidden(ctx,
                                     {.ids = Tensor::from<std::int32_t>(ctx, {count}, ids.first(ids.size() - 1)),
                                      .sequences = Sequences(std::vector<std::int64_t>{count})});  // [tokens, d]
  // Part by part: all logits of a long text would take more memory than the model.
  constexpr std::int64_t part = 64;
  std::vector<Scored> best;
  for (std::int64_t begin = 0; begin < count; begin += part) {
    const Tensor logits = text->logits(ctx, hidden.row_block(begin, std::min(part, count - begin)));
    const Tensor log_p = log_softmax(ctx, cast(ctx, logits.column_block(0, vocabulary_), DType::float32)).to_host();
    for (std::int64_t row = 0; row < log_p.rows(); ++row) {
      const auto at = static_cast<std::size_t>(begin + row + 1);
      const std::span<const float> scores(log_p.data<float>() + row * log_p.row_stride(), static_cast<std::size_t>(vocabulary_));
      out[at].score = ids[at] < vocabulary_ ? scores[static_cast<std::size_t>(ids[at])] : -std::numeric_limits<float>::infinity();
      if (alternatives > 0) top_k(scores, alternatives, best);
      for (const Scored& s : best) out[at].best.push_back({s.id, s.value});
    }
  }
  return out;
}

std::string Generator::odd_about(std::span<const std::int32_t> prompt) const {
  const auto* text = dynamic_cast<const TextModel*>(weights_.get());
  const std::int64_t tokens = std::ssize(prompt), table = longest_text(*weights_),
                     trained = text != nullptr ? text->text().max_positions : 0;
  if (slide_ && text != nullptr && table > 0 && tokens > table)
    return fmt::format("has {} tokens and the model takes {}: the first {} are left out", tokens, table, tokens - table);
  if (table == 0 && trained > 0 && tokens > trained)
    return fmt::format("has {} tokens, more than the {} that the model was trained with: what comes may make little sense", tokens,
                       trained);
  if (tokenizers_.source != nullptr && mostly_unknown(*tokenizers_.source, prompt))
    return "has mostly tokens that are unknown to the model: was it trained on another language?";
  return {};
}

std::vector<std::int32_t> parse_ids(std::string_view text) {
  std::vector<std::int32_t> ids;
  for (std::size_t begin = 0; (begin = text.find_first_not_of(" \t\r\n", begin)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.size(), text.find_first_of(" \t\r\n", begin));
    const std::string_view word = text.substr(begin, end - begin);
    std::int32_t id = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), id);
    if (read.ec != std::errc() || read.ptr != word.data() + word.size())
      fail("ids", "'{}' is not the number of a token: expected numbers with spaces between them", word);
    ids.push_back(id);
    begin = end;
  }
  return ids;
}

}  // namespace transformer
