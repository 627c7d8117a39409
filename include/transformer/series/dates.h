#pragma once
// Dates of a series: how they are written, how far they are apart, and which come next.
//
//   DateFormat format;
//   const std::int64_t day = *parse_date("2024-02-29", format);       // seconds since 1970
//   const DateStep step = infer_step(dates, format);                  // a month, when they are all the last of one
//   write_date(advance(day, step, 1), format);                        // "2024-03-31"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace transformer {

// How a date is written: 2016-07-01, 2016/07/01, 2016-07, 20160701, 2016-07-01 00:00, 2016-07-01T00:00:00.000Z …, a plain integer
// that counts, or as a pattern says.
struct DateFormat {
  bool integer = false;
  bool compact = false;   // 20160701
  char separator = '-';   // of year, month and day: - or /
  int date_parts = 3;     // 2: year and month, the day is the first
  char between = ' ';     // date and time of day: a space or T
  int time_parts = 0;     // of the time of day: 0 none, 2 hours and minutes, 3 and seconds
  int fraction = 0;       // zeros behind the seconds
  std::string zone = {};  // behind the time of day: Z, or an offset from UTC such as +09:00
  // Not empty: the date in strptime's letters, %d.%m.%Y; the four fields of the time of day hold where it has none itself.
  std::string pattern = {};
  bool padded = true;  // with a pattern: months, days and hours have two digits

  bool operator==(const DateFormat&) const = default;
};

// For messages.
inline constexpr std::string_view date_forms =
    "YYYY-MM-DD, YYYY/MM/DD, MM/DD/YYYY, DD/MM/YYYY, DD.MM.YYYY, 2024년 1월 31일 or 31-Jan-2024, with or without a time HH:MM[:SS], which "
    "Z "
    "or an offset such as +09:00 may follow, YYYY-MM, YYYYMMDD, or an integer; --date-format says any other form in strptime's letters, "
    "such as %d/%m/%y";

// The patterns that are known without being told. A text may fit several: 01/02/2024.
std::span<const std::string_view> usual_date_patterns();

// Seconds since 1970-01-01 by the clock of its zone, or the integer itself; nothing when the text is not a date. `format` is set to how it
// is written. 20240229 is an integer here: whether it is a date is known when all of a column are seen.
std::optional<std::int64_t> parse_date(std::string_view text, DateFormat& format);
// As a pattern of strptime's letters says; a time of day may follow where it has none. Month and day need no zeros in front.
std::optional<std::int64_t> parse_date(std::string_view text, std::string_view pattern, DateFormat& format);
// Error, which names `flag`, for a pattern that has other letters, or none for the year.
void check_date_pattern(std::string_view pattern, std::string_view flag);
// The date that an integer such as 20240229 says; nothing when there is none.
std::optional<std::int64_t> compact_date(std::int64_t digits);
// Whether both have the same offset from UTC; none counts as UTC itself.
bool same_zone(const DateFormat& a, const DateFormat& b);
std::string write_date(std::int64_t date, const DateFormat& format);

// Which day of its month a date is.
enum class DayOfMonth : std::uint8_t { numbered, last, last_weekday, first_weekday };

// From one date of a series to the next.
struct DateStep {
  std::int64_t units = 1;                      // seconds, or integers; of no use with months
  std::int64_t months = 0;                     // > 0: so many months
  DayOfMonth day_kind = DayOfMonth::numbered;  // with months
  unsigned day = 0;                            // numbered: this one, or the last of a shorter month; 0: that of the date
  bool weekdays = false;                       // a day, but Saturdays and Sundays are left out
  std::int64_t irregular = 0;                  // steps of the series that are others than this

  bool operator==(const DateStep&) const = default;
};

// What most steps of increasing dates are (the median); whole months where the days of the month say so, or where the dates are always
// so many months apart; weekdays where no other day appears. Less than two dates: one second, or 1.
DateStep infer_step(std::span<const std::int64_t> dates, const DateFormat& format);
// The date `count` steps later. Months count from `date` itself: a month after January 31 is the last of February.
std::int64_t advance(std::int64_t date, const DateStep& step, std::int64_t count);
std::string describe(const DateStep& step, const DateFormat& format);  // "1 hour", "1 month", "15 minutes", "1 weekday"

}  // namespace transformer
