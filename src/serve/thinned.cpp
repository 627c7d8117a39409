#include "serve/thinned.h"

namespace transformer::serve {

using nlohmann::json;

void ThinnedRows::Bucket::add(const Bucket& other) {
  if (other.least.value < least.value) least = other.least;
  if (other.greatest.value > greatest.value) greatest = other.greatest;
}

void ThinnedRows::add(const json& row) {
  const std::int64_t number = rows_++;
  const auto step = row.find("step"), split = row.find("split");
  if (step == row.end() || !step->is_number_integer() || split == row.end() || !split->is_string()) return;
  for (const auto& [name, value] : row.items()) {
    if (name == "step" || !value.is_number()) continue;
    const Point point{number, step->get<std::int64_t>(), value.get<double>()};
    Curve& curve = curves_[{split->get<std::string>(), name}];
    if (curve.buckets.empty()) curve.first = point, curve.in_last = curve.width;
    curve.last = point;
    if (curve.in_last < curve.width) {
      curve.buckets.back().add({point, point}), ++curve.in_last;
      continue;
    }
    curve.buckets.push_back({point, point}), curve.in_last = 1;
    if (2 * std::ssize(curve.buckets) <= points_) continue;
    // Two become one. The last is alone where their number is odd.
    const std::size_t count = curve.buckets.size();
    if (count % 2 == 0) curve.in_last += curve.width;
    for (std::size_t i = 0; i < count; i += 2) {
      if (i + 1 < count) curve.buckets[i].add(curve.buckets[i + 1]);
      curve.buckets[i / 2] = curve.buckets[i];
    }
    curve.buckets.resize((count + 1) / 2);
    curve.width *= 2;
  }
}

json ThinnedRows::records() const {
  std::map<std::int64_t, json> rows;
  for (const auto& [key, curve] : curves_) {
    const auto keep = [&, &split = key.first, &name = key.second](const Point& point) {
      json& row = rows[point.row];
      row["step"] = point.step, row["split"] = split, row[name] = point.value;
    };
    keep(curve.first), keep(curve.last);
    for (const Bucket& bucket : curve.buckets) keep(bucket.least), keep(bucket.greatest);
  }
  json all = json::array();
  for (auto& [number, row] : rows) all.push_back(std::move(row));
  return all;
}

}  // namespace transformer::serve
