#include "transformer/models/text.h"

#include <cmath>

#include "transformer/ops/activation.h"
#include "transformer/ops/attention.h"
#include "transformer/ops/cross_entropy.h"
#include "transformer/ops/dropout.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/pack.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

constexpr std::int64_t ignored = -100;  // a label that counts for nothing

std::vector<std::int64_t> integers(std::string_view name, const Tensor& t) {
  return visit_index(name, t.dtype(), [&]<class T>() {
    const std::vector<T> values = t.to_vector<T>();
    return std::vector<std::int64_t>(values.begin(), values.end());
  });
}

Tensor narrow(Context& ctx, const std::vector<std::int64_t>& values) {
  return Tensor::from<std::int32_t>(ctx, {static_cast<std::int64_t>(values.size())}, {values.begin(), values.end()});
}

void check_size(std::string_view name, const Tensor& t, const Tensor& ids) {
  if (t.shape() != ids.shape()) fail("run", "{} {} does not fit input_ids {}", name, t.shape(), ids.shape());
}

// Falcon's ALiBi: slope · place of the key, in bfloat16, and scaled as the scores are. [1, heads, 1, keys]
Tensor alibi_by_key(Context& ctx, const StackConfig& c, std::int64_t keys) {
  std::vector<float> values;
  const float scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim));
  for (float slope : alibi_slopes(c.heads))
    for (std::int64_t i = 0; i < keys; ++i)
      values.push_back(static_cast<float>(bfloat16(static_cast<float>(bfloat16(slope)) * static_cast<float>(i))) * scale);
  return Tensor::from<float>(ctx, {1, c.heads, 1, keys}, values);
}

}  // namespace

TextEmbedder::TextEmbedder(const TextConfig& c)
    : tokens(c.vocabulary, c.stack.d_model), dropout(c.embedding_dropout), offset(c.position_offset), types_are_tokens(c.types_are_tokens) {
  tokens.padding = c.padding;
  if (c.positions > 0) {
    positions.emplace(c.positions, c.stack.d_model);
    if (c.positions_skip_padding) positions->padding = c.padding;
  }
  if (c.types > 0) types.emplace(c.types, c.stack.d_model);
  if (c.embedding_norm) norm.emplace(c.stack.norm, c.stack.d_model, c.stack.norm_eps);
}

Tensor TextEmbedder::operator()(Context& ctx, const TextInput& in) const {
  Tensor x = tokens(ctx, in.ids);
  if (types) x = add(ctx, x, (*types)(ctx, in.types.defined() ? in.types : Tensor::zeros(ctx, in.ids.shape(), DType::int64)));
  if (positions) {
    const auto starts = in.cache != nullptr ? in.cache->lengths() : std::span<const std::int64_t>{};
    const std::int64_t rows = positions->weight.shape[0];
    const std::int64_t needed = in.positions.defined() ? in.longest : positions_needed(in.sequences, starts) + offset;
    if (needed > rows) fail("positions", "a text of {} tokens is longer than the model's {} positions", needed - offset, rows - offset);
    x = add(ctx, x, (*positions)(ctx, in.positions.defined() ? in.positions : position_ids(ctx, in.sequences, starts, offset)));
  }
  if (types_are_tokens && in.types.defined()) x = add(ctx, x, tokens(ctx, in.types));
  if (norm) x = (*norm)(ctx, x);
  return transformer::dropout(ctx, x, dropout);
}

TextHead::TextHead(const TextConfig& c) {
  const std::int64_t d = c.stack.d_model;
  if (c.pooler) pooler.emplace(d, d);
  const bool language = c.task == TextTask::causal_lm || c.task == TextTask::masked_lm;
  if (c.transform) {
    transform.emplace(d, d);
    transform_norm.emplace(c.stack.norm, d, c.stack.norm_eps);
  }
  if (language && c.tied && c.output_bias) bias = {.shape = {c.vocabulary}};
  if (language && !c.tied) output.emplace(d, c.vocabulary, c.output_bias);
  if (language && !c.tied && c.unused_bias) unused = {.shape = {c.vocabulary}, .trained = false};
  if (c.task == TextTask::sequence_labels || c.task == TextTask::token_labels) output.emplace(d, c.labels, c.output_bias);
}

TextModel::TextModel(const TextConfig& c, std::vector<NameRule> rules, LoadRules load_rules)
    : config_(c), embedder_(c), stack_(c.stack), head_(c), rules_(std::move(rules)), load_rules_(std::move(load_rules)) {
  config_.stack = stack_.config;
}

