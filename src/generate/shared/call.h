#pragma once
// What is generated or searched for, from the settings to the sources of a loop: the part of generate() and search() that a program needs
// which runs the loop itself, as a server does.
//
//   auto call = std::make_shared<const GenerationCall>(config, options);
//   loop.add(call->source(model, prompt, 0, [&](std::vector<Generated> found) { … }));

#include <memory>

#include "generate/shared/loop.h"
#include "transformer/generate/generate.h"
#include "transformer/generate/search.h"

namespace transformer {

class GenerationCall : public std::enable_shared_from_this<GenerationCall> {
 public:
  using Done = std::function<void(std::vector<Generated>)>;

  GenerationCall(const GenerationConfig& config, const GenerateOptions& options);  // Error where they cannot be
  // Of the prompt with this number in the call; its ids must be there until it is done. Error when it is empty or too long.
  LoopSource source(const SequenceModel& model, std::span<const std::int32_t> prompt, std::size_t number, Done done) const;

 private:
  class Prompt;
  GenerationConfig config_;
  GenerateOptions options_;
  std::shared_ptr<const LoopOptions> loop_;
};

// The same for search().
class SearchCall {
 public:
  using Done = std::function<void(std::vector<Hypothesis>)>;

  SearchCall(const SequenceModel& model, const GenerationConfig& config, const SearchOptions& options);
  LoopSource source(std::span<const std::int32_t> ids, Done done) const;

 private:
  std::int64_t least(std::int64_t prompt) const;

  const SequenceModel& model_;
  GenerationConfig config_;
  SearchOptions options_;
  std::shared_ptr<const LoopOptions> loop_;
};

}  // namespace transformer
