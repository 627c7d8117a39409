// `transformer train forecast`, `forecast` and `evaluate --csv` as their user meets them.
#include <set>
#include <sstream>

#include "cli/training.h"
#include "transformer/toys/prices.h"

namespace transformer::test {
namespace {

namespace fs = std::filesystem;

class TrainForecast : public Training {
 protected:
  TrainForecast() {
    SeriesTable table = toy_prices(400);
    table.channels = {"price", "volume"};
    const std::vector<double> prices = table.values;
    table.values.clear();
    for (const double price : prices) table.values.insert(table.values.end(), {price, 1e4 - 20 * price});
    csv_ = write_table(table);
    write("x.csv", csv_);
  }
  // The given text in the place of that of the row and column, both from 0; row 0 is the header.
  std::string with_cell(int row, int column, const std::string& text) const {
    std::size_t begin = 0;
    for (int i = 0; i < row; ++i) begin = csv_.find('\n', begin) + 1;
    for (int i = 0; i < column; ++i) begin = csv_.find(',', begin) + 1;
    std::string out = csv_;
    return out.replace(begin, csv_.find_first_of(",\n", begin) - begin, text);
  }
  static constexpr const char* train =
      "train forecast --csv x.csv --preset documents --max-epoch 2 --lr 0.002 --log-interval 1 --threads 2 ";

  std::string csv_;
};

TEST_F(TrainForecast, FromATableToTheNextValues) {
  CommandResult r = run(std::string(train) + "--save-dir model --target price");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(
      r.err,
      {"x.csv: 400 rows from 2020-01-01 to 2021-02-03, a row every 1 day", "windows: 244 training, 34 validation, 74 test", "win/s"});
  EXPECT_EQ(r.err.find("ppl"), std::string::npos);
  expect_parts(r.out, {"test of model: MSE", "(original units)", "price: MSE", "repeating the last value: MSE"});
  EXPECT_EQ(r.out.find("volume"), std::string::npos);
  expect_parts(read("model/test.json"), {"\"scaled\"", "\"original\"", "\"windows\": 74"});

  const std::string measured = r.out.substr(r.out.find("MSE"), r.out.find('\n') - r.out.find("MSE"));
  r = run("evaluate model --csv x.csv --split 0.7,0.1,0.2");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.out, {"x.csv: " + measured});

  r = run("forecast model --csv x.csv --plot next.svg");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.starts_with("date,price\n2021-02-04,1")) << r.out;
  EXPECT_EQ(std::count(r.out.begin(), r.out.end(), '\n'), 8);
  expect_parts(read("next.svg"), {"<svg", "price", "2021-02-10", "</svg>"});
  const std::string seven = r.out;
  r = run("forecast model --csv - --steps 9 --out next.csv", csv_);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out, "");
  expect_parts(r.err, {"9 steps are more than the model's horizon of 7"});
  EXPECT_TRUE(read("next.csv").starts_with(seven));
  r = run("forecast model --csv x.csv --out next.csv.gz", "", "&& gzip -dc next.csv.gz");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out, seven);
}

TEST_F(TrainForecast, QuantilesAreColumnsAndABand) {
  CommandResult r = run(std::string(train) + "--save-dir model --quantiles 0.1,0.9");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"pinball", "coverage"});
  expect_parts(r.out, {"3 quantiles: pinball loss", "from 10 to 90 %:", "% of the values", "price:  MSE", "covers"});
  expect_parts(read("model/config.json"), {"\"quantiles\": [", "0.5"});
  expect_parts(read("model/test.json"), {"\"coverage\"", "\"pinball\"", "\"quantiles\""});
  const std::size_t quantiles = r.out.find("3 quantiles");
  const std::string measured = r.out.substr(quantiles, r.out.find('\n', quantiles) - quantiles);
  r = run("evaluate model --csv x.csv --split 0.7,0.1,0.2");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.out, {measured});

  r = run("forecast model --csv x.csv --plot next.svg --steps 9");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.starts_with("date,price,price_q10,price_q90,volume,volume_q10,volume_q90\n2021-02-04,1")) << r.out;
  std::istringstream lines(r.out);
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line);) {
    double point = 0.0, low = 0.0, high = 0.0;
    ASSERT_EQ(std::sscanf(line.c_str() + line.find(','), ",%lf,%lf,%lf", &point, &low, &high), 3) << line;
    EXPECT_LE(low, point);
    EXPECT_LE(point, high);
  }
  expect_parts(r.err, {"the quantiles beyond it"});
  expect_parts(read("next.svg"), {"class=\"band\"", ">10 to 90 %<"});

  // The folder's quantiles stay when it is trained further.
  r = run("train forecast --from model --csv x.csv --max-update 2 --threads 2 --save-dir tuned");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.out, {"3 quantiles: pinball loss"});
  expect_usage("train forecast --from model --csv x.csv --max-update 2 --quantiles 0.2,0.8 --save-dir other", "--quantiles");
  expect_usage(std::string(train) + "--save-dir other --quantiles 0.1,0.9 --loss mae", "leave out --loss or --quantiles");
  expect_usage(std::string(train) + "--save-dir other --quantiles 10,90", "--quantiles is 10,90: expected numbers between 0 and 1");
}

