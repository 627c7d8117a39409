#include "transformer/series/windows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "series/lines_of.h"
#include "transformer/toys/prices.h"

namespace transformer::test {
namespace {

// Channel c of row r is 10·r + c.
SeriesTable counting(std::int64_t rows, std::int64_t channels = 1) {
  SeriesTable table{.name = "x.csv", .date_column = "t", .format = {.integer = true}};
  for (std::int64_t c = 0; c < channels; ++c) table.channels.push_back(fmt::format("c{}", c));
  for (std::int64_t r = 0; r < rows; ++r) {
    table.dates.push_back(r);
    for (std::int64_t c = 0; c < channels; ++c) table.values.push_back(static_cast<double>(10 * r + c));
  }
  return table;
}

std::string message_of(auto&& act) {
  try {
    act();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

void expect_in(const std::string& part, const std::string& text) { EXPECT_NE(text.find(part), std::string::npos) << text; }

}  // namespace

TEST(Windows, PartsByShareAndByDate) {
  const SeriesTable table = counting(101);
  Parts p = split_rows(table, {});
  EXPECT_EQ(p.train, (RowRange{0, 70}));
  EXPECT_EQ(p.validation, (RowRange{70, 81}));
  EXPECT_EQ(p.test, (RowRange{81, 101}));
  p = split_rows(table, {.split = "0.8,0,0.2"});
  EXPECT_EQ(p.train, (RowRange{0, 81}));
  EXPECT_EQ(p.validation.size(), 0);
  p = split_rows(table, {.valid_from = "60", .test_from = "90"});
  EXPECT_EQ(p.train, (RowRange{0, 60}));
  EXPECT_EQ(p.test, (RowRange{90, 101}));
  EXPECT_EQ(split_rows(table, {.valid_from = "60"}).test.size(), 0);
}

TEST(Windows, SplitsThatMakeNoSenseAreNamed) {
  const SeriesTable table = counting(101);
  for (const char* split : {"0.7,0.3", "0.5,0.1,0.2", "a,b,c", "0.7,0.1,0.2,", "0,0.5,0.5", "-0.1,0.9,0.2", ",", "nan,0,1"})
    expect_in("expected three shares", message_of([&] { split_rows(table, {.split = split}); }));
  expect_in("given twice", message_of([&] { split_rows(table, {.split = "etth", .valid_from = "5"}); }));
  expect_in("without valid_from", message_of([&] { split_rows(table, {.test_from = "5"}); }));
  expect_in("test_from is 5, before valid_from, 50", message_of([&] { split_rows(table, {.valid_from = "50", .test_from = "5"}); }));
  expect_in("valid_from is 101: expected a date that x.csv reaches, which ends with 100",
            message_of([&] { split_rows(table, {.valid_from = "101"}); }));
  expect_in("test_from is 900: expected a date that x.csv reaches, which ends with 100",
            message_of([&] { split_rows(table, {.valid_from = "50", .test_from = "900"}); }));
  expect_in("nothing to train on", message_of([&] { split_rows(table, {.valid_from = "-5"}); }));
  expect_in("valid_from is '2024-01-01': expected a date as in x.csv",
            message_of([&] { split_rows(table, {.valid_from = "2024-01-01"}); }));
  expect_in("has 101 rows: this split takes 14400", message_of([&] { split_rows(table, {.split = "etth"}); }));
  expect_in("57600", message_of([&] { split_rows(table, {.split = "ettm"}); }));
}

TEST(Windows, DatesOfASplitAreReadAsTheTableHasThem) {
  const SeriesTable digits = table_of("date,a\n20240101,1\n20240102,2\n20240103,3\n");
  EXPECT_EQ(split_rows(digits, {.valid_from = "20240103"}).validation, (RowRange{2, 3}));
  EXPECT_EQ(split_rows(digits, {.valid_from = "2024-01-02"}).validation, (RowRange{1, 3}));
  expect_in("expected a date as in", message_of([&] { split_rows(digits, {.valid_from = "20240199"}); }));
  const SeriesTable months = table_of("m,a\n2024-01,1\n2024-02,2\n");
  EXPECT_EQ(split_rows(months, {.valid_from = "2024-02"}).validation, (RowRange{1, 2}));
  const SeriesTable offset = table_of("t,a\n2024-01-01 00:00+09:00,1\n2024-01-01 01:00+09:00,2\n");
  EXPECT_EQ(split_rows(offset, {.valid_from = "2024-01-01 01:00+09:00"}).validation, (RowRange{1, 2}));
  expect_in("expected a date as in", message_of([&] { split_rows(offset, {.valid_from = "2024-01-01 00:30Z"}); }));
}

// The numbers of windows that the authors of the ETT benchmarks report.
TEST(Windows, TheEttConvention) {
  const SeriesTable table = counting(17420);
  const Parts parts = split_rows(table, {.split = "etth"});
  const SeriesWindows windows(table, Scaler::none(1), parts, {336, 96});
  EXPECT_EQ(windows.count(parts.train), 8209);
  EXPECT_EQ(windows.count(parts.validation), 2785);
  EXPECT_EQ(windows.count(parts.test), 2785);
  std::vector<float> past, future;
  const std::vector<std::int64_t> first{0}, last{2784};
  windows.take(parts.test, first, past, future);
  EXPECT_EQ(past.front(), 10.0F * (11520 - 336));
  EXPECT_EQ(future.front(), 10.0F * 11520);
  windows.take(parts.test, last, past, future);
  EXPECT_EQ(future.back(), 10.0F * 14399);
}

TEST(Windows, TakeContextAndHorizonOfAllChannels) {
  const SeriesTable table = counting(10, 2);
  const SeriesWindows windows(table, Scaler::none(2), {.train = {0, 10}, .validation = {}, .test = {}}, {3, 2});
  EXPECT_EQ(windows.count(windows.parts().train), 6);
  std::vector<float> past, future;
  const std::vector<std::int64_t> some{5, 0};
  windows.take(windows.parts().train, some, past, future);
  EXPECT_EQ(past, (std::vector<float>{50, 51, 60, 61, 70, 71, 0, 1, 10, 11, 20, 21}));
  EXPECT_EQ(future, (std::vector<float>{80, 81, 90, 91, 30, 31, 40, 41}));
}

TEST(Windows, TheScaleIsThatOfTheTrainingRows) {
  SeriesTable table = counting(10, 2);
  for (std::size_t i = 1; i < table.values.size(); i += 2) table.values[i] = 7.0;  // a constant channel
  const Scaler scaler = Scaler::fit(table, {0, 3});
  EXPECT_DOUBLE_EQ(scaler.mean[0], 10.0);
  EXPECT_DOUBLE_EQ(scaler.deviation[0], std::sqrt(200.0 / 3.0));  // of the whole set, not of a sample
  EXPECT_DOUBLE_EQ(scaler.deviation[1], 1.0);
  EXPECT_FLOAT_EQ(scaler.scaled(10.0 + scaler.deviation[0], 0), 1.0F);
  EXPECT_DOUBLE_EQ(scaler.original(1.0, 0), 10.0 + scaler.deviation[0]);
}

// The mean of many equal values is off by rounding, which must not become their scale.
TEST(Windows, RoundingIsNoScale) {
  SeriesTable table = counting(100'000, 3);
  for (std::size_t i = 0; i < table.values.size(); i += 3) {
    table.values[i] = 0.1;
    table.values[i + 1] = i % 2 == 0 ? 0.1 : std::nextafter(0.1, 1.0);
    table.values[i + 2] = 1e9 + static_cast<double>(i % 2);
  }
  const Scaler scaler = Scaler::fit(table, {0, table.rows()});
  EXPECT_NEAR(scaler.mean[0], 0.1, 1e-9);
  EXPECT_EQ(scaler.deviation[0], 1.0);
  EXPECT_EQ(scaler.deviation[1], 1.0);
  EXPECT_NEAR(scaler.deviation[2], 0.5, 1e-3);
}

TEST(Windows, ErrorsOfNothingAreNone) {
  const ForecastErrors errors({"a"}, {0}, Scaler::none(1));
  expect_in("there are no forecasts", message_of([&] { static_cast<void>(errors.scaled()); }));
}

TEST(Windows, ASeriesShorterThanAWindowIsRefusedWithTheNumbers) {
  const SeriesTable table = counting(100);
  const auto cut = [&](const Parts& parts, WindowSizes sizes) {
    return message_of([&] { SeriesWindows(table, Scaler::none(1), parts, sizes); });
  };
  const Parts parts = split_rows(table, {});
  for (const char* part : {"x.csv", "100 rows", "70 of them for training", "takes 72", "context of 60", "horizon of 12"})
    expect_in(part, cut(parts, {60, 12}));
  expect_in("10 rows for validation, but a window predicts 11", cut(parts, {50, 11}));
  expect_in("takes", cut(parts, {std::int64_t{1} << 62, std::int64_t{1} << 62}));
  EXPECT_EQ(cut(parts, {60, 10}), "");
}

TEST(Windows, ErrorsInScaledAndInOriginalUnits) {
  ForecastErrors errors({"a", "b"}, {1}, {{0.0, 5.0}, {1.0, 2.0}});
  errors.add(std::vector<float>{0, 1, 0, 3}, std::vector<float>{1, 1, 2, 1});
  errors.add(std::vector<float>{0, 1}, std::vector<float>{0, 0});
  EXPECT_EQ(errors.values(), 3);
  EXPECT_DOUBLE_EQ(errors.scaled().mse, (4.0 + 1.0) / 3);  // of b alone: errors 0, 2, 1
  EXPECT_DOUBLE_EQ(errors.scaled().mae, 1.0);
  EXPECT_DOUBLE_EQ(errors.original().mse, 4 * (4.0 + 1.0) / 3);
  EXPECT_DOUBLE_EQ(errors.original().mae, 2.0);
  EXPECT_DOUBLE_EQ(errors.scaled(0).mse, (1.0 + 4.0) / 3);
  EXPECT_DOUBLE_EQ(errors.all_scaled().mse, (5.0 + 5.0) / 6);
}

TEST(Windows, ErrorsOfQuantiles) {
  ForecastErrors errors({"a", "b"}, {1}, {{0.0, 5.0}, {1.0, 2.0}}, {0.25, 0.5, 0.75});
  //                                        a           b
  errors.add(std::vector<float>{/**/ 0, 0, 0, /**/ 1, 2, 3}, std::vector<float>{5, 2.5F});
  errors.add(std::vector<float>{/**/ 0, 1, 2, /**/ 1, 2, 3}, std::vector<float>{1, 5});
  const ForecastErrors::Means b = errors.scaled();
  EXPECT_DOUBLE_EQ(b.mse, (0.25 + 9.0) / 2);  // of the median
  EXPECT_DOUBLE_EQ(b.mae, (0.5 + 3.0) / 2);
  EXPECT_DOUBLE_EQ(b.coverage, 0.5);
  const double first = 0.25 * 1.5 + 0.5 * 0.5 + 0.25 * 0.5, second = 0.25 * 4 + 0.5 * 3 + 0.75 * 2;
  EXPECT_DOUBLE_EQ(b.pinball, (first + second) / 6);
  EXPECT_DOUBLE_EQ(errors.original().pinball, 2 * b.pinball);
  EXPECT_DOUBLE_EQ(errors.original().coverage, 0.5);
  EXPECT_DOUBLE_EQ(errors.all_scaled().coverage, 0.5);
  EXPECT_DOUBLE_EQ(errors.json().at("scaled").at("pinball").get<double>(), b.pinball);
  EXPECT_EQ(errors.json().at("quantiles").size(), 3U);
  const std::string text = describe(errors, "x");
  expect_in("from 25 to 75 %: 50.00 % of the values", text);
  expect_in("covers 50.00 %", text);
  EXPECT_EQ(quantile_name(0.1), "q10");
  EXPECT_EQ(quantile_name(0.025), "q2.5");
  EXPECT_EQ(quantile_name(0.07), "q7");
}

TEST(ToyPrices, HaveAWeekAndAreTheSameAgain) {
  const SeriesTable a = toy_prices(700), b = toy_prices(700), other = toy_prices(700, 2);
  EXPECT_EQ(a.values, b.values);
  EXPECT_NE(a.values, other.values);
  EXPECT_EQ(a.date(0), "2020-01-01");
  EXPECT_EQ(describe(a.step(), a.format), "1 day");
  // What a price is above its neighbours' mean depends on the weekday more than on chance.
  double between = 0.0, all = 0.0;
  for (int weekday = 0; weekday < 7; ++weekday) {
    double sum = 0.0, n = 0.0;
    for (std::int64_t i = 3; i + 3 < a.rows(); ++i) {
      if (i % 7 != weekday) continue;
      double mean = 0.0;
      for (std::int64_t j = i - 3; j <= i + 3; ++j) mean += a.at(j, 0) / 7;
      sum += a.at(i, 0) - mean, all += (a.at(i, 0) - mean) * (a.at(i, 0) - mean), ++n;
    }
    between += sum * sum / n;
  }
  EXPECT_GT(between, 0.9 * all);
}

}  // namespace transformer::test
