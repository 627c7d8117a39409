#include "series/date_pattern.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "io/shared/characters.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

using std::chrono::days;
using std::chrono::sys_days;
using std::chrono::year_month_day;

constexpr std::array<std::string_view, 12> months{"January", "February", "March",     "April",   "May",      "June",
                                                  "July",    "August",   "September", "October", "November", "December"};
constexpr std::array<std::string_view, 7> weekdays{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};

bool is_space(char c) { return c == ' ' || c == '\t'; }
std::string expanded(std::string_view pattern) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      out += pattern[i];
      continue;
    }
    switch (const char letter = pattern[++i]) {
      case 'F': out += "%Y-%m-%d"; break;
      case 'T': out += "%H:%M:%S"; break;
      case 'R': out += "%H:%M"; break;
      case 'D': out += "%m/%d/%y"; break;
      case 'h': out += "%b"; break;
      case 'e': out += "%d"; break;
      default: (out += '%') += letter;
    }
  }
  return out;
}

// Takes one to `most` digits off the front.
std::optional<int> take_number(std::string_view& text, std::size_t least, std::size_t most, std::size_t* digits = nullptr) {
  std::size_t n = 0;
  int value = 0;
  while (n < most && n < text.size() && is_digit(text[n])) value = value * 10 + (text[n++] - '0');
  if (n < least) return std::nullopt;
  text.remove_prefix(n);
  if (digits != nullptr) *digits = n;
  return value;
}

// Takes one of the names, or its first three letters, off the front, whatever the case: its number from 0.
template <std::size_t N>
std::optional<int> take_name(std::string_view& text, const std::array<std::string_view, N>& names) {
  const auto begins_with = [&](std::string_view name) {
    return text.size() >= name.size() &&
        std::equal(name.begin(), name.end(), text.begin(), [](char a, char b) { return (a | 0x20) == (b | 0x20); });
  };
  for (std::size_t i = 0; i < N; ++i) {
    if (!begins_with(names[i].substr(0, 3))) continue;
    text.remove_prefix(begins_with(names[i]) ? names[i].size() : 3);
    return static_cast<int>(i);
  }
  return std::nullopt;
}

// What a text says, part by part.
struct DateParts {
  int year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0, of_year = 0;
  int half = -1;  // of the day: 0 AM, 1 PM
  bool twelve = false;
  PatternDate date;

  bool take(std::string_view& text, char letter) {
    const auto number = [&](int& part, std::size_t least, std::size_t most, int first, int last) {
      std::size_t digits = 0;
      const auto value = take_number(text, least, most, &digits);
      if (!value || *value < first || *value > last) return false;
      part = *value;
      if (most == 2 && digits < 2) date.padded = false;
      return true;
    };
    switch (letter) {
      case 'Y': return number(year, 4, 4, 0, 9999);
      case 'y':
        if (!number(year, 2, 2, 0, 99)) return false;
        year += year < 69 ? 2000 : 1900;
        return true;
      case 'm': return number(month, 1, 2, 1, 12);
      case 'd': return number(day, 1, 2, 1, 31);
      case 'H': return number(hour, 1, 2, 0, 23);
      case 'I': return twelve = true, number(hour, 1, 2, 1, 12);
      case 'M': return number(minute, 1, 2, 0, 59);
      case 'S': return number(second, 1, 2, 0, 59);
      case 'j': return number(of_year, 1, 3, 1, 366);
      case 'b':
      case 'B':
        if (const auto name = take_name(text, months)) return month = *name + 1, true;
        return false;
      case 'a':
      case 'A': return take_name(text, weekdays).has_value();
      case 'p': {
        constexpr std::array<std::string_view, 2> halves{"AM", "PM"};
        for (std::size_t i = 0; i < 2; ++i)
          if (text.size() >= 2 && (text[0] | 0x20) == (halves[i][0] | 0x20) && (text[1] | 0x20) == 'm')
            return half = static_cast<int>(i), text.remove_prefix(2), true;
        return false;
      }
      case 'f':
        date.fraction = 0;
        while (date.fraction < 9 && text.starts_with('0')) ++date.fraction, text.remove_prefix(1);
        return date.fraction > 0 && (text.empty() || !is_digit(text.front()));
      case 'z': {
        const std::string_view before = text;
        if (!take_zone(text)) return false;
        date.zone = before.substr(0, before.size() - text.size());
        return true;
      }
      default: return false;
    }
  }