TEST_F(TrainForecast, TheSeriesMustHaveTheModelsChannels) {
  ASSERT_EQ(run(std::string(train) + "--save-dir model --max-update 2").code, 0) << read("stderr");
  write("renamed.csv", with_cell(0, 1, "Price"));
  expect_failure("forecast model --csv renamed.csv", "renamed.csv: there is no column 'price'; did you mean 'Price'?");
  write("short.csv", csv_.substr(0, csv_.find("2020-01-20")));
  expect_failure("forecast model --csv short.csv", "has 19 rows, but the model looks back on 30");
  expect_failure("evaluate model --csv short.csv", "has 19 rows, but a window takes 37");
  write("hourly.csv", "date,price,volume\n");
  std::string hourly = "date,price,volume\n";
  for (int i = 0; i < 48; ++i) hourly += fmt::format("2024-01-{:02} {:02}:00,{},5\n", 1 + i / 24, i % 24, i % 5);
  write("hourly.csv", hourly);
  const CommandResult r = run("forecast model --csv hourly.csv");
  EXPECT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"trained on steps of 1 day, hourly.csv has steps of 1 hour"});
  expect_parts(r.out, {"\n2024-01-03 00:00,"});
  expect_usage("forecast model", "--csv");
  expect_usage("forecast --csv x.csv", "MODEL");
  expect_failure("forecast model --csv x.csv --out nowhere/next.csv", "nowhere/next.csv");
}

TEST_F(TrainForecast, ForecastsGoWhereTheyShallOrNowhere) {
  ASSERT_EQ(run(std::string(train) + "--save-dir model --max-update 2").code, 0) << read("stderr");
  expect_failure("forecast model --csv x.csv --plot p.svg --out nowhere/f.csv", "nowhere/f.csv");
  EXPECT_FALSE(fs::exists(folder_ / "p.svg"));
  expect_failure("forecast model --csv x.csv --plot nowhere/p.svg --out f.csv", "nowhere/p.svg");
  EXPECT_FALSE(fs::exists(folder_ / "f.csv"));
  expect_failure("forecast model --csv x.csv --out model", "model: is a folder");
  expect_usage("forecast model --csv x.csv --plot f.png", "--plot: expected a name that ends in .svg");
  expect_usage("forecast model --csv x.csv --plot f.svg --out ./f.svg", "--out and --plot are the same file");
  EXPECT_FALSE(fs::exists(folder_ / "f.svg"));
  const CommandResult r = run("forecast model --csv x.csv --plot f.svg --out f.csv");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(read("f.csv").starts_with("date,price,volume\n2021-02-04,1"));
  expect_parts(read("f.svg"), {"<svg", "volume"});
}

TEST_F(TrainForecast, APartWithoutWindowsOrASplitIsRefused) {
  ASSERT_EQ(run(std::string(train) + "--save-dir model --max-update 2").code, 0) << read("stderr");
  expect_failure("evaluate model --csv x.csv --split 0.05,0.05,0.9 --part train", "the part has 20 rows, 1 to 20, and no window");
  expect_usage("evaluate model --csv x.csv --part train", "--part: there are no parts without a split");
  EXPECT_EQ(run("evaluate model --csv x.csv --split 0.7,0.1,0.2 --part train").code, 0) << read("stderr");
}