std::vector<NamedLinear> TextModel::linears() {
  std::vector<NamedLinear> out = transformer::linears(*this);
  const bool language = config_.task == TextTask::causal_lm || config_.task == TextTask::masked_lm;
  std::erase_if(out, [&](const NamedLinear& l) { return language && head_.output && l.linear == &*head_.output; });
  return out;
}

Tensor TextModel::hidden(Context& ctx, const TextInput& in, StackTrace* trace) const {
  StackInput input{.x = embedder_(ctx, in), .sequences = in.sequences, .bias = in.bias, .cache = in.cache};
  if (stack_.config.positions == PositionKind::rotary) input.positions = in.positions, input.longest = in.longest;
  if (config_.falcon_alibi) {
    const auto starts = in.cache != nullptr ? in.cache->lengths() : std::span<const std::int64_t>{};
    const bool repeats = in.cache != nullptr && in.cache->repeats();
    input.bias = alibi_by_key(ctx, stack_.config, repeats ? in.cache->keys().longest() : positions_needed(in.sequences, starts));
  }
  return stack_(ctx, input, trace);
}

Tensor TextModel::transformed(Context& ctx, const Tensor& hidden) const {
  return head_.transform ? (*head_.transform_norm)(ctx, (*head_.transform)(ctx, hidden, *config_.transform)) : hidden;
}

Tensor TextModel::logits(Context& ctx, const Tensor& hidden) const {
  if (config_.task == TextTask::hidden) fail("TextModel", "this is a base model: it has no head that gives logits");
  if (config_.task == TextTask::token_labels || config_.task == TextTask::sequence_labels)
    return (*head_.output)(ctx, dropout(ctx, hidden, config_.head_dropout));
  const Tensor h = transformed(ctx, hidden);
  return head_.output ? (*head_.output)(ctx, h) : linear(ctx, h, embedder_.tokens.weight, head_.bias);
}

// The padded batch, packed.
struct TextModel::Batch {
  Packing packing;
  TextInput input;
  std::vector<std::int64_t> last;  // packed row of each sequence's last token, where the model looks at it
};

// Where labels count at padded places of an encoder, the reference computes those: they are queries like all others, but nobody's
// keys. Then nothing is packed, and the mask stays one. (In a decoder they would see nothing: there they count for nothing.)
bool TextModel::labels_at_padding(const NamedTensors& inputs, const Tensor& mask) const {
  const auto labels = inputs.find("labels");
  if (labels == inputs.end() || config_.stack.causal || labels->second.shape() != mask.shape()) return false;
  const std::vector<std::int64_t> wanted = integers("labels", labels->second), real = integers("attention_mask", mask);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (real[i] == 0 && wanted[i] != ignored) return true;
  return false;
}

TextModel::Batch TextModel::read(Context& ctx, const NamedTensors& inputs) const {
  std::vector<std::string> known{"input_ids", "attention_mask", "position_ids"};
  if (config_.types > 0 || config_.types_are_tokens) known.emplace_back("token_type_ids");
  if (config_.task != TextTask::hidden) known.emplace_back("labels");
  check_inputs(inputs, known);
  const Tensor& ids = input(inputs, "input_ids", 2);
  const Tensor* mask = optional_input(inputs, "attention_mask", 2);
  if (mask != nullptr) check_size("attention_mask", *mask, ids);
  const std::int64_t length = ids.dim(1);

  const bool packed_batch = mask != nullptr && !labels_at_padding(inputs, *mask);
  Batch b{packed_batch ? packing(ctx, *mask) : packing(ctx, ids.dim(0), length), {}, {}};
  if (mask != nullptr && !packed_batch) b.input.bias = mask_to_bias(ctx, mask->view({mask->dim(0), 1, 1, length}));
  const Sequences& sequences = b.packing.sequences;
  b.input.ids = pack(ctx, ids, b.packing);
  b.input.sequences = sequences;
  if (const Tensor* types = optional_input(inputs, "token_type_ids", 2)) {
    check_size("token_type_ids", *types, ids);
    b.input.types = pack(ctx, *types, b.packing);
  }

  std::vector<std::int64_t> positions;  // by padded place
  const auto places = [&] { return b.packing.index.to_vector<std::int64_t>(); };
  if (const Tensor* given = optional_input(inputs, "position_ids", 2)) {
    if (given->dim(1) != length || (given->dim(0) != 1 && given->dim(0) != ids.dim(0)))
      fail("run", "position_ids {} do not fit input_ids {}", given->shape(), ids.shape());
    const std::vector<std::int64_t> values = integers("position_ids", *given);
    for (std::int64_t i : places()) positions.push_back(values[static_cast<std::size_t>(i % given->numel())]);
  } else if (config_.positions_skip_padding) {
    const std::vector<std::int64_t> all = integers("input_ids", ids);
    std::vector<std::int64_t> rows(all.size());
    std::int64_t seen = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i % static_cast<std::size_t>(length) == 0) seen = 0;
      rows[i] = config_.position_offset - 1 + (all[i] != config_.padding ? ++seen : 0);
    }
    for (std::int64_t i : places()) positions.push_back(rows[static_cast<std::size_t>(i)]);
  } else if (mask != nullptr && !config_.stack.causal) {  // decoders count the tokens that are there: see generate
    for (std::int64_t i : places()) positions.push_back(i % length + config_.position_offset);
  }
  for (std::int64_t p : positions) {
    if (p < 0 || p >= std::int64_t{1} << 30) fail("run", "position_ids has {}: expected 0 or more, and less than 2³⁰", p);
    b.input.longest = std::max(b.input.longest, p + 1);
  }
  if (!positions.empty()) b.input.positions = narrow(ctx, positions);

  if (config_.last_token) b.last = last_tokens(integers("input_ids", b.input.ids), sequences);
  return b;
}

