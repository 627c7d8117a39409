#pragma once
// A training that is watched: the numbers it writes, and what its newest checkpoint says. The training does not know of it: all is read
// from its folder.

#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "serve/requests.h"
#include "serve/thinned.h"
#include "serve/wanted.h"
#include "transformer/predict/classifier.h"
#include "transformer/predict/generator.h"
#include "transformer/predict/translator.h"

namespace transformer::serve {

class WatchedTraining {
 public:
  WatchedTraining(std::filesystem::path folder, const ContextOptions& context);

  // Lines of metrics.jsonl from byte `from` on, where the next ones begin, and the step of the newest checkpoint. points: all that there
  // are, thinned to so many of each curve; none: as they stand there, up to a size.
  nlohmann::json metrics(std::int64_t from, std::optional<std::int64_t> points);
  // What the newest checkpoint makes of a text: it goes on from it, translates it, labels it. ApiError 404 while there is none, 400 for a
  // model that reads no text. One at a time: a training wants the processor too.
  nlohmann::json sample(const SampleRequest& request, const Wanted& wanted);

  const std::filesystem::path& folder() const { return folder_; }

 private:
  struct Newest {
    std::filesystem::path folder;
    std::int64_t step = 0;
  };
  std::optional<Newest> newest() const;
  void open(const Newest& checkpoint);

  std::filesystem::path folder_;
  ContextOptions context_options_;
  std::mutex curves_mutex_;  // of the next two: what was thinned of the file so far, up to a byte
  std::optional<ThinnedRows> curves_;
  std::int64_t thinned_ = 0;
  std::mutex mutex_;  // of the rest: the checkpoint that was asked last
  Newest opened_;
  std::optional<Context> ctx_;
  std::optional<Generator> generator_;
  std::optional<Translator> translator_;
  std::optional<Classifier> classifier_;
};

}  // namespace transformer::serve
