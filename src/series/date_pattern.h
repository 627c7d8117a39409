#pragma once
// Dates by a pattern of strptime's letters: %d.%m.%Y, %Y년 %m월 %d일, %d-%b-%y %H:%M.
//
// %Y %y %m %d %H %I %p %M %S %j %b %B %a %A %z %f and %%, and the short forms %F (%Y-%m-%d), %T (%H:%M:%S), %R (%H:%M), %D (%m/%d/%y).
// Months and days have their English names, numbers need no zeros in front, white space matches any amount of it, none too. As dates are
// whole seconds, %f takes zeros alone. %y: 69 to 99 are of the 20th century, as in POSIX.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace transformer {

inline constexpr std::int64_t a_day = 86400;  // seconds

struct PatternDate {
  std::int64_t seconds = 0;  // since 1970-01-01, by the clock of its zone
  bool padded = true;        // no month, day or hour has less than two digits
  std::string zone = {};     // what %z has taken
  int fraction = 0;          // digits that %f has taken
};

// Error, which names `flag`, for a pattern with other letters, or none for the year.
void check_pattern(std::string_view pattern, std::string_view flag);
// Does the pattern have a time of day?
bool has_time(std::string_view pattern);
// Takes a date off the front of the text; nothing when there is none, or no such day.
std::optional<PatternDate> take_date(std::string_view& text, std::string_view pattern);
std::string write_pattern(const PatternDate& date, std::string_view pattern);

// What may stand behind a time of day: Z, +09:00, +0900 or +09. Takes it off the front.
bool take_zone(std::string_view& text);

}  // namespace transformer
