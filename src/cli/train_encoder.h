#pragma once
// What `train classify`, `train tag` and `train mlm` share.

#include <string>

#include "cli/train.h"
#include "transformer/predict/scores.h"
#include "transformer/train/encoder.h"

namespace transformer::cli {

// Made-up texts instead of files.
struct ToyConfig {
  std::int64_t toy = 0;
  static void visit(auto& self, auto&& field) {
    field("toy", self.toy,
          "train on this many texts of a made-up language instead of files; they are written to the folder toy in save_dir, and others to "
          "validate and to test with");
  }
  // Where the texts of training and of validation end, and all.
  std::int64_t training() const;
  std::int64_t validation() const { return training() + 2000; }
  std::int64_t texts() const { return validation() + 2000; }
};
// Writes SAVE_DIR/toy/NAME; its path.
std::string write_toy(const std::string& save_dir, const std::string& name, const std::string& text);

// Settings of training that suit encoders, instead of those for translators.
TrainConfig encoder_training(const std::string& best_metric);

// Where the user has not chosen a metric: the first that the task measures beside the loss.
void use_best_metric(TrainConfig& training, const Task& task);

// With --from: the dropout that the user has set. Error (of usage) for settings that would make another model of the folder's.
EncoderStart encoder_start(const CLI::App& verb, const EncoderStart& start, const EncoderConfig& model,
                           const EncoderVocabulary& vocabulary);

// What was odd about the texts; the line "model: …".
void say(const TextReport& report);
void say_model(EncoderTask& task);
// The best model's figures on the file of test, or else of validation: on the screen and as SAVE_DIR/test_report.json.
void say_how_good(const std::string& save_dir, const std::string& valid, const std::string& test, const Evaluation& result,
                  const std::string& samples);

}  // namespace transformer::cli
