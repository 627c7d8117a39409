#include "transformer/models/presets.h"

#include <gtest/gtest.h>

#include "support/op_check.h"

namespace transformer::test {
namespace {

TEST(Presets, KeepWhatIsNoSize) {
  TransformerConfig config{
      .num_kv_heads = 2, .num_decoder_layers = 3, .src_vocab_size = 77, .norm = NormPlace::pre, .label_smoothing = 0.2F};
  apply_preset("tiny", config);
  EXPECT_EQ(config.d_model, 128);
  EXPECT_EQ(config.num_heads, 4);
  EXPECT_EQ(config.num_kv_heads, 0);
  EXPECT_EQ(config.d_ff, 256);
  EXPECT_EQ(config.num_layers, 4);
  EXPECT_EQ(config.stack(true).layers, 4);
  EXPECT_EQ(config.dropout, 0.3F);
  EXPECT_EQ(config.src_vocab_size, 77);
  EXPECT_EQ(config.norm, NormPlace::pre);
  EXPECT_EQ(config.label_smoothing, 0.2F);
}

// Table 3 of the paper: 65 and 213 million, with a vocabulary of about 37,000.
TEST(Presets, BaseAndBigAreThePapers) {
  TransformerConfig config{.src_vocab_size = 37000};
  apply_preset("base", config);
  Transformer base(config);
  EXPECT_EQ(count_parameters(base), 63'082'496);
  EXPECT_EQ(config.dropout, 0.1F);
  apply_preset("big", config);
  Transformer big(config);
  EXPECT_NEAR(static_cast<double>(count_parameters(big)), 213e6, 2e6);
  EXPECT_EQ(config.dropout, 0.3F);
}

TEST(Presets, EveryNameMakesAModel) {
  for (const std::string& name : preset_names({})) {
    TransformerConfig config;
    apply_preset(name, config);
    EXPECT_NO_THROW(Transformer{config}) << name;
  }
  TransformerConfig config;
  expect_error([&] { apply_preset("smal", config); }, {"'smal'", "tiny, small, base, big", "did you mean 'small'?"});
}

}  // namespace
}  // namespace transformer::test
