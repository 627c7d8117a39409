#include "transformer/explain/explainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "explain/seen.h"
#include "generate/shared/loop.h"
#include "models/shared/purpose.h"
#include "predict/shared/text_reader.h"
#include "transformer/models/encoder_decoder_model.h"
#include "transformer/models/text.h"
#include "transformer/models/vit.h"
#include "transformer/ops/shape.h"

namespace transformer {

Tensor on_host(Context& ctx, const Tensor& x) { return x.defined() ? cast(ctx, x.detach(), DType::float32).to_host() : Tensor(); }

SeenStack seen_stack(Context& ctx, std::string name, std::string side, const StackConfig& config, const StackTrace& trace) {
  SeenStack out{.name = std::move(name), .side = std::move(side), .config = config};
  for (const Tensor& x : trace.hidden_states) out.hidden.push_back(on_host(ctx, x));
  for (const Tensor& x : trace.feed_forwards) out.feed_forwards.push_back(on_host(ctx, x));
  for (const Tensor& x : trace.projections) out.projections.push_back(on_host(ctx, x));
  out.bias = on_host(ctx, trace.bias), out.relative_bias = on_host(ctx, trace.relative_bias);
  return out;
}

SeenAttention seen_attention(Context& ctx, std::string name, std::string rows, std::string columns, bool masked,
                             const std::vector<Tensor>& layers) {
  SeenAttention out{.name = std::move(name), .rows = std::move(rows), .columns = std::move(columns), .masked = masked};
  for (const Tensor& x : layers) out.layers.push_back(on_host(ctx, x));
  return out;
}

SeenChoice choice_of(const Label& label, const Classifier& classifier) {
  const auto score = static_cast<double>(label.score);
  const bool number = classifier.gives_numbers();
  return {label.id, label.name, number ? score : std::log(std::max(score, std::numeric_limits<double>::min())), score};
}

namespace {

constexpr const char* explain = "explain";

Tensor ids_tensor(Context& ctx, std::span<const std::int32_t> ids) {
  return Tensor::from<std::int64_t>(ctx, {std::ssize(ids)}, std::vector<std::int64_t>(ids.begin(), ids.end()));
}

void check_ids(std::span<const std::int32_t> ids, std::int64_t vocabulary, std::int64_t longest, const char* what) {
  if (ids.empty()) fail(explain, "{} has no tokens: there is nothing to look at", what);
  if (std::ssize(ids) > longest) fail(explain, "{} has {} tokens: at most {} are looked at; give less text", what, ids.size(), longest);
  for (const std::int32_t id : ids)
    if (id < 0 || id >= vocabulary) fail(explain, "{} has the token {}: the vocabulary has {}", what, id, vocabulary);
}

// The table that ids are looked up in, and what is added for their places.
void add_vectors(Context& ctx, SeenStack& stack, const EmbeddedStack& side, const TokenEmbedding& table, const Tensor& ids,
                 const Sequences& sequences) {
  const Tensor tokens = table(ctx, ids), zeros = Tensor::zeros(ctx, tokens.shape(), tokens.dtype());
  stack.tokens = on_host(ctx, tokens);
  const PositionKind kind = side.positions.kind;
  if (side.token_positions) stack.positions = on_host(ctx, (*side.token_positions)(ctx, zeros, ids, sequences, {}));
  else if (kind == PositionKind::sinusoidal || kind == PositionKind::sinusoidal_halves || kind == PositionKind::learned)
    stack.positions = on_host(ctx, side.positions(ctx, zeros, sequences));
}

}  // namespace

Explainer::Explainer(std::shared_ptr<const Model> model, const std::filesystem::path& folder) : model_(std::move(model)) {
  const Purpose purpose = model_->purpose();
  const bool words = has_tokenizers(folder);
  if (purpose == Purpose::another_text && words) {
    translator_ = Translator::open(model_, folder);
    tokenizers_ = translator_->tokenizers();
  } else if (words) {
    tokenizers_ = load_tokenizers(folder);
  }
  const bool pictures = purpose == Purpose::image_labels || purpose == Purpose::image_vectors,
             text_labels = purpose == Purpose::text_labels || purpose == Purpose::token_labels;
  if (pictures && std::filesystem::exists(folder / "preprocessor_config.json")) processor_ = ImageProcessor::load(folder);
  if ((text_labels && words) || (purpose == Purpose::image_labels && processor_)) classifier_ = Classifier::open(model_, folder);
  if (purpose == Purpose::forecast) forecaster_ = Forecaster::open(model_, folder);
}

Explainer Explainer::load(Context& ctx, const std::filesystem::path& folder, const std::filesystem::path& adapter) {
  return {load_model(ctx, folder, {.dtype = ctx.precision(), .adapter = adapter}), folder};
}

std::string Explainer::kind() const {
  if (dynamic_cast<const TextModel*>(model_.get()) != nullptr) return "text";
  if (dynamic_cast<const EncoderDecoderModel*>(model_.get()) != nullptr) return "translation";
  return dynamic_cast<const PatchTSTModel*>(model_.get()) != nullptr ? "series" : "image";
}

Explanation Explainer::of_kind(std::string_view asked) const {
  const std::string ours = kind();
  if (ours != asked && !(asked == "text" && ours == "translation"))
    fail(explain, "{} takes {}, not {}", architecture_of(*model_),
         ours == "series"      ? "a series"
             : ours == "image" ? "an image"
                               : "a text",
         asked == "series"      ? "a series"
             : asked == "image" ? "an image"
                                : "a text");
  return {.kind = ours, .architecture = architecture_of(*model_), .purpose = std::string(name_of(model_->purpose()))};
}

std::vector<SeenToken> Explainer::seen_tokens(const Tokenizer* tokenizer, std::span<const std::int32_t> ids) const {
  std::vector<SeenToken> out;
  for (const std::int32_t id : ids) {
    const bool known = tokenizer != nullptr && id >= 0 && id < tokenizer->size();
    SeenToken token{.id = id, .token = known ? tokenizer->piece(id) : std::to_string(id)};
    token.special = known && tokenizer->is_special(id);
    if (known && !token.special) token.text = tokenizer->decode({&id, 1}, false);
    // Part of a character, or nothing but what the tokenizer puts between words: as the vocabulary has it.
    if (token.text.empty() || token.text.find("\xEF\xBF\xBD") != std::string::npos) token.text = token.token;
    out.push_back(std::move(token));
  }
  return out;
}

std::vector<SeenChoice> Explainer::choices(std::span<const float> logits, const Tokenizer* tokenizer, std::int64_t top) const {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](std::int32_t i) { return logits[static_cast<std::size_t>(i)]; };
  const auto count = static_cast<std::ptrdiff_t>(std::clamp<std::int64_t>(top, 1, std::ssize(logits)));
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](std::int32_t a, std::int32_t b) { return at(a) > at(b) || (at(a) == at(b) && a < b); });
  const double largest = static_cast<double>(at(order.front()));
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  order.resize(static_cast<std::size_t>(count));
  std::vector<SeenChoice> out;
  for (const SeenToken& token : seen_tokens(tokenizer, order)) {
    const auto logit = static_cast<double>(at(static_cast<std::int32_t>(token.id)));
    out.push_back({token.id, token.text, logit, std::exp(logit - largest) / sum});
  }
  return out;
}

