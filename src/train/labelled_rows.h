#pragma once
// A file of texts and their labels, as it was read: what the labels are, and all of it as tokens.

#include "transformer/tokenizers/tokenizer.h"
#include "transformer/train/classify.h"

namespace transformer {

// What a head gives: its kind, and the names of its outputs.
struct LabelHead {
  ProblemType problem = ProblemType::single_label;
  std::vector<std::string> names = {};
};

// Keys of config.json: id2label, label2id, problem_type.
nlohmann::json head_json(const LabelHead& head);
// The head that the config.json of a …ForSequenceClassification describes; no names where it is of something else, or does not name all.
LabelHead head_of(const nlohmann::json& config);

struct LabelledRows {
  std::string path;
  std::vector<std::string> texts, second;        // second: of pairs
  std::vector<std::vector<std::string>> labels;  // of each text, as they are spelled
  std::vector<std::int64_t> lines;
  bool lists = false;  // there are lists of labels

  LabelledRows(const std::string& file, const LabelledColumns& columns);

  // What the labels are: lists are several, and where all are numbers, not all of them whole, they are numbers; else one class each.
  ProblemType problem() const;
  // The head for these labels: classes sorted by name. Error names what does not fit the problem.
  LabelHead head(ProblemType problem) const;
  // Error names a line whose labels the head does not give. known_by: who has the classes.
  void check(const LabelHead& head, const std::string& known_by) const;

  LabelledTokens tokens(Context& ctx, const TokenizerPtr& tokenizer, std::int64_t longest, const LabelHead& head, TextReport& report) const;
};

}  // namespace transformer
