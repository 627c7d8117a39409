// DistilBERT: BERT without token types and pooler.
#include "models/families.h"
#include "models/text_family.h"

namespace transformer::families {
namespace {

std::unique_ptr<Model> make_distilbert(Settings& s) {
  s.alias("hidden_size", "dim");
  s.alias("num_attention_heads", "n_heads");
  s.alias("num_hidden_layers", "n_layers");
  TextFamily f{.architecture = s.architecture(distilbert.classes), .base = "distilbert."};
  refuse_decoder(s);
  // Sinusoids are only what the table of positions begins with; it is in the checkpoint.
  s.neutral({"sinusoidal_pos_embds", "qa_dropout", "seq_classif_dropout", "tie_weights_", "tie_word_embeddings", "problem_type"});

  TextConfig& c = f.config;
  c.stack = {.d_model = s.size("dim", 768),
             .heads = s.size("n_heads", 12),
             .d_ff = s.size("hidden_dim", 3072),
             .layers = s.layers("n_layers", 6),
             .norm_eps = 1e-12F,
             .feed_forward = feed_forward_of(s.activation("activation", "gelu"), false),
             .dropout = s.get("dropout", 0.1F),
             .attention_output_dropout = 0.0F,
             .attention_dropout = s.get("attention_dropout", 0.1F)};
  c.vocabulary = s.size("vocab_size", 30522);
  c.padding = s.maybe<std::int64_t>("pad_token_id", 0).value_or(-1);
  c.positions = c.max_positions = s.size("max_position_embeddings", 512);
  c.embedding_norm = true;
  c.embedding_dropout = c.stack.dropout;
  f.body = {{"embeddings.word_embeddings", "embedder.tokens"},
            {"embeddings.position_embeddings", "embedder.positions"},
            {"embeddings.LayerNorm", "embedder.norm"},
            {"transformer.layer.{i}.attention.q_lin", "stack.layers.{i}.attention.qkv", 0},
            {"transformer.layer.{i}.attention.k_lin", "stack.layers.{i}.attention.qkv", 1},
            {"transformer.layer.{i}.attention.v_lin", "stack.layers.{i}.attention.qkv", 2},
            {"transformer.layer.{i}.attention.out_lin", "stack.layers.{i}.attention.out"},
            {"transformer.layer.{i}.sa_layer_norm", "stack.layers.{i}.attention_norm"},
            {"transformer.layer.{i}.ffn.lin1", "stack.layers.{i}.feed_forward.in"},
            {"transformer.layer.{i}.ffn.lin2", "stack.layers.{i}.feed_forward.out"},
            {"transformer.layer.{i}.output_layer_norm", "stack.layers.{i}.feed_forward_norm"}};
  f.load.ignored = {"embeddings.position_ids"};

  const std::initializer_list<std::string> language{"vocab_transform.", "vocab_layer_norm.", "vocab_projector."};
  if (f.is("ForMaskedLM")) {
    c.task = TextTask::masked_lm;
    c.tied = s.get("tie_word_embeddings", true);
    c.output_bias = true;
    c.transform = s.activation("activation", "gelu");
    f.head = {{"vocab_transform", "head.transform"}, {"vocab_layer_norm", "head.transform_norm"}};
    if (c.tied) {
      f.head.push_back({"vocab_projector.bias", "head.bias"});
      f.head.push_back({.theirs = "vocab_projector", .ours = "embedder.tokens", .tied = true});
    } else {
      f.head.push_back({"vocab_projector", "head.output"});
    }
  } else if (f.is("ForSequenceClassification")) {
    c.task = TextTask::sequence_labels;
    c.output_bias = c.pooler = c.pooler_relu = true;
    c.head_dropout = s.get("seq_classif_dropout", 0.2F);
    read_labels(s, c);
    f.head = {{"pre_classifier", "head.pooler"}, {"classifier", "head.output"}};
    f.load.ignored.insert(f.load.ignored.end(), language);
  } else if (f.is("ForTokenClassification")) {
    c.task = TextTask::token_labels;
    c.output_bias = true;
    c.head_dropout = c.stack.dropout;
    c.labels = s.labels();
    f.head = {{"classifier", "head.output"}};
    f.load.ignored.insert(f.load.ignored.end(), language);
  } else {
    f.load.ignored.insert(f.load.ignored.end(), language);
  }
  return make_text(std::move(f));
}

}  // namespace

const Family distilbert{
    .model_type = "distilbert",
    .make = make_distilbert,
    .classes = {"DistilBertModel", "DistilBertForMaskedLM", "DistilBertForSequenceClassification", "DistilBertForTokenClassification"},
    .dropout = {.all = {"dropout"}, .attention = {"attention_dropout"}},
    .lora_targets = {"q_lin", "v_lin"}};

}  // namespace transformer::families
