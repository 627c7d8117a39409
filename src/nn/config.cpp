#include "transformer/nn/config.h"

#include "transformer/core/error.h"

namespace transformer {

std::vector<std::pair<NormKind, std::string_view>> names(NormKind) {
  return {{NormKind::layer_norm, "layer_norm"}, {NormKind::rms_norm, "rms_norm"}};
}

std::vector<std::pair<NormPlace, std::string_view>> names(NormPlace) { return {{NormPlace::pre, "pre"}, {NormPlace::post, "post"}}; }

std::vector<std::pair<PositionKind, std::string_view>> names(PositionKind) {
  return {{PositionKind::none, "none"},
          {PositionKind::sinusoidal, "sinusoidal"},
          {PositionKind::learned, "learned"},
          {PositionKind::relative, "relative"},
          {PositionKind::rotary, "rotary"},
          {PositionKind::alibi, "alibi"},
          {PositionKind::sinusoidal_halves, "sinusoidal_halves"}};
}

std::vector<std::pair<FeedForwardKind, std::string_view>> names(FeedForwardKind) {
  return {{FeedForwardKind::relu, "relu"},     {FeedForwardKind::gelu, "gelu"},   {FeedForwardKind::gelu_tanh, "gelu_tanh"},
          {FeedForwardKind::silu, "silu"},     {FeedForwardKind::geglu, "geglu"}, {FeedForwardKind::geglu_tanh, "geglu_tanh"},
          {FeedForwardKind::swiglu, "swiglu"}, {FeedForwardKind::reglu, "reglu"}};
}

StackConfig StackConfig::resolved() const {
  StackConfig c = *this;
  auto positive = [](const char* name, std::int64_t value) {
    if (value <= 0) fail("StackConfig", "{} must be positive, got {}", name, value);
  };
  auto probability = [](const char* name, float value) {
    if (!(value >= 0.0F && value < 1.0F)) fail("StackConfig", "{} must be in [0, 1), got {}", name, value);
  };
  positive("d_model", d_model);
  positive("heads", heads);
  positive("d_ff", d_ff);
  positive("max_positions", max_positions);
  if (layers < 0) fail("StackConfig", "layers must be 0 or more, got {}", layers);
  if (!windows.empty() && static_cast<std::int64_t>(windows.size()) != layers)
    fail("StackConfig", "{} windows given for {} layers: expected one for each, or none", windows.size(), layers);
  if (rope.scaling != RopeScaling::none && !(rope.factor > 0.0))
    fail("StackConfig", "the factor of the rotary positions' scaling must be positive, got {}", rope.factor);
  if (window < 0) fail("StackConfig", "window must be 0 (none) or more, got {}", window);
  probability("dropout", dropout);
  probability("attention_dropout", attention_dropout);
  probability("ffn_dropout", ffn_dropout);
  probability("drop_path", drop_path);

  if (head_dim == 0) {
    if (d_model % heads != 0)
      fail("StackConfig", "d_model {} is not divisible by {} heads; choose heads that divide it, or set head_dim", d_model, heads);
    c.head_dim = d_model / heads;
  }
  positive("head_dim", c.head_dim);
  if (constexpr std::int64_t most = std::int64_t{1} << 28; heads > most || c.head_dim > most / heads)
    fail("StackConfig", "{} heads of {} dimensions are more than any memory holds", heads, c.head_dim);
  if (kv_heads == 0) c.kv_heads = heads;
  if (c.kv_heads < 0 || heads % c.kv_heads != 0)
    fail("StackConfig", "{} heads cannot be shared evenly by {} key/value heads", heads, kv_heads);
  if (rotary_dim == 0) c.rotary_dim = c.head_dim;
  if (attention_output_dropout < 0.0F) c.attention_output_dropout = dropout;
  probability("attention_output_dropout", c.attention_output_dropout);
  if (positions == PositionKind::rotary && (c.rotary_dim < 0 || c.rotary_dim % 2 != 0 || c.rotary_dim > c.head_dim))
    fail("StackConfig", "rotary positions turn pairs: rotary_dim must be even and at most head_dim {}, got {}", c.head_dim, c.rotary_dim);
  if (positions == PositionKind::relative && (relative_buckets < 4 || relative_max_distance <= relative_buckets / 2))
    fail("StackConfig", "relative positions need 4 buckets or more and a max distance beyond half of them, got {} and {}", relative_buckets,
         relative_max_distance);
  if (positions == PositionKind::sinusoidal && d_model % 2 != 0)
    fail("StackConfig", "sinusoidal positions need an even d_model, got {}", d_model);
  if (order == BlockOrder::parallel && (norm_place != NormPlace::pre || cross_attention))
    fail("StackConfig", "parallel blocks are pre-norm and have no cross-attention");
  return c;
}

}  // namespace transformer
