#include "support/marian_positions.h"

#include "transformer/models/seq2seq.h"

namespace transformer::test {
namespace {

// True when the table differs from the sinusoids.
bool restore(Context& ctx, const GoldenCase& c, const EmbeddedStack& side, const TokenEmbedding& table, const std::string& states,
             const std::string& ids_name) {
  const AddedPositions& positions = side.positions;
  const std::int64_t d = positions.d, length = c.expected.shape(states)[1];
  const std::vector<double> hidden = detail::to_double(c.expected.tensor(states)), rows = detail::to_double(table.weight.tensor);
  const std::vector<std::int64_t> ids = c.expected.tensor(ids_name).to_vector<std::int64_t>();
  const std::vector<float> plain = sinusoidal_table(ctx, positions.positions, d, true).to_vector<float>();
  std::vector<float> values = plain;
  double difference = 0.0;
  for (std::int64_t i = 0; i < length * d; ++i) {  // of the first sequence, which has no padding
    const auto at = static_cast<std::size_t>(i);
    const double embedded = rows[static_cast<std::size_t>(ids[static_cast<std::size_t>(i / d)] * d + i % d)];
    values[at] = static_cast<float>(hidden[at] - static_cast<double>(table.scale) * embedded);
    difference = std::max(difference, std::abs(static_cast<double>(values[at] - plain[at])));
  }
  EXPECT_LT(difference, 0.5) << states << ": not even near the sinusoids";
  if (difference < 1e-5) return false;
  positions.computed = Tensor::from<float>(ctx, {positions.positions, d}, values);
  return true;
}

}  // namespace

std::optional<std::int64_t> restore_positions(Context& ctx, const GoldenCase& c, Model& model) {
  if (c.config.at("model_type") != "marian") return {};
  const EncoderDecoder& network = dynamic_cast<Seq2SeqModel&>(model).network;
  const TokenEmbedding& target = network.decoder.embedding ? *network.decoder.embedding : *network.encoder.embedding;
  const bool encoder = restore(ctx, c, network.encoder, *network.encoder.embedding, "encoder_hidden_states.0", "input_ids");
  const bool decoder = restore(ctx, c, network.decoder, target, "decoder_hidden_states.0", "decoder_input_ids");
  if (!encoder && !decoder) return {};
  return c.expected.shape("decoder_hidden_states.0")[1];
}

}  // namespace transformer::test
