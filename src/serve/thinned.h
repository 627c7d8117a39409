#pragma once
// The rows of a training's numbers, made fewer as they come, so that curves keep their shape: of neighbouring rows the least and the
// greatest value of each curve stay, and so do its first and its last one.

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace transformer::serve {

class ThinnedRows {
 public:
  // points: of each curve, about.
  explicit ThinnedRows(std::int64_t points) : points_(points) {}

  std::int64_t points() const { return points_; }
  std::int64_t rows() const { return rows_; }  // that were added
  void add(const nlohmann::json& row);
  // In their order; each with its step, its split and those numbers that stay.
  nlohmann::json records() const;

 private:
  struct Point {
    std::int64_t row = 0, step = 0;
    double value = 0.0;
  };
  struct Bucket {  // of neighbouring rows
    Point least, greatest;
    void add(const Bucket& other);
  };
  struct Curve {
    Point first, last;
    std::vector<Bucket> buckets = {};
    std::int64_t width = 1, in_last = 0;  // points of each bucket, and of the last one
  };

  std::int64_t points_, rows_ = 0;
  std::map<std::pair<std::string, std::string>, Curve> curves_;  // by split and name
};

}  // namespace transformer::serve
