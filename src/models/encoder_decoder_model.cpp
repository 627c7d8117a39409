#include "transformer/models/encoder_decoder_model.h"

#include <algorithm>

#include "transformer/ops/attention.h"
#include "transformer/ops/copy.h"
#include "transformer/ops/pack.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

// A padded batch as the network takes it.
struct Side {
  Packing packing;
  Tensor ids;   // [tokens]
  Tensor bias;  // [batch, 1, 1, longest], undefined: all that is there is seen
};

bool padded_at_the_end(const Packing& p) {
  const std::vector<std::int64_t> places = p.index.to_vector<std::int64_t>();
  for (std::int64_t s = 0; s < p.sequences.count(); ++s)
    if (const std::int64_t n = p.sequences.length(s); n > 0)
      if (places[static_cast<std::size_t>(p.sequences.begin(s) + n - 1)] != s * p.longest + n - 1) return false;
  return true;
}

void check_like(const char* name, const Tensor& t, const char* other, const Tensor& ids) {
  if (t.shape() != ids.shape()) fail("run", "{} is {} and {} is {}: expected one size", name, t.shape(), other, ids.shape());
}

// These models count positions from the beginning of the padded row. What is padded at its end is packed; any other mask
// hides tokens from attention, but leaves them where they are.
Side side_of(Context& ctx, const Tensor& ids, const Tensor* mask, bool may_pack) {
  Side side{.packing = packing(ctx, ids.dim(0), ids.dim(1)), .ids = {}, .bias = {}};
  if (mask != nullptr) {
    Packing packed = packing(ctx, contiguous(ctx, *mask));
    if (may_pack && padded_at_the_end(packed)) side.packing = std::move(packed);
    else side.bias = mask_to_bias(ctx, *mask).view({mask->dim(0), 1, 1, mask->dim(1)});
  }
  side.ids = pack(ctx, ids, side.packing);
  return side;
}

std::vector<std::int64_t> values_of(const Tensor& ids) {
  return visit_index("run", ids.dtype(), [&]<class T>() {
    const std::vector<T> values = ids.to_vector<T>();
    return std::vector<std::int64_t>(values.begin(), values.end());
  });
}

constexpr std::int64_t not_a_label = -100;  // Hugging Face's mark of labels that count for nothing

}  // namespace

EncoderDecoderModel::EncoderDecoderModel(const EncoderDecoderConfig& config, EncoderDecoderOptions options)
    : network(config), options_(std::move(options)) {}

void EncoderDecoderModel::complete_fresh(Context& ctx) {
  for (EmbeddedStack* side : {&network.encoder, &network.decoder}) {
    AddedPositions& positions = side->positions;
    if (options_.saves_positions)
      positions.table = {.shape = {positions.positions, positions.d},
                         .trained = false,
                         .tensor = sinusoidal_table(ctx, positions.positions, positions.d, true)};
    if (!network.settings.zero_padding || !side->embedding) continue;
    Tensor& rows = side->embedding->weight.tensor;
    const std::int64_t from[] = {0}, to[] = {side->embedding->padding};
    copy_rows(ctx, Tensor::zeros(ctx, {1, rows.cols()}), from, rows, to);
  }
}

std::vector<Binding> EncoderDecoderModel::bindings() {
  std::vector<NameRule> names = options_.names;
  if (network.output) names.push_back({.theirs = options_.output_name, .ours = "output"});
  else
    names.push_back(
        {.theirs = options_.output_name, .ours = network.decoder.embedding ? "decoder.embedding" : "encoder.embedding", .tied = true});
  return bind_names(parameters(), names);
}

std::vector<NamedLinear> EncoderDecoderModel::linears() {
  std::vector<NamedLinear> out = transformer::linears(network);
  std::erase_if(out, [&](const NamedLinear& l) { return network.output && l.linear == &*network.output; });
  return out;
}

void EncoderDecoderModel::adapt(const Checkpoint& files) {
  const std::string& prefix = options_.load.base;
  auto has = [&](const std::string& name) {
    return files.contains(name) || (name.starts_with(prefix) ? files.contains(name.substr(prefix.size())) : files.contains(prefix + name));
  };
  EncoderDecoderConfig config = network.settings;
  if (options_.output_as_in_file) config.output_vocabulary = has(options_.output_name + ".weight") ? network.target_vocabulary() : 0;
  if (!has("final_logits_bias")) config.logits_bias = false;  // it is zero then
  if (const std::string& both = options_.shared_table; !both.empty()) {
    const auto has_table = [&](const char* ours) {
      return std::ranges::any_of(options_.names, [&](const NameRule& r) { return r.ours == ours && !r.tied && has(r.theirs + ".weight"); });
    };
    for (const char* ours : {"encoder.embedding", "decoder.embedding"})
      if (!has_table(ours)) options_.names.push_back({.theirs = both, .ours = ours, .tied = true});
  }
  network = EncoderDecoder(config);
  // Tables that are computed are not written into newer files, but where they are there, they count.
  for (const auto& [name, side] :
       {std::pair{"encoder.positions.table", &network.encoder}, std::pair{"decoder.positions.table", &network.decoder}})
    for (const NameRule& rule : options_.names)
      if (rule.ours == name && side->positions.kind == PositionKind::sinusoidal_halves && has(rule.theirs))
        side->positions.table = {.shape = {side->positions.positions, side->positions.d}, .trained = false};
}