TEST_F(TrainForecast, ASplitThatCannotBeIsWrongUsage) {
  const auto refused = [&](const std::string& split, const std::string& message) {
    expect_usage(std::string(train) + "--save-dir other " + split, message);
    EXPECT_FALSE(fs::exists(folder_ / "other"));
  };
  refused("--split 0.9", "--split is '0.9': expected three shares that sum to 1");
  refused("--split 0.8,0.1,0.1 --valid-from 2020-12-01", "the split is given twice: as --split, '0.8,0.1,0.1', and by dates");
  refused("--test-from 2020-12-01", "--test-from is given without --valid-from");
  refused("--valid-from soon", "--valid-from is 'soon': expected a date as in x.csv, which begins with 2020-01-01");
  refused("--valid-from 2031-01-01", "--valid-from is 2031-01-01: expected a date that x.csv reaches, which ends with 2021-02-03");
  refused("--valid-from 2020-12-01 --test-from 2022-01-15", "--test-from is 2022-01-15: expected a date that x.csv reaches");
  refused("--valid-from 2020-12-01 --test-from 2020-11-01", "--test-from is 2020-11-01, before --valid-from, 2020-12-01");
  refused("--valid-from 2019-12-01", "--valid-from is 2019-12-01 and leaves nothing to train on: x.csv begins with 2020-01-01");
  std::string numbers = "price\n";
  for (int i = 0; i < 100; ++i) numbers += fmt::format("{}.5\n", i % 7);
  write("numbers.csv", numbers);
  refused("--csv numbers.csv --valid-from 2020-12-01",
          "--valid-from is given, but numbers.csv has no dates: give shares, such as --split 0.7,0.1,0.2");
}

// A file as a trader has it: text and another date before the date, a large offset, days that were left out.
TEST_F(TrainForecast, TheDateColumnAndSmallDifferencesAreKept) {
  const SeriesTable days = toy_prices(200);
  std::string text = "symbol,listed,day,close\n";
  for (std::int64_t i = 0; i < 200; ++i)
    if (i != 150) text += fmt::format("A,1999-01-04,{},{}\n", days.date(i), 1e9 + days.at(i, 0));
  write("close.csv", text);
  ASSERT_EQ(run(std::string(train) + "--csv close.csv --channels close --date-column day --max-update 2 --save-dir model").code, 0)
      << read("stderr");
  const CommandResult r = run("forecast model --csv close.csv");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"close.csv has a row every 1 day, but 1 of its 199 rows are further apart or nearer"});
  EXPECT_TRUE(r.out.starts_with("day,close\n2020-07-19,1000000")) << r.out;
  EXPECT_EQ(r.out.find('e', 10), std::string::npos) << r.out;
  std::set<std::string> values;
  std::istringstream lines(r.out);
  for (std::string line; std::getline(lines, line);) values.insert(line.substr(line.find(',')));
  EXPECT_EQ(values.size(), 8U) << r.out;
}

TEST_F(TrainForecast, BadInputIsNamedAndNothingIsWritten) {
  const auto refused = [&](const std::string& text, const std::string& message, const std::string& more = "") {
    write("bad.csv", text);
    expect_failure(std::string(train) + "--csv bad.csv --save-dir model " + more, message);
  };
  refused(with_cell(7, 2, "abc"), "bad.csv: row 7 (line 8), column 'volume': 'abc' is not a number");
  refused(with_cell(7, 0, "2020-01-32"), "bad.csv: row 7 (line 8), column 'date': '2020-01-32' is not a date");
  refused(with_cell(7, 0, "2020-01-03"), "'2020-01-03' is not after '2020-01-06'");
  refused(with_cell(7, 2, ""), "1 value is missing: row 7 (line 8), column 'volume'; choose what becomes of them");
  refused(csv_.substr(0, csv_.find("2020-01-20")), "has 19 rows, 13 of them for training, but a window takes 37");
  refused(csv_.substr(0, csv_.find("2020-01-20")), "such as --context 6 --horizon 1 --patch-length 1 --stride 1");
  refused(csv_, "this split takes 14400", "--split etth");
  refused(csv_, "the target 'prices' is not one of the channels price, volume; did you mean 'price'?", "--target prices");
  expect_usage(std::string(train) + "--patch-length 40 --save-dir model", "--patch-length is 40 and --context 30");
  expect_failure(std::string(train) + "--csv none.csv --save-dir model", "none.csv");
  expect_usage("train forecast --max-epoch 1 --save-dir model", "the series is missing");
  EXPECT_FALSE(fs::exists(folder_ / "model/model.safetensors"));
  EXPECT_FALSE(fs::exists(folder_ / "model/series.json"));
}

