#include "models/bert_body.h"

namespace transformer {

TextFamily read_bert(Settings& s, const Family& family, std::string base, std::int64_t vocabulary, std::int64_t padding) {
  TextFamily f{.architecture = s.architecture(family.classes), .base = std::move(base)};
  refuse_decoder(s);
  s.only("position_embedding_type", "absolute", "positions relative to the query are not supported");
  // Google's own settings, which Hugging Face does not read either.
  s.neutral({"directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
             "pooler_type", "classifier_dropout", "problem_type", "tie_word_embeddings"});

  TextConfig& c = f.config;
  c.stack = {.d_model = s.size("hidden_size", 768),
             .heads = s.size("num_attention_heads", 12),
             .d_ff = s.size("intermediate_size", 3072),
             .layers = s.layers("num_hidden_layers", 12),
             .norm_eps = s.get("layer_norm_eps", 1e-12F),
             .feed_forward = feed_forward_of(s.activation("hidden_act", "gelu"), false),
             .dropout = s.get("hidden_dropout_prob", 0.1F),
             .attention_dropout = s.get("attention_probs_dropout_prob", 0.1F)};
  c.vocabulary = s.size("vocab_size", vocabulary);
  c.padding = s.maybe<std::int64_t>("pad_token_id", padding).value_or(-1);
  c.positions = c.max_positions = s.size("max_position_embeddings", 512);
  c.types = s.size("type_vocab_size", 2);
  c.embedding_norm = true;
  c.embedding_dropout = c.stack.dropout;
  f.body = {{"embeddings.word_embeddings", "embedder.tokens"},
            {"embeddings.position_embeddings", "embedder.positions"},
            {"embeddings.token_type_embeddings", "embedder.types"},
            {"embeddings.LayerNorm", "embedder.norm"},
            {"encoder.layer.{i}.attention.self.query", "stack.layers.{i}.attention.qkv", 0},
            {"encoder.layer.{i}.attention.self.key", "stack.layers.{i}.attention.qkv", 1},
            {"encoder.layer.{i}.attention.self.value", "stack.layers.{i}.attention.qkv", 2},
            {"encoder.layer.{i}.attention.output.dense", "stack.layers.{i}.attention.out"},
            {"encoder.layer.{i}.attention.output.LayerNorm", "stack.layers.{i}.attention_norm"},
            {"encoder.layer.{i}.intermediate.dense", "stack.layers.{i}.feed_forward.in"},
            {"encoder.layer.{i}.output.dense", "stack.layers.{i}.feed_forward.out"},
            {"encoder.layer.{i}.output.LayerNorm", "stack.layers.{i}.feed_forward_norm"}};
  f.load.ignored = {"embeddings.position_ids", "embeddings.token_type_ids"};
  return f;
}

void read_bert_labels(Settings& s, TextFamily& f) {
  TextConfig& c = f.config;
  c.output_bias = true;
  c.head_dropout = s.maybe<float>("classifier_dropout").value_or(c.stack.dropout);
  if (f.is("ForTokenClassification")) {
    c.task = TextTask::token_labels;
    c.labels = s.labels();
    f.head = {{"classifier", "head.output"}};
  } else {
    c.task = TextTask::sequence_labels;
    c.pooler = true;
    read_labels(s, c);
  }
}

}  // namespace transformer
