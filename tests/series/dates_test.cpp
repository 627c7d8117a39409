#include "transformer/series/dates.h"

#include <gtest/gtest.h>

#include <vector>

#include "transformer/core/error.h"

namespace transformer::test {
namespace {

std::int64_t date(const std::string& text) {
  DateFormat format;
  const auto parsed = parse_date(text, format);
  EXPECT_TRUE(parsed) << text;
  return parsed.value_or(0);
}

// The dates that follow a few that are written down.
std::vector<std::string> following(const std::vector<std::string>& texts, std::int64_t count) {
  DateFormat format;
  std::vector<std::int64_t> dates;
  for (const std::string& text : texts) dates.push_back(parse_date(text, format).value());
  const DateStep step = infer_step(dates, format);
  std::vector<std::string> out;
  for (std::int64_t i = 1; i <= count; ++i) out.push_back(write_date(advance(dates.back(), step, i), format));
  return out;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST(Dates, AreReadAndWrittenAsTheyStand) {
  for (const char* text :
       {"1970-01-01", "2016/07/01", "2016-07-01 00:00", "2016-07-01T23:59", "2018-06-26 19:00:00", "1969-12-31T23:59:59Z", "0000-01-01",
        "9999-12-31", "2024-02-29", "17", "-3", "1719792000000000000", "1949-01", "1949/12", "2020-01-01 00:00:00+00:00",
        "2020-01-01T00:00-05:30", "2020-01-01 12:00:00+09", "2020-01-01 12:00:00.000", "2020-01-01T12:00:00.000000Z"}) {
    DateFormat format;
    const auto parsed = parse_date(text, format);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(write_date(*parsed, format), text);
  }
  EXPECT_EQ(date("1970-01-02 00:00:01"), 86401);
  EXPECT_EQ(date("1969-12-31 23:59:59"), -1);
}

TEST(Dates, WhatIsNoneIsRefused) {
  for (const char* text : {"",
                           "-",
                           "2023-02-29",
                           "2023-13-01",
                           "2023-1-1",
                           "2023-01-01x",
                           "2023-01/01",
                           "2023-01-01 24:00",
                           "2023-01-01 12",
                           "2023-01-01 12:60",
                           "2023-01-01 12:00:60",
                           "2023-01-01 12:00:00.5",
                           "12.5",
                           "abc",
                           "99999999999999999999",
                           "2023-01-01T",
                           "2023-01-01 12:00:00ZZ",
                           "2023-01-01 Z",
                           "1949-13",
                           "1949-1",
                           "1949-01 12:00",
                           "2023-01-01+00:00",
                           "2023-01-01 12:00+15:00",
                           "2023-01-01 12:00+0",
                           "2023-01-01 12:00.0",
                           "2023-01-01 12:00:00.",
                           "2023-01-01 12:00:00.001",
                           "01/31/2020"}) {
    DateFormat format{.time_parts = 3};
    EXPECT_FALSE(parse_date(text, format)) << text;
    EXPECT_EQ(format.time_parts, 3) << text;
  }
}

TEST(Dates, TheNextOnesFollowTheStep) {
  EXPECT_EQ(following({"2018-06-26 21:00", "2018-06-26 22:00"}, 2), (Texts{"2018-06-26 23:00", "2018-06-27 00:00"}));
  EXPECT_EQ(following({"2024-02-27", "2024-02-28"}, 2), (Texts{"2024-02-29", "2024-03-01"}));
  EXPECT_EQ(following({"10", "20", "30"}, 2), (Texts{"40", "50"}));
  // One row is missing: the step is what most are.
  EXPECT_EQ(following({"2024-01-01 00:00", "2024-01-01 00:15", "2024-01-01 00:45", "2024-01-01 01:00"}, 1), (Texts{"2024-01-01 01:15"}));
}

TEST(Dates, MonthsAreCalendarSteps) {
  EXPECT_EQ(following({"2023-10-01", "2023-11-01", "2023-12-01"}, 3), (Texts{"2024-01-01", "2024-02-01", "2024-03-01"}));
  EXPECT_EQ(following({"2023-11-30", "2023-12-31"}, 3), (Texts{"2024-01-31", "2024-02-29", "2024-03-31"}));
  EXPECT_EQ(following({"2022-03-15", "2022-06-15", "2022-09-15"}, 2), (Texts{"2022-12-15", "2023-03-15"}));
  EXPECT_EQ(following({"2020-01-01", "2021-01-01", "2022-01-01"}, 1), (Texts{"2023-01-01"}));
  EXPECT_EQ(write_date(advance(date("2024-01-31"), {.months = 1}, 1), {}), "2024-02-29");
  EXPECT_EQ(describe(infer_step(std::vector{date("2020-01-01"), date("2021-01-01")}, {}), {}), "1 year");
}

TEST(Dates, MonthsWithOtherDaysKeepTheirRule) {
  // The last and the first weekday of a month.
  EXPECT_EQ(following({"2010-01-29", "2010-02-26", "2010-03-31"}, 3), (Texts{"2010-04-30", "2010-05-31", "2010-06-30"}));
  EXPECT_EQ(following({"2019-01-31", "2019-02-28", "2019-03-29"}, 3), (Texts{"2019-04-30", "2019-05-31", "2019-06-28"}));
  EXPECT_EQ(following({"2010-04-01", "2010-05-03", "2010-06-01", "2010-07-01"}, 2), (Texts{"2010-08-02", "2010-09-01"}));
  EXPECT_EQ(following({"2018-12-31", "2019-03-29", "2019-06-28"}, 2), (Texts{"2019-09-30", "2019-12-31"}));
  // The 30th, which February does not have.
  EXPECT_EQ(following({"2023-12-30", "2024-01-30", "2024-02-29"}, 2), (Texts{"2024-03-30", "2024-04-30"}));
  EXPECT_EQ(following({"2022-08-30", "2023-02-28", "2023-08-30", "2024-02-29"}, 2), (Texts{"2024-08-30", "2025-02-28"}));
  // A holiday does not change the rule of the others, and is told.
  const std::vector<std::int64_t> dates{date("2018-01-31"), date("2018-02-28"), date("2018-03-29"),
                                        date("2018-04-30"), date("2018-05-31"), date("2018-06-29")};
  const DateStep step = infer_step(dates, {});
  EXPECT_EQ(write_date(advance(dates.back(), step, 3), {}), "2018-09-28");
  EXPECT_EQ(step.irregular, 1);
  EXPECT_EQ(describe(step, {}), "1 month");
}

TEST(Dates, AYearAfterFebruary28IsFebruary28) {
  EXPECT_EQ(following({"2021-02-28", "2022-02-28", "2023-02-28"}, 2), (Texts{"2024-02-28", "2025-02-28"}));
  EXPECT_EQ(following({"2020-02-29", "2021-02-28", "2022-02-28", "2023-02-28"}, 1), (Texts{"2024-02-29"}));
  EXPECT_EQ(following({"2022-06-30", "2022-09-30"}, 1), (Texts{"2022-12-31"}));
}

TEST(Dates, WhatOnlyLooksLikeMonthsStaysInDays) {
  EXPECT_EQ(following({"2024-01-31", "2024-02-01"}, 1), (Texts{"2024-02-02"}));
  EXPECT_EQ(following({"2024-01-05", "2024-02-02", "2024-03-01"}, 1), (Texts{"2024-03-29"}));  // every four weeks
  EXPECT_EQ(following({"2024-01-28", "2024-02-04"}, 1), (Texts{"2024-02-11"}));
}

TEST(Dates, YearAndMonth) {
  EXPECT_EQ(following({"1949-10", "1949-11", "1949-12"}, 2), (Texts{"1950-01", "1950-02"}));
  EXPECT_EQ(following({"1949/01", "1949/04"}, 1), (Texts{"1949/07"}));
}

TEST(Dates, DigitsThatAreADate) {
  EXPECT_EQ(compact_date(20240229), date("2024-02-29"));
  for (const std::int64_t none : {20230229, 20231301, 20230100, 2023, 202301011, -20230101}) EXPECT_FALSE(compact_date(none)) << none;
  EXPECT_EQ(write_date(date("2024-02-29"), {.compact = true}), "20240229");
}

TEST(Dates, WeekendsStayOutWhereTheyAre) {
  const Texts week{"2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05", "2024-01-08", "2024-01-09"};
  EXPECT_EQ(following(week, 4), (Texts{"2024-01-10", "2024-01-11", "2024-01-12", "2024-01-15"}));
  Texts all = week;
  all.insert(all.begin() + 5, {"2024-01-06", "2024-01-07"});
  EXPECT_EQ(following(all, 4).back(), "2024-01-13");
}

TEST(Dates, TheEndOfTimeIsAnError) {
  EXPECT_THROW(write_date(advance(date("9999-12-31"), {.units = 86400}, 1), {}), Error);
  EXPECT_THROW(advance(date("9999-12-01"), {.months = 1}, 1), Error);
  EXPECT_THROW(advance(std::int64_t{1} << 61, {.units = std::int64_t{1} << 61}, 100), Error);
}

}  // namespace transformer::test