// Sizes that nobody has given are those that the rows allow; those that the message proposes are, too.
TEST_F(TrainForecast, FewRowsAreEnough) {
  std::string rows = "Tag;Wert\n";
  for (int i = 0; i < 120; ++i)
    rows += fmt::format("{};{}\n", write_date(advance(19700 * 86400LL, {.units = 86400}, i), {.pattern = "%d.%m.%Y"}),
                        i % 7 == 0 ? "1,5" : fmt::format("{},25", i % 5));
  write("few.csv", rows);
  const std::string command = "train forecast --csv few.csv --max-epoch 1 --d-model 8 --num-heads 2 --d-ff 8 --num-layers 1 --threads 2 ";
  const CommandResult r = run(command + "--save-dir model");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err,
               {"120 rows from 09.12.2023 to 06.04.2024, a row every 1 day", "context 37, horizon 10", "--context",
                "batches of 8 windows instead of 128"});
  const CommandResult next = run("forecast model --csv few.csv");
  EXPECT_TRUE(next.out.starts_with("Tag,Wert\n07.04.2024,")) << next.out << next.err;
  const CommandResult bad = run(command + "--context 336 --save-dir given");
  EXPECT_EQ(bad.code, 1);
  const std::size_t at = bad.err.find("--context");
  ASSERT_NE(at, std::string::npos) << bad.err;
  EXPECT_EQ(run(command + bad.err.substr(at, bad.err.find('\n', at) - at) + " --save-dir given").code, 0) << bad.err << read("stderr");
}

TEST_F(TrainForecast, MissingValuesAreFilledOrLeftOutWhenAsked) {
  write("x.csv", with_cell(7, 2, "NA"));
  CommandResult r = run(std::string(train) + "--save-dir filled --max-update 2 --missing interpolate");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"400 rows", "1 missing values filled"});
  r = run(std::string(train) + "--save-dir dropped --max-update 2 --missing drop");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"399 rows", "1 rows with missing values left out"});
}

TEST_F(TrainForecast, AChangedRunIsRefusedAndAFolderIsTrainedFurther) {
  ASSERT_EQ(run(std::string(train) + "--save-dir model --max-update 3").code, 0) << read("stderr");
  const auto refused = [&](const std::string& more, const std::string& message) {
    const CommandResult r = run(std::string(train) + "--save-dir model --max-update 6 " + more);
    EXPECT_EQ(r.code, 1) << more;
    expect_parts(r.err, {message});
  };
  refused("--horizon 5", "architecture.prediction_length: 7 in the checkpoint, 5 now");
  refused("--split 0.6,0.2,0.2", "data.training_rows: [0,280] in the checkpoint, [0,240] now");
  refused("--channels price", "data.channels");
  refused("--batch-size 16", "data.batch_size: 128 in the checkpoint, 16 now");
  const std::string further = "train forecast --from model --csv x.csv --max-update 4 --threads 2 --channels price --save-dir ";
  const CommandResult r = run(further + "tuned --dropout 0");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"from model"});
  EXPECT_EQ(run("forecast tuned --csv x.csv").code, 0) << read("stderr");
  expect_usage(further + "other --d-model 8", "--d-model: the model");
  expect_usage(further + "other --preset small", "--preset");
}

TEST_F(TrainForecast, TheToySeriesNeedsNoFile) {
  const CommandResult r = run("train forecast --toy prices --preset documents --max-update 3 --threads 2 --save-dir model");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(run("forecast model --csv model/prices.csv").code, 0) << read("stderr");
}

}  // namespace
}  // namespace transformer::test