// The last token is the last that is not padding, whatever the mask says; without such an id, the last of the sequence.
std::vector<std::int64_t> TextModel::last_tokens(const std::vector<std::int64_t>& ids, const Sequences& sequences) const {
  std::vector<std::int64_t> out;
  for (std::int64_t s = 0; s < sequences.count(); ++s) {
    std::int64_t last = sequences.begin(s) + sequences.length(s) - 1;
    if (config_.padding_id)
      for (std::int64_t i = last; i >= sequences.begin(s); --i)
        if (ids[static_cast<std::size_t>(i)] != *config_.padding_id) {
          last = i;
          break;
        }
    out.push_back(last);
  }
  return out;
}

TextInput TextModel::input_of(Context& ctx, const PackedTexts& texts) const {
  const Sequences sequences(texts.lengths);
  const auto tensor = [&](const std::vector<std::int64_t>& values) { return Tensor::from<std::int64_t>(ctx, {sequences.total()}, values); };
  TextInput in{.ids = tensor(texts.ids), .sequences = sequences};
  if (!texts.types.empty()) in.types = tensor(texts.types);
  if (config_.stack.causal && !config_.positions_skip_padding) return in;
  std::vector<std::int64_t> positions;
  for (std::int64_t s = 0; s < sequences.count(); ++s)
    for (std::int64_t i = 0, seen = 0; i < sequences.length(s); ++i) {
      const bool real = texts.ids[positions.size()] != config_.padding;  // RoBERTa counts these
      const std::int64_t place = config_.positions_skip_padding ? (real ? ++seen : 0) - 1 : i;
      positions.push_back(config_.position_offset + place);
      in.longest = std::max(in.longest, positions.back() + 1);
    }
  in.positions = narrow(ctx, positions);
  return in;
}

Tensor TextModel::label_logits(Context& ctx, const PackedTexts& texts) const {
  if (config_.task != TextTask::token_labels && config_.task != TextTask::sequence_labels)
    fail("TextModel", "this model has no head that gives labels");
  const TextInput in = input_of(ctx, texts);
  const Tensor h = hidden(ctx, in);
  if (config_.task == TextTask::token_labels) return logits(ctx, h);
  return logits(ctx, pooled(ctx, h, in.sequences, config_.last_token ? last_tokens(texts.ids, in.sequences) : std::vector<std::int64_t>()));
}

Tensor TextModel::pooler_output(Context& ctx, const PackedTexts& texts) const {
  if (!has_pooler()) fail("TextModel", "this model has no pooler");
  const TextInput in = input_of(ctx, texts);
  return pooled(ctx, hidden(ctx, in), in.sequences, {});
}

