#pragma once
// The one error type of the library. Everything that can go wrong because of what the caller gave
// (shapes, dtypes, devices, files) is thrown as Error; nothing in the library aborts or exits.

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

namespace transformer {

class Error : public std::runtime_error {
 public:
  Error(std::string_view where, const std::string& message) : std::runtime_error(std::string(where) + ": " + message), where_(where) {}

  // The op, module or file that refused: "linear", "attention", "model.safetensors".
  const std::string& where() const noexcept { return where_; }

 private:
  std::string where_;
};

// Throws Error. Say what was given, what was expected and, where it helps, what to do:
//   fail("linear", "x {} does not fit weight {}: expected x [..., {}]", x.shape(), w.shape(), w.dim(1));
template <class... Args>
[[noreturn]] void fail(std::string_view where, fmt::format_string<Args...> message, Args&&... args) {
  throw Error(where, fmt::format(message, std::forward<Args>(args)...));
}

namespace detail {
// Base of the formatters of our types: "{}" only, written with a string (needs no more than fmt/core.h).
struct PlainFormatter {
  constexpr auto parse(fmt::format_parse_context& ctx) { return ctx.begin(); }
  static auto write(std::string_view text, fmt::format_context& ctx) { return std::copy(text.begin(), text.end(), ctx.out()); }
};
}  // namespace detail

}  // namespace transformer
