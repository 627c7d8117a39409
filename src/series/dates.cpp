#include "transformer/series/dates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <functional>
#include <vector>

#include "series/date_pattern.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

using std::chrono::day;
using std::chrono::month;
using std::chrono::sys_days;
using std::chrono::year;
using std::chrono::year_month_day;

constexpr std::int64_t furthest = std::int64_t{1} << 61;  // integers beyond it are no dates: differences must not overflow

std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

year_month_day calendar_of(std::int64_t seconds) { return sys_days(std::chrono::days(floor_divide(seconds, a_day))); }
std::int64_t time_of_day(std::int64_t seconds) { return seconds - floor_divide(seconds, a_day) * a_day; }
std::int64_t seconds_of(const year_month_day& date) { return sys_days(date).time_since_epoch().count() * a_day; }
std::int64_t months_of(const year_month_day& date) { return static_cast<int>(date.year()) * 12 + static_cast<unsigned>(date.month()) - 1; }

unsigned last_day(year y, month m) { return static_cast<unsigned>((y / m / std::chrono::last).day()); }

[[noreturn]] void too_far() { fail("dates", "the dates go beyond the year 9999"); }

// Takes exactly `digits` digits off the front.
std::optional<int> take_digits(std::string_view& text, std::size_t digits) {
  int value = 0;
  if (text.size() < digits) return std::nullopt;
  for (std::size_t i = 0; i < digits; ++i) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  return value;
}
bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<std::int64_t> parse_integer(std::string_view text, DateFormat& format) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > furthest || value < -furthest) return std::nullopt;
  format = {.integer = true};
  return value;
}

// The time of day behind a date: a space or T, HH:MM[:SS[.000]], a zone. Hours have `digits` digits or two.
bool take_time(std::string_view text, std::size_t digits, DateFormat& found, std::int64_t& seconds) {
  if (text.front() != ' ' && text.front() != 'T') return false;
  found.between = text.front();
  text.remove_prefix(1);
  std::array<int, 3> time{};
  constexpr std::array limits{24, 60, 60};
  for (std::size_t i = 0; i < 2 || (i < 3 && text.starts_with(':')); ++i) {
    if (i > 0 && !take(text, ':')) return false;
    const auto part = take_digits(text, i == 0 && text.find(':') == digits ? digits : 2);
    if (!part || *part >= limits[i]) return false;
    time[i] = *part;
    found.time_parts = static_cast<int>(i) + 1;
  }
  // Dates are whole seconds: parts of one are read where they are nothing.
  if (found.time_parts == 3 && take(text, '.')) {
    while (found.fraction < 9 && take(text, '0')) ++found.fraction;
    if (found.fraction == 0) return false;
  }
  found.zone = text;
  if (!text.empty() && (!take_zone(text) || !text.empty())) return false;
  seconds += time[0] * 3600 + time[1] * 60 + time[2];
  return true;
}

// What most of them are: the middle one of the sorted.
std::int64_t median(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<std::int64_t> differences(std::span<const std::int64_t> values) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 1; i < values.size(); ++i) out.push_back(values[i] - values[i - 1]);
  return out;
}

std::chrono::weekday weekday_of(const year_month_day& date) { return std::chrono::weekday(sys_days(date)); }
bool is_weekend(std::int64_t date) {
  const std::chrono::weekday d = weekday_of(calendar_of(date));
  return d == std::chrono::Saturday || d == std::chrono::Sunday;
}

// The day of this month that a step of months leads to from the day `from` of another.
unsigned day_in(year y, month m, const DateStep& step, unsigned from) {
  const unsigned last = last_day(y, m);
  switch (step.day_kind) {
    case DayOfMonth::last: return last;
    case DayOfMonth::last_weekday: {
      const unsigned weekday = weekday_of(y / m / day(last)).iso_encoding();
      return weekday > 5 ? last - (weekday - 5) : last;
    }
    case DayOfMonth::first_weekday: {
      const unsigned weekday = weekday_of(y / m / day(1)).iso_encoding();
      return weekday > 5 ? 9 - weekday : 1;
    }
    case DayOfMonth::numbered: break;
  }
  return std::min(step.day > 0 ? step.day : from, last);
}

