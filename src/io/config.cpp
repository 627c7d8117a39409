#include "transformer/io/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

namespace transformer {
namespace {

// Insertions, deletions, replacements and exchanges of two neighbours that turn a into b.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before = std::exchange(row, std::exchange(next, before));
  }
  return row.back();
}

// A slip of the pen: a third of the letters at most, or the beginning or the end left out.
bool is_near(std::string_view a, std::string_view b, std::size_t edits) {
  if (edits <= std::max<std::size_t>(1, std::max(a.size(), b.size()) / 3)) return true;
  if (a.size() > b.size()) std::swap(a, b);
  return a.size() >= 3 && (b.starts_with(a) || b.ends_with(a));
}

}  // namespace

std::string did_you_mean(std::string_view given, const std::vector<std::string>& known) {
  constexpr std::size_t longest = 100;  // what is longer is not a slip of the pen, and long to compare
  const auto bare = [](std::string_view name) { return name.substr(std::min(name.size(), name.find_first_not_of('-'))); };
  const std::string* nearest = nullptr;
  for (std::size_t fewest = longest; const std::string& name : known) {
    if (given.size() > longest || name.size() > longest) continue;
    if (const std::size_t n = edits(bare(given), bare(name)); n < fewest && is_near(bare(given), bare(name), n))
      fewest = n, nearest = &name;
  }
  return nearest == nullptr ? "" : fmt::format("; did you mean '{}'?", *nearest);
}

namespace detail {

void wrong_type(std::string_view key, std::string_view expected, const nlohmann::json& given) {
  std::string text = given.is_array() ? "a list"
      : given.is_object()             ? "an object"
                                      : given.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  if (key.empty()) fail("config", "expected {}, got {}", expected, text);
  fail("config", "key '{}': expected {}, got {}", key, expected, text);
}

void wrong_name(std::string_view key, std::string_view given, const std::vector<std::string>& known) {
  std::string all;
  for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
  fail("config", "key '{}': '{}' is not one of {}{}", key, given, all, did_you_mean(given, known));
}

void unknown_key(std::string_view key, std::string_view inside, const std::vector<std::string>& known) {
  if (inside.empty()) fail("config", "unknown key '{}'{}", key, did_you_mean(key, known));
  fail("config", "unknown key '{}' in '{}'{}", key, inside, did_you_mean(key, known));
}

nlohmann::json from_float(std::string_view key, float value) {
  if (!std::isfinite(value)) fail("config", "key '{}': {} cannot be written as JSON", key, value);
  char text[64];
  const auto written = std::to_chars(text, text + sizeof(text), value);
  double wide = 0.0;
  std::from_chars(text, written.ptr, wide);
  return wide;
}

nlohmann::json from_double(std::string_view key, double value) {
  if (!std::isfinite(value)) fail("config", "key '{}': {} cannot be written as JSON", key, value);
  return value;
}

}  // namespace detail
}  // namespace transformer
