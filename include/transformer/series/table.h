#pragma once
// A table of numbers over time, from CSV (io/delimited.h): a row of names, a date column, any number of numeric channels.
//
//   SeriesTable table = read_csv("ETTh1.csv");
//   table.channels;                              // {"HUFL", …, "OT"}
//   table.at(0, 6);                              // OT in the first row

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "transformer/io/delimited.h"
#include "transformer/series/dates.h"

namespace transformer {

// What becomes of missing values: empty cells, NaN, NA, null.
enum class Missing : std::uint8_t {
  refuse,       // an Error with their places
  drop,         // rows that have one are left out
  interpolate,  // on the line between the neighbours in time; at the ends the nearest value
};
inline EnumNames<Missing> names(Missing) {
  return {{Missing::refuse, "refuse"}, {Missing::drop, "drop"}, {Missing::interpolate, "interpolate"}};
}

// What stands before the decimals.
enum class Decimal : std::uint8_t {
  automatic,  // a point; or a comma where no number has a point, and it cannot stand between thousands in all of them
  point,
  comma,
};
inline EnumNames<Decimal> names(Decimal) { return {{Decimal::automatic, "auto"}, {Decimal::point, "."}, {Decimal::comma, ","}}; }

struct TableOptions {
  std::vector<std::string> channels = {};  // columns to read, in this order; "a,b" is two. Empty: all but the date
  std::string date_column = {};            // empty: the first column of dates, or of integers where it is first and called date, time, …
  std::string usual_date_column = {};      // without date_column: this one, where there is a column of this name
  std::string date_format = {};            // strptime's letters; empty: found by what all dates of the column are
  std::string delimiter = "auto";          // one character, or "tab"; auto: what fits
  // Without names the columns are column1, column2 …, and date. automatic: the first row has the names, unless it is made of dates and
  // numbers; an Error where it has numbers alone.
  Header header = Header::automatic;
  Decimal decimal = Decimal::automatic;
  Missing missing = Missing::refuse;

  static void visit(auto& self, auto&& field) {
    field("channels", self.channels, "columns to use, in this order (none: all numeric ones)");
    field("date_column", self.date_column, "column of the dates (empty: the first that has dates)");
    field("date_format", self.date_format, "how dates are written, in strptime's letters, such as %d/%m/%Y (empty: found by itself)");
    field("delimiter", self.delimiter, "between the cells of a row: auto, tab, or a character such as ;");
    field("header", self.header, "whether the first row has the names of the columns; without them they are column1, column2 …");
    field("decimal", self.decimal, "what stands before the decimals: a point or a comma (auto: found by all numbers)");
    field("missing", self.missing, "empty, NaN, NA or null cells: an error, their rows left out, or filled from the neighbours");
  }
};

struct SeriesTable {
  std::string name = {};         // of the file, for messages
  std::string date_column = {};  // its name, which may be empty
  std::vector<std::string> channels = {};
  DateFormat format = DateFormat();
  std::vector<std::int64_t> dates = {};  // increasing; empty: there are none
  std::vector<double> values = {};       // [rows, channels], finite
  std::int64_t missing = 0;              // values that were missing in what was read
  std::int64_t dropped = 0;              // rows left out for it

  std::int64_t rows() const { return channels.empty() ? 0 : std::ssize(values) / std::ssize(channels); }
  double at(std::int64_t row, std::int64_t channel) const { return values[static_cast<std::size_t>(row * std::ssize(channels) + channel)]; }
  std::string date(std::int64_t row) const;  // as it is written; "" without dates
  DateStep step() const { return infer_step(dates, format); }
};

// "a,b" → a, b
std::vector<std::string> split_names(const std::string& text);

// Reads lines until there are no more; `name` stands in errors, which say the row, the column and the text of what cannot be read.
SeriesTable read_table(const std::function<bool(std::string& line)>& lines, const std::string& name, const TableOptions& options = {});

// A CSV file, plain or gzip; "-" is standard input.
SeriesTable read_csv(const std::string& path, const TableOptions& options = {});

// How many decimals show six digits of what these values differ by; -1: they are too small or too large to be written out.
int decimals_for(std::span<const double> values);
// The table as CSV, the numbers of channel c with decimals[c] decimals. None given, or -1: as many as they need to be read back as they
// are.
std::string write_table(const SeriesTable& table, const std::vector<int>& decimals = {});

}  // namespace transformer
