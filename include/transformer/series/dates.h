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

// How a date is written: 2016-07-01, 2016/07/01, 2016-07-01 00:00, 2016-07-01T00:00:00Z …, or a plain integer that counts.
struct DateFormat {
  bool integer = false;
  char separator = '-';  // of year, month and day: - or /
  char between = ' ';    // date and time of day: a space or T
  int time_parts = 0;    // of the time of day: 0 none, 2 hours and minutes, 3 and seconds
  bool utc = false;      // a Z at the end

  bool operator==(const DateFormat&) const = default;
};

// Seconds since 1970-01-01, or the integer itself; nothing when the text is no date. `format` is set to how it is written.
std::optional<std::int64_t> parse_date(std::string_view text, DateFormat& format);
std::string write_date(std::int64_t date, const DateFormat& format);

// From one date of a series to the next.
struct DateStep {
  std::int64_t units = 1;      // seconds, or integers; of no use with months
  std::int64_t months = 0;     // > 0: so many months, the day of the month stays,
  bool month_end = false;      //   or is always the last one
  bool weekdays = false;       // a day, but Saturdays and Sundays are left out
  std::int64_t irregular = 0;  // steps of the series that are others than this

  bool operator==(const DateStep&) const = default;
};

// What most steps of increasing dates are (the median); whole months where the days of the month say so, weekdays where no other day
// appears. Less than two dates: one second, or 1.
DateStep infer_step(std::span<const std::int64_t> dates, const DateFormat& format);
// The date `count` steps later. Months count from `date` itself: a month after January 31 is the last of February.
std::int64_t advance(std::int64_t date, const DateStep& step, std::int64_t count);
std::string describe(const DateStep& step, const DateFormat& format);  // "1 hour", "1 month", "15 minutes", "1 weekday"

}  // namespace transformer