Explanation Explainer::text(Context& ctx, const std::string& text, const ExplainOptions& options) const {
  Explanation kind = of_kind("text");
  if (tokenizers_.source == nullptr) fail(explain, "the model's folder has no tokenizer: put it there, or give tokens as ids");
  if (kind.kind == "text") {
    const Encoding e =
        TextReader(tokenizers_.source, longest_text(*model_), LongTexts::refuse).read(ctx, std::span(&text, 1), nullptr).front();
    Explanation out = plain(ctx, e.ids, options);
    if (kind.purpose == "text_labels") {
      SeenPrediction& labels = out.predictions.emplace_back(SeenPrediction{.side = "text"});
      const std::vector<Label> found = classifier_->texts(ctx, std::span(&text, 1), {.top_k = 0}).front();
      for (const Label& label : found) labels.choices.push_back(choice_of(label, *classifier_));
    }
    return out;
  }
  static_cast<void>(translator_->encode(text, nullptr, LongTexts::refuse));
  const Inference inference(ctx);
  const std::int64_t beams = std::clamp<std::int64_t>(options.beams, 1, 16);
  const auto found = translator_->translate_n_best(ctx, std::span(&text, 1), {.num_beams = beams, .num_return_sequences = beams}).front();
  if (found.front().source.empty()) fail(explain, "the text has no tokens: there is nothing to look at");
  std::vector<std::int32_t> target = options.target_ids;
  if (target.empty()) {
    target = translator_->view().prompt({});
    const std::vector<std::int32_t> said = options.target ? tokenizers_.target->encode(*options.target) : found.front().hypothesis.ids;
    target.insert(target.end(), said.begin(), said.end());
  }
  Explanation out = pair(ctx, found.front().source, std::move(target), options);
  out.text = options.target.value_or(found.front().text);
  for (const Translation& t : found) out.alternatives.push_back({t.text, static_cast<double>(t.hypothesis.score)});
  return out;
}

Explanation Explainer::tokens(Context& ctx, std::span<const std::int32_t> ids, const ExplainOptions& options) const {
  if (of_kind("text").kind == "text") return plain(ctx, ids, options);
  if (options.target_ids.empty()) fail(explain, "a model with an encoder and a decoder needs the tokens that the decoder reads too");
  return pair(ctx, ids, options.target_ids, options);
}

