#include "series/date_column.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "transformer/core/error.h"

namespace transformer {
namespace {

constexpr const char* no_date = "is not a date";

}  // namespace

std::string shown(std::string_view text) {
  constexpr std::size_t longest = 40;
  return text.size() <= longest ? std::string(text) : fmt::format("{}…", text.substr(0, longest));
}

bool is_date(std::string_view text) {
  DateFormat format;
  if (parse_date(text, format)) return !format.integer;
  const auto patterns = usual_date_patterns();
  return std::any_of(patterns.begin(), patterns.end(), [&](std::string_view p) { return parse_date(text, p, format).has_value(); });
}

DateColumn::DateColumn(std::string table, std::string column, const std::string& format)
    : table_(std::move(table)), column_(std::move(column)), given_(!format.empty()) {
  if (given_) {
    check_date_pattern(format, "--date-format");
    forms_.push_back({.pattern = format});
    return;
  }
  forms_.emplace_back();
  for (const std::string_view pattern : usual_date_patterns()) forms_.push_back({.pattern = std::string(pattern)});
}

std::string DateColumn::Form::add(const std::string& cell) {
  DateFormat found;
  const auto date = pattern.empty() ? parse_date(cell, found) : parse_date(cell, pattern, found);
  if (!date) return no_date;
  if (dates.empty()) {
    format = found;
  } else {
    if (found.integer != format.integer || found.date_parts != format.date_parts)
      return "is written in another way than the dates before it";
    if (found.time_parts > 0 && format.time_parts > 0 && !same_zone(found, format))
      return fmt::format("has another offset from UTC than the rows before it, such as '{}'; give all times in one",
                         write_date(dates.back(), format));
    if (*date <= dates.back())
      return fmt::format("is not after '{}' in the row before; dates must increase: sort the rows, and keep one of each",
                         write_date(dates.back(), format));
    found.padded = found.padded && format.padded;
    if (found.time_parts > format.time_parts) format = found;  // dates with and without a time of day: written with it
    format.padded = found.padded;
  }
  dates.push_back(*date);
  return "";
}

void DateColumn::add(const std::string& cell, const std::function<std::string()>& place) {
  const bool first = first_.empty();
  if (first) first_ = cell;
  std::string wrong;
  const auto refuses = [&](Form& form) {
    const std::string what = form.add(cell);
    if (wrong.empty() || wrong == no_date) wrong = what;  // of a form that cannot be meant there is nothing to say
    return !what.empty();
  };
  std::erase_if(forms_, refuses);
  if (!forms_.empty()) return;
  if (wrong == no_date && given_) wrong = "is not a date as --date-format says";
  else if (wrong == no_date && (first || !is_date(cell))) wrong = fmt::format("is not a date; expected {}", date_forms);
  else if (wrong == no_date) wrong = "is written in another way than the dates before it";
  fail(table_, "{}, column '{}': '{}' {}", place(), column_, shown(cell), wrong);
}

void DateColumn::finish(std::vector<std::int64_t>& dates, DateFormat& format) {
  if (forms_.size() > 1 && !forms_.front().pattern.empty()) {
    std::vector<std::string> patterns;
    for (const Form& form : forms_) patterns.push_back(form.pattern);
    fail(table_, "column '{}': the dates, such as '{}', may be read in {} ways; say which it is: --date-format {}", column_, shown(first_),
         forms_.size(), fmt::join(patterns, " or --date-format "));
  }
  dates = std::move(forms_.front().dates);
  format = forms_.front().format;
  // Integers that are all dates such as 20240229 are dates.
  if (!format.integer || !std::all_of(dates.begin(), dates.end(), [](std::int64_t d) { return compact_date(d).has_value(); })) return;
  for (std::int64_t& date : dates) date = *compact_date(date);
  format = {.compact = true};
}

}  // namespace transformer
