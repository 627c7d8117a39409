#pragma once
// Looks for stop strings in text that comes in pieces.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transformer {

class StopText {
 public:
  explicit StopText(const std::vector<std::string>& stops) : stops_(stops) {}

  // What of the text so far is certain not to belong to a stop string and was not given before.
  std::string push(std::string_view piece);
  // What was held back, when nothing more comes.
  std::string rest() { return stopped_ ? std::string() : std::exchange(held_, {}); }
  bool stopped() const { return stopped_; }

 private:
  const std::vector<std::string>& stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace transformer
