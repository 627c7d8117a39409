// RoBERTa: BERT whose positions are counted from the ids, beginning after the row of the padding, and with other heads.
#include "models/bert_body.h"
#include "models/families.h"

namespace transformer::families {
namespace {

std::unique_ptr<Model> make_roberta(Settings& s) {
  TextFamily f = read_bert(s, roberta, "roberta.", 50265, 1);
  TextConfig& c = f.config;
  if (c.padding < 0) s.refuse("pad_token_id", "positions are counted from it");
  c.positions_skip_padding = true;
  c.position_offset = c.padding + 1;
  c.max_positions = c.positions - c.position_offset;
  if (c.max_positions < 1) s.refuse("max_position_embeddings", "no position is left behind the row of the padding");
  if (f.is("Model")) {
    c.pooler = true;
    f.body.push_back({"pooler.dense", "head.pooler"});
    f.load.ignored.emplace_back("lm_head.");
  } else if (f.is("ForMaskedLM")) {
    c.task = TextTask::masked_lm;
    c.tied = s.get("tie_word_embeddings", true);
    c.output_bias = c.unused_bias = true;
    c.transform = Activation::gelu;  // whatever hidden_act is
    f.head = {{"lm_head.dense", "head.transform"}, {"lm_head.layer_norm", "head.transform_norm"}};
    if (c.tied) {
      f.head.push_back({"lm_head.bias", "head.bias"});
      f.head.push_back({.theirs = "lm_head.decoder.bias", .ours = "head.bias", .tied = true});
      f.head.push_back({.theirs = "lm_head.decoder", .ours = "embedder.tokens", .tied = true});
    } else {
      f.head.push_back({"lm_head.bias", "head.unused"});
      f.head.push_back({"lm_head.decoder", "head.output"});
    }
    f.load.ignored.emplace_back("pooler.");
  } else {
    read_bert_labels(s, f);
    f.load.ignored.insert(f.load.ignored.end(), {"pooler.", "lm_head."});
    if (f.is("ForSequenceClassification")) {
      c.pooler_dropout = c.head_dropout;
      f.head = {{"classifier.dense", "head.pooler"}, {"classifier.out_proj", "head.output"}};
    }
  }
  return make_text(std::move(f));
}

}  // namespace

const Family roberta{.model_type = "roberta",
                     .make = make_roberta,
                     .classes = {"RobertaModel", "RobertaForMaskedLM", "RobertaForSequenceClassification", "RobertaForTokenClassification"},
                     .dropout = bert_dropout(),
                     .lora_targets = {"query", "value"}};

}  // namespace transformer::families
