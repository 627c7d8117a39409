#pragma once
// Command-line flags from a configuration's field visitor (transformer/io/config.h): --d-model N for d_model, with the
// field's text as help and its value as default.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "transformer/io/config.h"

namespace transformer::cli {

template <Configuration C>
void add_flags(CLI::App& app, C& config) {
  C::visit(config, [&](std::string_view name, auto& value, std::string_view help) {
    using T = std::remove_reference_t<decltype(value)>;
    std::string flag = "--" + std::string(name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    if constexpr (std::is_enum_v<T>) {
      std::vector<std::string> known;
      std::string current;
      for (const auto& [candidate, text] : names(T{})) {
        known.emplace_back(text);
        if (candidate == value) current = text;
      }
      auto set = [&value](const std::string& given) {
        for (const auto& [candidate, text] : names(T{}))
          if (text == given) value = candidate;
      };
      app.add_option_function<std::string>(flag, set, std::string(help))->check(CLI::IsMember(known))->default_str(current);
    } else {
      app.add_option(flag, value, std::string(help))->capture_default_str();
    }
  });
}

}  // namespace transformer::cli
