// BERT. Heads: the base model with its pooler, masked language model, classes of sequences and of tokens.
#include "models/bert_body.h"
#include "models/families.h"

namespace transformer::families {
namespace {

std::unique_ptr<Model> make_bert(Settings& s) {
  TextFamily f = read_bert(s, bert, "bert.", 30522, 0);
  TextConfig& c = f.config;
  if (f.is("Model")) {
    c.pooler = true;
    f.body.push_back({"pooler.dense", "head.pooler"});
    f.load.ignored.emplace_back("cls.");
  } else if (f.is("ForMaskedLM")) {
    c.task = TextTask::masked_lm;
    c.tied = s.get("tie_word_embeddings", true);
    c.output_bias = c.unused_bias = true;
    c.transform = s.activation("hidden_act", "gelu");
    f.head = {{"cls.predictions.transform.dense", "head.transform"}, {"cls.predictions.transform.LayerNorm", "head.transform_norm"}};
    if (c.tied) {
      f.head.push_back({"cls.predictions.bias", "head.bias"});
      f.head.push_back({.theirs = "cls.predictions.decoder.bias", .ours = "head.bias", .tied = true});
      f.head.push_back({.theirs = "cls.predictions.decoder", .ours = "embedder.tokens", .tied = true});
    } else {
      f.head.push_back({"cls.predictions.bias", "head.unused"});
      f.head.push_back({"cls.predictions.decoder", "head.output"});
    }
    // What pretraining had beside it.
    f.load.ignored.insert(f.load.ignored.end(), {"pooler.", "cls.seq_relationship."});
  } else {
    read_bert_labels(s, f);
    if (c.pooler) f.body.push_back({"pooler.dense", "head.pooler"});
    else f.load.ignored.emplace_back("pooler.");
    f.head = {{"classifier", "head.output"}};
  }
  return make_text(std::move(f));
}

}  // namespace

const Family bert{.model_type = "bert",
                  .make = make_bert,
                  .classes = {"BertModel", "BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification"},
                  .dropout = bert_dropout(),
                  .lora_targets = {"query", "value"}};

}  // namespace transformer::families
