#pragma once
// Command-line flags from a configuration's field visitor (transformer/io/config.h): --d-model N for d_model, with the
// field's text as help and its value as default.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <type_traits>

#include "transformer/io/config.h"

namespace transformer::cli {

template <Configuration C>
void add_flags(CLI::App& app, C& config) {
  C::visit(config, [&](std::string_view name, auto& value, std::string_view help) {
    using T = std::remove_reference_t<decltype(value)>;
    std::string flag = "--" + std::string(name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    if constexpr (std::is_enum_v<T>) {
      std::map<std::string, T> values;
      std::string current;
      for (const auto& [candidate, text] : names(T{})) {
        values.emplace(text, candidate);
        if (candidate == value) current = text;
      }
      app.add_option(flag, value, std::string(help))->transform(CLI::CheckedTransformer(values))->default_str(current);
    } else {
      app.add_option(flag, value, std::string(help))->capture_default_str();
    }
  });
}

}  // namespace transformer::cli
