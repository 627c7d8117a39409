#pragma once
// The error of a setting that cannot be. It knows the setting by the name that its configuration gives it (io/config.h), so that a
// program whose users know it by another one can say that: the command turns max_epoch into --max-epoch.

#include "transformer/core/error.h"

namespace transformer {

class SettingError : public Error {
 public:
  // what(): "train: max_epoch is -1: expected 0 or more"; without a key the problem alone.
  SettingError(std::string_view where, std::string_view key, std::string_view problem)
      : Error(where, std::string(key) + (key.empty() ? "" : " ") + std::string(problem)), key_(key), problem_(problem) {}

  const std::string& key() const noexcept { return key_; }          // "max_epoch"; empty: it is about several
  const std::string& problem() const noexcept { return problem_; }  // "is -1: expected 0 or more"

 private:
  std::string key_, problem_;
};

// Throws SettingError. A problem that names other settings puts those in backticks whose names could be words of the language:
//   wrong_setting("train", "min_lr", "is {}: expected 0 to `lr`, {}", c.min_lr, c.lr);
template <class... Args>
[[noreturn]] void wrong_setting(std::string_view where, std::string_view key, fmt::format_string<Args...> problem, Args&&... args) {
  throw SettingError(where, key, fmt::format(problem, std::forward<Args>(args)...));
}

}  // namespace transformer