Tensor EncoderDecoderModel::shifted(Context& ctx, const Tensor& labels) const {
  if (!options_.start && !options_.wraps_labels)
    fail("run", "labels need decoder_input_ids beside them: config.json says no decoder_start_token_id");
  std::vector<std::int64_t> from = values_of(labels);
  for (std::int64_t& id : from) {
    if (id != not_a_label) continue;
    if (!options_.pad) fail("run", "labels of -100 need a pad_token_id in config.json");
    id = *options_.pad;
  }
  std::vector<std::int64_t> to(from.size());
  const std::int64_t width = labels.dim(1);
  for (std::int64_t row = 0; row < labels.dim(0) && width > 0; ++row) {
    const auto begin = from.begin() + row * width;
    const std::int64_t padded = options_.pad ? std::count(begin, begin + width, *options_.pad) : 0;
    to[static_cast<std::size_t>(row * width)] = options_.wraps_labels ? begin[std::max<std::int64_t>(width - padded - 1, 0)]
                                                                      : *options_.start;
    std::copy(begin, begin + width - 1, to.begin() + row * width + 1);
  }
  return Tensor::from<std::int64_t>(ctx, labels.shape(), to);
}

NamedTensors EncoderDecoderModel::compute(Context& ctx, const NamedTensors& inputs, const RunOptions& options) const {
  check_inputs(inputs, {"input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask", "labels"});
  const Tensor& source_ids = input(inputs, "input_ids", 2);
  const Tensor* mask = optional_input(inputs, "attention_mask", 2);
  const Tensor* labels = options_.base ? nullptr : optional_input(inputs, "labels", 2);
  const Tensor* target_ids = optional_input(inputs, "decoder_input_ids", 2);
  const Tensor* target_mask = optional_input(inputs, "decoder_attention_mask", 2);
  Tensor made;
  if (target_ids == nullptr) {
    if (labels != nullptr) made = shifted(ctx, *labels);
    else if (options_.source_as_target) made = shifted(ctx, source_ids);
    else static_cast<void>(input(inputs, "decoder_input_ids", 2));  // says what is missing
    target_ids = &made;
  }
  if (mask != nullptr) check_like("attention_mask", *mask, "input_ids", source_ids);
  if (target_mask != nullptr) check_like("decoder_attention_mask", *target_mask, "decoder_input_ids", *target_ids);
  if (labels != nullptr) check_like("labels", *labels, "decoder_input_ids", *target_ids);
  if (target_ids->dim(0) != source_ids.dim(0))
    fail("run", "input_ids {} and decoder_input_ids {} are batches of different sizes", source_ids.shape(), target_ids->shape());

  const Side source = side_of(ctx, source_ids, mask, true), target = side_of(ctx, *target_ids, target_mask, false);
  const PairBatch batch{.source_ids = source.ids,
                        .source = source.packing.sequences,
                        .target_ids = target.ids,
                        .target = target.packing.sequences,
                        .source_bias = source.bias,
                        .target_bias = target.bias};
  TransformerTrace trace;
  const bool traced = options.hidden_states || options.attentions;
  const Tensor memory = network.encode(ctx, batch, traced ? &trace.encoder : nullptr);
  const Tensor hidden = network.decode(ctx, batch, memory, traced ? &trace.decoder : nullptr);

  NamedTensors out;
  out["encoder_last_hidden_state"] = unpack(ctx, memory, source.packing);
  if (options_.base) {
    out["last_hidden_state"] = unpack(ctx, hidden, target.packing);
  } else {
    if (options.logits) out["logits"] = unpack(ctx, network.logits(ctx, hidden), target.packing);
    if (labels != nullptr) {
      std::vector<std::int64_t> wanted = values_of(*labels);
      std::replace(wanted.begin(), wanted.end(), not_a_label, network.settings.ignored_label);
      out["loss"] = network.loss(ctx, hidden, Tensor::from<std::int64_t>(ctx, {labels->numel()}, wanted), network.settings.label_smoothing);
    }
  }
  auto number = [](const char* name, std::size_t i) { return fmt::format("{}.{}", name, i); };
  if (options.hidden_states) {
    for (std::size_t i = 0; i < trace.encoder.hidden_states.size(); ++i)
      out[number("encoder_hidden_states", i)] = unpack(ctx, trace.encoder.hidden_states[i], source.packing);
    for (std::size_t i = 0; i < trace.decoder.hidden_states.size(); ++i)
      out[number("decoder_hidden_states", i)] = unpack(ctx, trace.decoder.hidden_states[i], target.packing);
  }
  if (options.attentions) {
    for (std::size_t i = 0; i < trace.encoder.attentions.size(); ++i)
      out[number("encoder_attentions", i)] = unpack_weights(ctx, trace.encoder.attentions[i], source.packing, source.packing);
    for (std::size_t i = 0; i < trace.decoder.attentions.size(); ++i)
      out[number("decoder_attentions", i)] = unpack_weights(ctx, trace.decoder.attentions[i], target.packing, target.packing);
    for (std::size_t i = 0; i < trace.decoder.cross_attentions.size(); ++i)
      out[number("cross_attentions", i)] = unpack_weights(ctx, trace.decoder.cross_attentions[i], target.packing, source.packing);
  }
  return out;
}

}  // namespace transformer
