#pragma once
// Models with random weights, by their config.json.

#include <memory>
#include <nlohmann/json.hpp>

#include "transformer/models/model.h"
#include "transformer/nn/parameter.h"

namespace transformer::test {

inline nlohmann::json with(nlohmann::json config, const nlohmann::json& changes) {
  config.update(changes);
  return config;
}

inline std::unique_ptr<Model> fresh(Context& ctx, const nlohmann::json& config) {
  auto model = make_model(config);
  initialize(ctx, model->parameters());
  return model;
}

}  // namespace transformer::test
