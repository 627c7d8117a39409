#pragma once
// What /metrics tells, in Prometheus' text format.

#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "serve/hosted.h"

namespace transformer::serve {

class Counters {
 public:
  void request(const std::string& endpoint, int status, std::chrono::duration<double> took);
  void tokens(const std::string& model, std::int64_t prompt, std::int64_t generated);
  void cancelled(const std::string& model);

  std::string text(std::span<const std::unique_ptr<HostedModel>> models, std::int64_t open_connections) const;

 private:
  static constexpr std::array<double, 11> bounds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0};  // seconds
  struct Times {
    std::array<std::int64_t, bounds.size()> below{};
    std::int64_t count = 0;
    double sum = 0.0;
  };
  struct Tokens {
    std::int64_t prompt = 0, generated = 0, cancelled = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::int64_t> requests_;
  std::map<std::string, Times> times_;
  std::map<std::string, Tokens> tokens_;
};

}  // namespace transformer::serve