Tensor TextModel::pooled(Context& ctx, const Tensor& hidden, const Sequences& sequences, const std::vector<std::int64_t>& last) const {
  std::vector<std::int64_t> rows;
  for (std::int64_t s = 0; s < sequences.count(); ++s) {
    if (sequences.length(s) == 0) fail("run", "text {} of the batch has no token", s);
    rows.push_back(config_.last_token ? last[static_cast<std::size_t>(s)] : sequences.begin(s));
  }
  const Tensor x = embedding(ctx, Tensor::from<std::int64_t>(ctx, {sequences.count()}, rows), hidden, 1.0F, hidden.dtype());
  if (!head_.pooler) return x;
  const Tensor y = (*head_.pooler)(ctx, dropout(ctx, x, config_.pooler_dropout));
  return config_.pooler_relu ? relu(ctx, y) : tanh(ctx, y);
}

Tensor TextModel::token_loss(Context& ctx, const Tensor& hidden, const Tensor& labels, const Batch& batch) const {
  // A causal model predicts at each place the label of the next.
  const bool causal = config_.task == TextTask::causal_lm;
  const std::vector<std::int64_t> all = integers("labels", labels);
  const std::int64_t length = labels.dim(1);
  std::vector<std::int64_t> targets;
  for (std::int64_t i : batch.packing.index.to_vector<std::int64_t>())
    targets.push_back(!causal ? all[static_cast<std::size_t>(i)] : (i + 1) % length != 0 ? all[static_cast<std::size_t>(i + 1)] : ignored);
  const Tensor wanted = Tensor::from<std::int64_t>(ctx, {static_cast<std::int64_t>(targets.size())}, targets);
  if (config_.task == TextTask::token_labels) return cross_entropy(ctx, logits(ctx, hidden), wanted, {.ignore = ignored});
  return language_loss(ctx, hidden, wanted);
}

Tensor TextModel::language_loss(Context& ctx, const Tensor& hidden, const Tensor& targets) const {
  return linear_cross_entropy(ctx, transformed(ctx, hidden), head_.output ? head_.output->weight : embedder_.tokens.weight,
                              head_.output ? head_.output->bias : head_.bias, targets, {.ignore = ignored});
}

Tensor TextModel::loss(Context& ctx, const TextInput& in, const Tensor& targets) const {
  if (config_.task != TextTask::causal_lm && config_.task != TextTask::masked_lm)
    fail("TextModel", "this model has no head that says tokens: it has no such loss");
  return language_loss(ctx, hidden(ctx, in), targets);
}

Purpose TextModel::purpose() const {
  switch (config_.task) {
    case TextTask::hidden: return Purpose::text_vectors;
    case TextTask::causal_lm: return Purpose::next_words;
    case TextTask::masked_lm: return Purpose::masked_words;
    case TextTask::sequence_labels: return Purpose::text_labels;
    case TextTask::token_labels: return Purpose::token_labels;
  }
  fail("text model", "its task has no purpose");
}

NamedTensors TextModel::compute(Context& ctx, const NamedTensors& inputs, const RunOptions& options) const {
  const Batch batch = read(ctx, inputs);
  StackTrace trace;
  const bool look = options.hidden_states || options.attentions;
  const Tensor h = hidden(ctx, batch.input, look ? &trace : nullptr);

  NamedTensors out;
  const auto labels = inputs.find("labels");
  if (config_.task == TextTask::hidden) {
    out["last_hidden_state"] = unpack(ctx, h, batch.packing);
    if (head_.pooler) out["pooler_output"] = pooled(ctx, h, batch.packing.sequences, batch.last);
  } else if (config_.task == TextTask::sequence_labels) {
    const Tensor y = logits(ctx, pooled(ctx, h, batch.packing.sequences, batch.last));
    out["logits"] = y;
    if (labels != inputs.end()) out["loss"] = label_loss(ctx, y, labels->second, config_.problem);
  } else {
    if (options.logits) out["logits"] = unpack(ctx, logits(ctx, h), batch.packing);
    if (labels != inputs.end()) {
      check_size("labels", input(inputs, "labels", 2), input(inputs, "input_ids", 2));
      out["loss"] = token_loss(ctx, h, labels->second, batch);
    }
  }
  for (std::size_t i = 0; options.hidden_states && i < trace.hidden_states.size(); ++i)
    out[fmt::format("hidden_states.{}", i)] = unpack(ctx, trace.hidden_states[i], batch.packing);
  for (std::size_t i = 0; options.attentions && i < trace.attentions.size(); ++i)
    out[fmt::format("attentions.{}", i)] = unpack_weights(ctx, trace.attentions[i], batch.packing, batch.packing);
  return out;
}

}  // namespace transformer
