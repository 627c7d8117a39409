#pragma once
// Parameters and how modules name them.
//
// A module is a plain struct with one function that names its parts:
//   void visit(auto&& f) { f("weight", weight); f("bias", bias); }
// Loading, saving, initialisation, optimizers, counting: everything goes through it, so each name is written
// once. A module knows the shapes of its parameters from its construction on; memory is taken when they are
// initialised or loaded.

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"

namespace transformer {

enum class Init : std::uint8_t {
  zeros,
  ones,
  xavier_uniform,
  normal,
  sincos,  // a table of positions: sinusoidal_table moved and scaled to mean 0 and deviation 0.1 (PatchTST)
};

struct Parameter {
  Shape shape;  // rank 0: the module does not have this parameter
  Init init = Init::zeros;
  float deviation = 0.02F;               // for Init::normal
  float gain = 1.0F;                     // for Init::xavier_uniform: bound gain · √(6 / (in + out))
  std::vector<std::int64_t> parts = {};  // rows of fused matrices: Q | K | V; empty: one piece
  bool trained = true;                   // false: a buffer, such as running statistics: saved with the model, but no leaf
  Tensor tensor = {};
  const void* layer = nullptr;  // that it is a part of, see autograd/layer_weights.h; parameters() says which. Null: none

  bool present() const { return shape.rank() > 0; }
  operator const Tensor&() const { return tensor; }  // NOLINT: a parameter is used as its tensor
};

struct NamedParameter {
  std::string name;  // "encoder.layers.0.attention.qkv.weight"
  Parameter* parameter;
};

namespace detail {
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

// Calls f(name, part, layer) for every part of a module that is a Leaf, in the order the modules name them. `layer` is the outermost
// module that it is in of those that say `static constexpr bool is_layer = true`, or null.
template <class Leaf, class Module>
void each(const std::string& name, Module& module, const auto& f, const void* layer = nullptr) {
  if constexpr (requires { Module::is_layer; })
    if (layer == nullptr) layer = &module;
  if constexpr (std::is_same_v<Module, Leaf>) {
    f(name, module, layer);
  } else if constexpr (std::is_same_v<Module, Parameter>) {
    return;
  } else if constexpr (IsVector<Module>::value) {
    for (std::size_t i = 0; i < module.size(); ++i) each<Leaf>(name + "." + std::to_string(i), module[i], f, layer);
  } else if constexpr (IsOptional<Module>::value) {
    if (module) each<Leaf>(name, *module, f, layer);
  } else {
    module.visit([&](const char* part, auto& child) { each<Leaf>(name.empty() ? part : name + "." + part, child, f, layer); });
  }
}
}  // namespace detail

// All parameters of a module in the order it names them. They point into the module.
template <class Module>
std::vector<NamedParameter> parameters(Module& module) {
  std::vector<NamedParameter> out;
  detail::each<Parameter>("", module, [&](const std::string& name, Parameter& p, const void* layer) {
    p.layer = layer;
    if (p.present()) out.push_back({name, &p});
  });
  return out;
}

// Fills parameters with fresh values from the context's random numbers and makes leaves of those that are trained.
void initialize(Context& ctx, const std::vector<NamedParameter>& parameters);
template <class Module>
void initialize(Context& ctx, Module& module) {
  initialize(ctx, parameters(module));
}

std::int64_t count(const std::vector<NamedParameter>& parameters);  // elements of those that are trained
template <class Module>
std::int64_t count_parameters(const Module& module) {
  return count(parameters(const_cast<Module&>(module)));
}

}  // namespace transformer
