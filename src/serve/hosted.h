#pragma once
// A model that is served: its folder opened for what it is for, and the engine that computes with it.

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "generate/shared/call.h"
#include "serve/engine.h"
#include "transformer/core/lazy.h"
#include "transformer/explain/explainer.h"
#include "transformer/models/model.h"
#include "transformer/predict/classifier.h"
#include "transformer/predict/embedder.h"
#include "transformer/predict/forecaster.h"
#include "transformer/predict/generator.h"
#include "transformer/predict/translator.h"

namespace transformer::serve {

class HostedModel {
 public:
  HostedModel(std::string name, std::filesystem::path folder, const ContextOptions& context, const EngineLimits& limits);

  const std::string& name() const { return name_; }
  const std::filesystem::path& folder() const { return folder_; }
  std::int64_t created() const { return created_; }  // when its weights were written, in seconds since 1970
  Purpose purpose() const { return purpose_; }
  Engine& engine() { return *engine_; }
  void loaded() { engine_->loaded(); }

  // What it is opened for; null where it is not for that.
  const Generator* generator() const { return generator_ ? &*generator_ : nullptr; }
  struct Translation {
    Translator translator;
    EncoderDecoderView view;
    explicit Translation(Translator t) : translator(std::move(t)), view(translator.view()) {}
  };
  bool translates() const { return purpose_ == Purpose::another_text; }
  // For these languages, as the model calls them; "": what the folder says. Error for one that it does not know.
  std::shared_ptr<const Translation> translation(const Languages& languages = {});
  // The languages that a name such as opus-mt-en-de tells; empty: it tells none.
  Languages named_languages() const;
  const Classifier* classifier() const { return classifier_ ? &*classifier_ : nullptr; }
  const Forecaster* forecaster() const { return forecaster_ ? &*forecaster_ : nullptr; }
  const Embedder* embedder() const { return embedder_ ? &*embedder_ : nullptr; }
  const Explainer& explainer();                                          // on the engine's thread: it is made when it is first asked for
  const TokenizerPair& tokenizers() const { return tokenizers_; }        // null where it has none
  std::shared_ptr<const std::vector<std::string>> target_bytes() const;  // of each token, see tokenizers/shared/token_bytes.h
  std::shared_ptr<const Model> model() const { return model_; }

 private:
  Engine::Loaded load(Context& ctx);

  std::string name_;
  std::filesystem::path folder_;
  std::int64_t created_ = 0;
  Purpose purpose_ = Purpose::text_vectors;
  std::optional<Generator> generator_;
  std::shared_ptr<const Model> model_;
  std::mutex mutex_;  // of the next
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const Translation>> translations_;
  std::optional<Classifier> classifier_;
  std::optional<Forecaster> forecaster_;
  std::optional<Embedder> embedder_;
  std::optional<Explainer> explainer_;
  TokenizerPair tokenizers_;
  Lazy<std::shared_ptr<const std::vector<std::string>>> target_bytes_;
  std::unique_ptr<Engine> engine_;  // the last: it uses the others
};

}  // namespace transformer::serve
