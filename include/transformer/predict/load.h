#pragma once
// One way to open a folder for what it is used for:
//
//   Context ctx;
//   auto generator = load<Generator>(ctx, "gpt2");
//   auto translator = load<Translator>(ctx, "opus-mt-en-de");
//   auto classifier = load<Classifier>(ctx, "distilbert-sst2");
//   auto embedder = load<Embedder>(ctx, "all-MiniLM-L6-v2");
//   auto forecaster = load<Forecaster>(ctx, "oracle");
//
// Each brings what its folder has beside the weights: tokenizer, preprocessing, the scale of a series. Error for a model of another
// kind says what it is for. load_model (models/model.h) opens the model alone.

#include <concepts>
#include <filesystem>
#include <utility>

#include "transformer/core/context.h"

namespace transformer {

template <class T, class... Options>
requires requires(Context& ctx, const std::filesystem::path& folder, Options&&... options) {
  { T::load(ctx, folder, std::forward<Options>(options)...) } -> std::same_as<T>;
}
T load(Context& ctx, const std::filesystem::path& folder, Options&&... options) {
  return T::load(ctx, folder, std::forward<Options>(options)...);
}

}  // namespace transformer