// Of dates that are always so many months apart, but on different days: the rule for the day that most of them keep.
DateStep rule_of_most(const std::vector<year_month_day>& dates, std::int64_t months) {
  std::vector<DateStep> rules;
  for (const DayOfMonth kind : {DayOfMonth::last, DayOfMonth::last_weekday, DayOfMonth::first_weekday})
    rules.push_back({.units = 0, .months = months, .day_kind = kind});
  for (unsigned d = 1; d <= 31; ++d) rules.push_back({.units = 0, .months = months, .day = d});
  const auto kept = [&](const DateStep& rule) {
    return std::count_if(dates.begin(), dates.end(),
                         [&](const year_month_day& d) { return static_cast<unsigned>(d.day()) == day_in(d.year(), d.month(), rule, 0); });
  };
  return *std::max_element(rules.begin(), rules.end(), [&](const DateStep& a, const DateStep& b) { return kept(a) < kept(b); });
}

bool all_the_same(const std::vector<std::int64_t>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

// The step in months, when all dates have one time of day, and one day of the month, or are all the last of theirs, or are always so
// many months apart.
std::optional<DateStep> step_in_months(std::span<const std::int64_t> dates) {
  std::vector<year_month_day> days;
  std::vector<std::int64_t> months;
  bool same_day = true, month_ends = true;
  for (const std::int64_t date : dates) {
    if (time_of_day(date) != time_of_day(dates.front())) return std::nullopt;
    const year_month_day d = calendar_of(date);
    same_day = same_day && (days.empty() || d.day() == days.front().day());
    month_ends = month_ends && static_cast<unsigned>(d.day()) == last_day(d.year(), d.month());
    days.push_back(d), months.push_back(months_of(d));
  }
  const std::vector<std::int64_t> steps = differences(months);
  if (same_day || month_ends) {
    DateStep step{.units = 0, .months = median(steps)};
    // A year after February 28 is February 28, in leap years too.
    if (month_ends && !(same_day && step.months % 12 == 0)) step.day_kind = DayOfMonth::last;
    return step;
  }
  // Every four weeks, or the two days around the end of a month, are no steps of a calendar.
  if (steps.front() == 0 || !all_the_same(steps) || all_the_same(differences(dates))) return std::nullopt;
  return rule_of_most(days, steps.front());
}

}  // namespace

std::optional<std::int64_t> parse_date(std::string_view text, DateFormat& format) {
  if (text.find_first_of("-/", 1) == std::string_view::npos) return parse_integer(text, format);
  DateFormat found;
  const auto y = take_digits(text, 4);
  if (!y || text.empty() || (text.front() != '-' && text.front() != '/')) return std::nullopt;
  found.separator = text.front();
  text.remove_prefix(1);
  const auto m = take_digits(text, 2);
  if (!m) return std::nullopt;
  found.date_parts = text.empty() ? 2 : 3;
  if (found.date_parts == 3 && !take(text, found.separator)) return std::nullopt;
  const auto d = found.date_parts == 3 ? take_digits(text, 2) : 1;
  if (!d) return std::nullopt;
  const year_month_day date = year(*y) / month(static_cast<unsigned>(*m)) / day(static_cast<unsigned>(*d));
  if (!date.ok()) return std::nullopt;
  std::int64_t seconds = seconds_of(date);
  if (!text.empty() && !take_time(text, 2, found, seconds)) return std::nullopt;
  format = found;
  return seconds;
}

std::span<const std::string_view> usual_date_patterns() {
  static constexpr std::array<std::string_view, 14> patterns{"%Y-%m-%d",    "%Y/%m/%d",     "%m/%d/%Y", "%d/%m/%Y",       "%d.%m.%Y",
                                                             "%Y.%m.%d",    "%m-%d-%Y",     "%d-%m-%Y", "%Y년 %m월 %d일", "%Y년 %m월",
                                                             "%Y. %m. %d.", "%Y年%m月%d日", "%d-%b-%Y", "%b %d, %Y"};
  return patterns;
}

std::optional<std::int64_t> parse_date(std::string_view text, std::string_view pattern, DateFormat& format) {
  const auto date = take_date(text, pattern);
  if (!date) return std::nullopt;
  DateFormat found;
  found.pattern = pattern;
  found.padded = date->padded;
  std::int64_t seconds = date->seconds;
  if (has_time(pattern)) {
    if (!text.empty()) return std::nullopt;
    found.fraction = date->fraction, found.zone = date->zone;
    found.time_parts = 3;  // for comparisons: it has one
  } else if (!text.empty() && !take_time(text, 1, found, seconds)) {
    return std::nullopt;
  }
  format = found;
  return seconds;
}

