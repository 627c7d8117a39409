#pragma once
// What a task gives to the one training loop (train/trainer.h): its parameters, its batches, its loss, its validation.

#include <any>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transformer/nn/parameter.h"
#include "transformer/predict/metrics.h"

namespace transformer {

// A batch as it was prepared on the host, off the training thread.
struct Batch {
  std::any content;          // whatever the task's prepare() made for its loss()
  std::int64_t targets = 0;  // terms of the loss: the weight of this batch in a sum of several
  std::int64_t tokens = 0;   // real ones, on both sides (or images …): what tokens per second counts
};

// A part of a batch: parts are about equal, and each sample is in one of them.
struct Share {
  std::int64_t part = 0, parts = 1;
};

// How progress speaks of a task: "29.0k tok/s", and of the metric tokens_per_second.
struct TaskWords {
  std::string_view unit = "tok", units = "tokens";
  bool perplexity = true;  // the loss is a mean log-probability of tokens: its exponential is shown too
};

class Task {
 public:
  virtual ~Task() = default;
  virtual TaskWords words() const { return {}; }

  // The same parameters in the same order at every call, all of them leaves.
  virtual std::vector<NamedParameter> parameters() = 0;
  // What a forward pass of training changes beside them: batch norm's running means and variances. They belong to the weights: averages
  // are taken of them too.
  virtual std::vector<NamedParameter> statistics() { return {}; }

  // What must be the same when training is resumed: data, vocabulary, architecture. A JSON object of objects; a
  // difference is reported by its path.
  virtual nlohmann::json identity() const = 0;
  // What the finished model is only judged by: it may be another when training is resumed, but is the same for all processes.
  virtual nlohmann::json evaluation() const { return nlohmann::json::object(); }

  // Decides the batches of an epoch (they count from 0), as a function of the seed and the epoch alone; returns how many.
  virtual std::int64_t plan(std::int64_t epoch) = 0;
  // Batch `index` of the planned epoch, or a part of it, which may be empty (no targets). Called from a background thread.
  virtual Batch prepare(std::int64_t index, const Share& share = {}) const = 0;
  // The mean over the batch's targets, on the tape.
  virtual Tensor loss(Context& ctx, const Batch& batch) const = 0;

  // "loss" and whatever else the task measures; nothing when there is no validation data.
  virtual Metrics validate(Context& ctx) = 0;
  // The names of what validate() may measure, known before training; none when there is no validation data.
  virtual std::vector<std::string> metrics() const = 0;

  // The model in the layout that users open: config, weights, tokenizer. load reads the weights back.
  virtual void save(const std::filesystem::path& folder) = 0;
  virtual void load(Context& ctx, const std::filesystem::path& folder) = 0;
  // Writes the files that save() writes beside the weights, as far as they are known: small ones.
  virtual void write_beside(const std::filesystem::path&) const {}
};

}  // namespace transformer
