#pragma once
// The body that BART, Marian, Pegasus, mBART and M2M100 have in common: the original encoder-decoder, where each has its norms, its
// positions and its special tokens.

#include <optional>
#include <string_view>

#include "models/families.h"

namespace transformer::families {

extern const Family m2m_100, mbart, pegasus;

enum class BartPositions : std::uint8_t {
  learned,              // a table, whose first two rows are not used
  sinusoids,            // all sines, then all cosines
  sinusoids_of_tokens,  // the same with other frequencies, counted from the padding token's id + 1; padding has none (M2M100)
};

// What a family says about itself; numbers are the defaults of its configuration class.
struct BartBody {
  std::int64_t vocabulary = 50265;
  std::optional<std::int64_t> pad = 1, start = {};  // start: decoder_start_token_id
  std::string_view activation = "gelu";
  float attention_dropout = 0.0F;
  bool scale_embedding = false;
  BartPositions positions = BartPositions::learned;
  bool pre_norm = false;             // norms before the sublayers, and one behind each stack
  bool embedding_norm = false;       // a norm of the embeddings
  bool logits_bias = true;           // final_logits_bias: saved, but not trained
  bool two_tables = false;           // source and target may have tables of their own
  bool starts_with_padding = false;  // a decoder that begins with the padding token begins with a zero, in training too
  bool source_as_target = false;     // without labels and decoder_input_ids, the source moved by one place
  bool wraps_labels = false;         // the last label is what the decoder begins with (mBART)
  bool saves_positions = false;      // the sinusoids are in its files
  bool drops_layers = false;         // published files leave out layers in training; that is not done here
};

// The classes of `family` are the one with its output projection, then the one without.
std::unique_ptr<Model> make_bart_body(Settings& s, const Family& family, const BartBody& body);

inline DropoutKeys bart_dropout() {
  return {.all = {"dropout"}, .attention = {"attention_dropout"}, .feed_forward = {"activation_dropout"}};
}

}  // namespace transformer::families