  std::optional<PatternDate> finish() {
    if (of_year > 0) {
      const year_month_day d = sys_days(std::chrono::year(year) / 1 / 1) + days(of_year - 1);
      if (static_cast<int>(d.year()) != year) return std::nullopt;
      month = static_cast<int>(static_cast<unsigned>(d.month())), day = static_cast<int>(static_cast<unsigned>(d.day()));
    }
    const year_month_day d = std::chrono::year(year) / std::chrono::month(static_cast<unsigned>(month)) /
        std::chrono::day(static_cast<unsigned>(day));
    if (!d.ok()) return std::nullopt;
    if (twelve) hour = hour % 12 + (half == 1 ? 12 : 0);
    date.seconds = sys_days(d).time_since_epoch().count() * a_day + hour * 3600 + minute * 60 + second;
    return date;
  }
};

}  // namespace

bool take_zone(std::string_view& text) {
  std::string_view rest = text;
  if (rest.starts_with('Z')) return text.remove_prefix(1), true;
  if (!rest.starts_with('+') && !rest.starts_with('-')) return false;
  rest.remove_prefix(1);
  const auto hours = take_number(rest, 2, 2);
  if (!hours || *hours > 14) return false;  // no place on Earth is further ahead
  std::string_view minutes = rest;
  if (minutes.starts_with(':')) minutes.remove_prefix(1);
  if (const auto m = take_number(minutes, 2, 2)) {
    if (*m > 59) return false;
    rest = minutes;
  }
  text = rest;
  return true;
}

void check_pattern(std::string_view pattern, std::string_view flag) {
  constexpr std::string_view letters = "YymdHIpMSjbBaAzf%";
  bool has_year = false;
  const std::string all = expanded(pattern);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != '%') continue;
    if (++i == all.size() || letters.find(all[i]) == std::string_view::npos)
      fail(flag, "'{}' has %{}: expected the letters of strptime, such as %Y-%m-%d %H:%M; known are %{}", pattern,
           i == all.size() ? "" : std::string(1, all[i]), fmt::join(letters, " %"));
    has_year = has_year || all[i] == 'Y' || all[i] == 'y';
  }
  if (!has_year) fail(flag, "'{}' has no year: expected the letters of strptime, such as %d.%m.%Y", pattern);
}

bool has_time(std::string_view pattern) {
  const std::string all = expanded(pattern);
  for (const std::string_view letter : {"%H", "%I"})
    if (all.find(letter) != std::string::npos) return true;
  return false;
}

std::optional<PatternDate> take_date(std::string_view& text, std::string_view pattern) {
  const std::string all = expanded(pattern);
  std::string_view rest = text;
  DateParts parts;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_space(all[i])) {
      while (!rest.empty() && is_space(rest.front())) rest.remove_prefix(1);
    } else if (all[i] == '%' && i + 1 < all.size() && all[i + 1] != '%') {
      if (!parts.take(rest, all[++i])) return std::nullopt;
    } else {
      if (all[i] == '%') ++i;
      if (rest.empty() || rest.front() != all[i]) return std::nullopt;
      rest.remove_prefix(1);
    }
  }
  const auto date = parts.finish();
  if (date) text = rest;
  return date;
}

std::string write_pattern(const PatternDate& date, std::string_view pattern) {
  const auto whole_days = std::chrono::floor<days>(std::chrono::sys_seconds(std::chrono::seconds(date.seconds)));
  const year_month_day d = whole_days;
  const auto y = static_cast<int>(d.year());
  const unsigned m = static_cast<unsigned>(d.month()), of_month = static_cast<unsigned>(d.day());
  const std::int64_t time = date.seconds - whole_days.time_since_epoch().count() * a_day, hour = time / 3600;
  const auto two = [&](auto value) { return date.padded ? fmt::format("{:02}", value) : fmt::format("{}", value); };
  const std::string all = expanded(pattern);
  std::string out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != '%' || i + 1 == all.size()) {
      out += all[i];
      continue;
    }
    switch (all[++i]) {
      case 'Y': out += fmt::format("{:04}", y); break;
      case 'y': out += fmt::format("{:02}", y % 100); break;
      case 'm': out += two(m); break;
      case 'd': out += two(of_month); break;
      case 'H': out += two(hour); break;
      case 'I': out += two((hour + 11) % 12 + 1); break;
      case 'p': out += hour < 12 ? "AM" : "PM"; break;
      case 'M': out += fmt::format("{:02}", time / 60 % 60); break;
      case 'S': out += fmt::format("{:02}", time % 60); break;
      case 'j': out += fmt::format("{:03}", (whole_days - sys_days(d.year() / 1 / 1)).count() + 1); break;
      case 'b': out += months[m - 1].substr(0, 3); break;
      case 'B': out += months[m - 1]; break;
      case 'a': out += weekdays[std::chrono::weekday(whole_days).c_encoding()].substr(0, 3); break;
      case 'A': out += weekdays[std::chrono::weekday(whole_days).c_encoding()]; break;
      case 'f': out += std::string(static_cast<std::size_t>(std::max(date.fraction, 1)), '0'); break;
      case 'z': out += date.zone; break;
      default: out += all[i];
    }
  }
  return out;
}

}  // namespace transformer