void check_date_pattern(std::string_view pattern, std::string_view flag) { check_pattern(pattern, flag); }

std::optional<std::int64_t> compact_date(std::int64_t digits) {
  if (digits < 1000'01'01 || digits > 9999'12'31) return std::nullopt;
  const year_month_day date = year(static_cast<int>(digits / 10000)) / month(static_cast<unsigned>(digits / 100 % 100)) /
      day(static_cast<unsigned>(digits % 100));
  return date.ok() ? std::optional(seconds_of(date)) : std::nullopt;
}

bool same_zone(const DateFormat& a, const DateFormat& b) {
  const auto is_utc = [](const std::string& zone) { return zone.find_first_of("123456789") == std::string::npos; };
  return a.zone == b.zone || (is_utc(a.zone) && is_utc(b.zone));
}

std::string write_date(std::int64_t date, const DateFormat& format) {
  if (format.integer) return fmt::format("{}", date);
  constexpr std::int64_t begin = -62167219200, end = 253402300800;  // of the years 0 and 10000
  if (date < begin || date >= end) too_far();
  const year_month_day d = calendar_of(date);
  const auto y = static_cast<int>(d.year());
  const auto m = static_cast<unsigned>(d.month()), of_month = static_cast<unsigned>(d.day());
  if (format.compact) return fmt::format("{:04}{:02}{:02}", y, m, of_month);
  std::string text;
  if (!format.pattern.empty()) {
    text = write_pattern({.seconds = date, .padded = format.padded, .zone = format.zone, .fraction = format.fraction}, format.pattern);
    if (has_time(format.pattern)) return text;
  } else {
    text = fmt::format("{:04}{}{:02}", y, format.separator, m);
    if (format.date_parts == 3) text += fmt::format("{}{:02}", format.separator, of_month);
  }
  const std::int64_t time = time_of_day(date);
  if (format.time_parts >= 2) text += fmt::format("{}{:02}:{:02}", format.between, time / 3600, time / 60 % 60);
  if (format.time_parts >= 3) text += fmt::format(":{:02}", time % 60);
  if (format.fraction > 0) text += '.' + std::string(static_cast<std::size_t>(format.fraction), '0');
  return text + format.zone;
}

DateStep infer_step(std::span<const std::int64_t> dates, const DateFormat& format) {
  DateStep step;
  if (dates.size() < 2) return step;
  if (const auto months = format.integer ? std::nullopt : step_in_months(dates)) {
    step = *months;
  } else {
    step.units = median(differences(dates));
    step.weekdays = !format.integer && step.units == a_day && dates.size() > 5 && std::none_of(dates.begin(), dates.end(), is_weekend);
  }
  for (std::size_t i = 1; i < dates.size(); ++i) step.irregular += dates[i] != advance(dates[i - 1], step, 1) ? 1 : 0;
  return step;
}

std::int64_t advance(std::int64_t date, const DateStep& step, std::int64_t count) {
  if (step.months > 0) {
    const year_month_day d = calendar_of(date);
    const std::int64_t months = months_of(d) + step.months * count;
    if (count > 120'000 || months < 0 || months >= 120'000) too_far();
    const year y(static_cast<int>(months / 12));
    const month m(static_cast<unsigned>(months % 12 + 1));
    return seconds_of(y / m / day(day_in(y, m, step, static_cast<unsigned>(d.day())))) + time_of_day(date);
  }
  if (!step.weekdays) {
    std::int64_t distance = 0, sum = 0;
    if (__builtin_mul_overflow(step.units, count, &distance) || __builtin_add_overflow(date, distance, &sum)) too_far();
    return sum;
  }
  for (; count > 0; --count) do
      date += a_day;
    while (is_weekend(date));
  return date;
}

std::string describe(const DateStep& step, const DateFormat& format) {
  const auto times = [](std::int64_t n, std::string_view unit) { return fmt::format("{} {}{}", n, unit, n == 1 ? "" : "s"); };
  if (format.integer) return fmt::format("{}", step.units);
  if (step.months > 0) return step.months % 12 == 0 ? times(step.months / 12, "year") : times(step.months, "month");
  if (step.weekdays) return "1 weekday";
  if (step.units % a_day == 0) return times(step.units / a_day, "day");
  if (step.units % 3600 == 0) return times(step.units / 3600, "hour");
  return step.units % 60 == 0 ? times(step.units / 60, "minute") : times(step.units, "second");
}

}  // namespace transformer