Explanation Explainer::plain(Context& ctx, std::span<const std::int32_t> ids, const ExplainOptions& options) const {
  Explanation out = of_kind("text");
  const auto& model = dynamic_cast<const TextModel&>(*model_);
  const TextConfig& c = model.text();
  const Inference inference(ctx);
  check_ids(ids, c.vocabulary, options.longest, "the text");
  out.vocabulary = c.vocabulary;
  const Tokenizer* tokenizer = tokenizers_.source.get();
  out.sides = {{"text", seen_tokens(tokenizer, ids)}};
  if (tokenizer != nullptr) out.text = tokenizer->decode(ids);

  PackedTexts packed;
  packed.add(ids);
  const TextInput in = model.input_of(ctx, packed);
  StackTrace trace{.inner = true};
  const Tensor hidden = model.hidden(ctx, in, &trace);
  SeenStack& stack = out.stacks.emplace_back(seen_stack(ctx, "stack", "text", c.stack, trace));
  const TextEmbedder& embedder = model.embedder();
  stack.tokens = on_host(ctx, embedder.tokens(ctx, in.ids));
  if (embedder.positions)
    stack.positions = on_host(
        ctx, (*embedder.positions)(ctx, in.positions.defined() ? in.positions : position_ids(ctx, in.sequences, {}, embedder.offset)));
  out.attentions.push_back(seen_attention(ctx, "self", "text", "text", c.stack.causal, trace.attentions));

  const std::int64_t n = std::ssize(ids);
  std::vector<std::int64_t> places;  // where something is said
  if (out.purpose == "next_words") places = {n - 1};
  const std::int32_t mask = tokenizer != nullptr ? tokenizer->special_tokens().mask : -1;
  for (std::int64_t i = 0; out.purpose == "masked_words" && i < n; ++i)
    if (mask >= 0 && ids[static_cast<std::size_t>(i)] == mask) places.push_back(i);
  for (std::int64_t i = 0; out.purpose == "token_labels" && i < n; ++i)
    if (!out.sides.front().tokens[static_cast<std::size_t>(i)].special) places.push_back(i);
  for (const std::int64_t place : places) {
    const std::vector<float> logits = on_host(ctx, model.logits(ctx, hidden.row_block(place, 1))).to_vector<float>();
    SeenPrediction prediction{.position = place, .side = "text"};
    prediction.choices = choices(logits, out.purpose == "token_labels" ? nullptr : tokenizer, options.top);
    if (out.purpose == "token_labels" && classifier_)
      for (SeenChoice& choice : prediction.choices) choice.text = classifier_->names()[static_cast<std::size_t>(choice.id)];
    out.predictions.push_back(std::move(prediction));
  }
  return out;
}

Explanation Explainer::pair(Context& ctx, std::span<const std::int32_t> source, std::vector<std::int32_t> target,
                            const ExplainOptions& options) const {
  Explanation out = of_kind("translation");
  const EncoderDecoder& model = dynamic_cast<const EncoderDecoderModel&>(*model_).network;
  const Inference inference(ctx);
  check_ids(source, model.source_vocabulary(), options.longest, "the source");
  check_ids(target, model.target_vocabulary(), options.longest, "the target");
  out.vocabulary = model.target_vocabulary();
  const PairBatch batch{.source_ids = ids_tensor(ctx, source),
                        .source = Sequences::uniform(1, std::ssize(source)),
                        .target_ids = ids_tensor(ctx, target),
                        .target = Sequences::uniform(1, std::ssize(target))};
  TransformerTrace trace;
  trace.encoder.inner = trace.decoder.inner = true;
  const Tensor memory = model.encode(ctx, batch, &trace.encoder), hidden = model.decode(ctx, batch, memory, &trace.decoder);
  const std::vector<float> logits = on_host(ctx, model.logits(ctx, hidden)).to_vector<float>();

  // What is said at each place: the next of the given tokens, and behind the last the most probable.
  std::vector<std::int32_t> written(target.begin() + 1, target.end());
  const auto classes = static_cast<std::size_t>(out.vocabulary);
  for (std::size_t i = 0; i < target.size(); ++i) {
    SeenPrediction prediction{.position = static_cast<std::int64_t>(i), .side = "written"};
    prediction.choices = choices(std::span(logits).subspan(i * classes, classes), tokenizers_.target.get(), options.top);
    if (i + 1 == target.size()) written.push_back(static_cast<std::int32_t>(prediction.choices.front().id));
    out.predictions.push_back(std::move(prediction));
  }
  out.sides = {{"source", seen_tokens(tokenizers_.source.get(), source)},
               {"target", seen_tokens(tokenizers_.target.get(), target)},
               {"written", seen_tokens(tokenizers_.target.get(), written)}};
  SeenStack& encoder = out.stacks.emplace_back(seen_stack(ctx, "encoder", "source", model.encoder.stack.config, trace.encoder));
  add_vectors(ctx, encoder, model.encoder, *model.encoder.embedding, batch.source_ids, batch.source);
  SeenStack& decoder = out.stacks.emplace_back(seen_stack(ctx, "decoder", "target", model.decoder.stack.config, trace.decoder));
  add_vectors(ctx, decoder, model.decoder, model.decoder.embedding ? *model.decoder.embedding : *model.encoder.embedding, batch.target_ids,
              batch.target);
  out.attentions = {seen_attention(ctx, "encoder", "source", "source", false, trace.encoder.attentions),
                    seen_attention(ctx, "decoder", "target", "target", true, trace.decoder.attentions),
                    seen_attention(ctx, "cross", "written", "source", false, trace.decoder.cross_attentions)};
  return out;
}

}  // namespace transformer
