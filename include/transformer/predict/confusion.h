#pragma once
// How good a classifier is: accuracy, precision and recall of each class, macro-F1, and which classes it takes for which.
//
//   ConfusionMatrix matrix({"bad", "good"});
//   matrix.add(truth, predicted);               // for each sample
//   fmt::print("{}", matrix.table("texts"));

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "transformer/predict/metrics.h"

namespace transformer {

class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::vector<std::string> names);

  void add(std::int64_t truth, std::int64_t predicted);

  const std::vector<std::string>& names() const { return names_; }
  std::int64_t total() const { return total_; }
  std::int64_t count(std::int64_t truth, std::int64_t predicted) const;
  std::int64_t samples(std::int64_t c) const { return truth_[index(c)]; }          // that are of this class
  std::int64_t predictions(std::int64_t c) const { return predicted_[index(c)]; }  // that were taken for it

  double accuracy() const;                 // share of the samples that were told rightly
  double precision(std::int64_t c) const;  // of what was taken for the class, the share that is it; 0 when there is none
  double recall(std::int64_t c) const;     // of what is the class, the share that was found; 0 when there is none
  double f1(std::int64_t c) const;         // 2·precision·recall / (precision + recall)
  double macro_f1() const;                 // the mean of all classes that are there or were predicted, each counting the same

  Metrics metrics() const;  // accuracy, macro_f1
  // For people: a line of figures, a table of the classes, and, up to 20 classes, the matrix. `samples`: what they are, "texts".
  std::string table(const std::string& samples) const;
  nlohmann::json to_json() const;  // the same; the matrix up to 1000 classes

 private:
  static std::size_t index(std::int64_t c) { return static_cast<std::size_t>(c); }
  std::vector<std::string> names_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> counts_;  // (truth, predicted): there may be many classes
  std::vector<std::int64_t> truth_, predicted_;
  std::int64_t total_ = 0;
};

}  // namespace transformer
