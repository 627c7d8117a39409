#pragma once
// How good a model is whose answers are not one class each (for those: predict/confusion.h): several labels a text, the entities of a text,
// numbers. And Evaluation, which is any of them with the loss.

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "transformer/predict/confusion.h"
#include "transformer/predict/metrics.h"
#include "transformer/predict/text_report.h"

namespace transformer {

// What was found of each kind: labels, or entities of a type.
//   precision  of what was found, the share that is right
//   recall     of what is there, the share that was found
//   F1         2·precision·recall / (precision + recall)
class FoundScores {
 public:
  struct Counts {
    std::int64_t right = 0, found = 0, there = 0;
    double precision() const;  // 0 when nothing was found
    double recall() const;     // 0 when nothing is there
    double f1() const;
  };

  void add(const std::string& kind, const Counts& counts);
  void add_samples(std::int64_t samples, std::int64_t right) { samples_ += samples, right_ += right; }

  const std::map<std::string, Counts>& kinds() const { return kinds_; }
  Counts total() const;     // of all kinds together: its F1 is micro-F1
  double macro_f1() const;  // the mean of all kinds that are there or were found
  double accuracy() const;  // share of the samples that are right
  std::int64_t samples() const { return samples_; }

 protected:
  std::string rows(const std::string& kind, const std::string& what) const;  // of the table
  nlohmann::json json_of(const char* kinds) const;

 private:
  std::map<std::string, Counts> kinds_;
  std::int64_t samples_ = 0, right_ = 0;
};

// Several labels a text. accuracy: of the texts that have exactly the right ones (subset accuracy).
class LabelScores : public FoundScores {
 public:
  Metrics metrics() const;  // micro_f1, macro_f1, accuracy
  std::string table(const std::string& samples) const;
  nlohmann::json to_json() const;
};

// Entities: right when type, begin and end are, as seqeval counts them. accuracy: of the words' tags.
class EntityScores : public FoundScores {
 public:
  // The tags of a text's words.
  void add_text(const std::vector<std::string>& truth, const std::vector<std::string>& predicted);

  Metrics metrics() const;  // f1, precision, recall (of all entities together), accuracy
  std::string table(const std::string& samples) const;
  nlohmann::json to_json() const;
};

// Numbers: one or several a sample.
class NumberScores {
 public:
  explicit NumberScores(std::vector<std::string> names) : names_(std::move(names)), outputs_(names_.size()) {}

  void add(std::int64_t output, double truth, double predicted);

  std::int64_t samples() const { return outputs_.empty() ? 0 : std::ssize(outputs_.front()); }
  // Of one output; without it the mean of all.
  double mse() const;
  double mae() const;
  double r2() const;       // 1 − Σ(y − ŷ)² / Σ(y − mean(y))²; where all y are equal: 1 if each was told exactly, else 0
  double pearson() const;  // correlation of y and ŷ; 0 where all of either are equal

  Metrics metrics() const;  // r2, mse, mae, pearson
  std::string table(const std::string& samples) const;
  nlohmann::json to_json() const;

 private:
  struct Figures {
    double mse = 0.0, mae = 0.0, r2 = 0.0, pearson = 0.0;
  };
  static Figures figures(const std::vector<std::pair<double, double>>& values);
  double mean(double Figures::*figure) const;

  std::vector<std::string> names_;
  std::vector<std::vector<std::pair<double, double>>> outputs_;  // truth and what was said
};

// How good a model is on texts.
struct Evaluation {
  double loss = 0.0;  // the mean of the model's loss
  std::variant<ConfusionMatrix, LabelScores, EntityScores, NumberScores> scores;
  TextReport report = {};  // what was odd about the texts

  Metrics metrics() const;                              // the loss, then the figures; the first of these decides what is best
  std::string table(const std::string& samples) const;  // for people; samples: "texts"
  nlohmann::json to_json() const;
};

}  // namespace transformer
