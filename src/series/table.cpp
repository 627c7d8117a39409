#include "transformer/series/table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "series/csv.h"

namespace transformer {
namespace {

constexpr double absent = std::numeric_limits<double>::quiet_NaN();

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return (x | 0x20) == (y | 0x20); });
}
bool is_missing(std::string_view cell) {
  return cell.empty() || same_ignoring_case(cell, "nan") || same_ignoring_case(cell, "na") || same_ignoring_case(cell, "null") ||
      cell == "N/A" || cell == "n/a";
}

// A finite number, NaN for a missing one, nothing for anything else.
std::optional<double> number_in(std::string_view cell) {
  if (is_missing(cell)) return absent;
  if (cell.starts_with('+')) cell.remove_prefix(1);
  double value = 0.0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string shown(std::string_view text) {
  constexpr std::size_t longest = 40;
  return text.size() <= longest ? std::string(text) : fmt::format("{}…", text.substr(0, longest));
}

// Where the columns that are wanted stand in a record.
struct Columns {
  std::size_t all = 0;
  std::optional<std::size_t> date;
  std::vector<std::size_t> channels;
};

class Reader {
 public:
  Reader(const std::function<bool(std::string& line)>& lines, const std::string& name, const TableOptions& options)
      : options_(options), records_(lines, name) {
    table_.name = name;
    records_.set_delimiter(options.delimiter);
  }

  SeriesTable read() {
    std::vector<std::string> cells;
    read_header();
    bool first = true;
    for (; records_.next(cells); first = false) {
      ++row_;
      if (cells.size() != columns_.all)
        fail(table_.name, "{} has {} cells, but the header has {} columns (delimiter '{}')", place(), cells.size(), columns_.all,
             records_.delimiter() == '\t' ? std::string("tab") : std::string(1, records_.delimiter()));
      if (first) choose_columns(cells);
      if (columns_.date) read_date(cells[*columns_.date]);
      for (const std::size_t i : columns_.channels) read_value(header_[i], cells[i]);
    }
    if (row_ == 0) fail(table_.name, "there are no rows below the header");
    table_.missing = std::count_if(table_.values.begin(), table_.values.end(), [](double v) { return std::isnan(v); });
    return std::move(table_);
  }
  // The line of the file where each row begins, for messages.
  const std::vector<std::int64_t>& lines() const { return lines_; }

 private:
  std::string place() const { return fmt::format("row {} (line {})", row_, records_.line()); }

  void read_header() {
    if (!records_.next(header_)) fail(table_.name, "the file is empty: expected a row of column names");
    if (std::all_of(header_.begin(), header_.end(), [](const std::string& cell) { return number_in(cell).has_value(); }))
      fail(table_.name, "the first row has numbers ('{}' …): expected the names of the columns there", shown(header_.front()));
    std::set<std::string> seen;
    for (const std::string& name : header_)
      if (!name.empty() && !seen.insert(name).second) fail(table_.name, "two columns are called '{}': give each a name of its own", name);
    columns_.all = header_.size();
  }

  std::size_t column(const std::string& name, std::string_view what) const {
    const auto found = std::find(header_.begin(), header_.end(), name);
    if (found == header_.end() || name.empty())
      fail(table_.name, "there is no column '{}'{}{}; it has {}", name, what, did_you_mean(name, header_), fmt::join(header_, ", "));
    return static_cast<std::size_t>(found - header_.begin());
  }

  // By the names, and by what the first row has.
  void choose_columns(const std::vector<std::string>& cells) {
    if (!options_.date_column.empty()) {
      columns_.date = column(options_.date_column, " for the dates");
    } else {
      const auto text = std::find_if(cells.begin(), cells.end(), [](const std::string& cell) { return !number_in(cell); });
      constexpr std::string_view usual[] = {"date", "datetime", "timestamp", "time", "year"};
      DateFormat ignored;
      if (text != cells.end() && parse_date(*text, ignored)) columns_.date = static_cast<std::size_t>(text - cells.begin());
      else if (std::any_of(std::begin(usual), std::end(usual), [&](auto name) { return same_ignoring_case(header_.front(), name); }))
        columns_.date = 0;
    }
    for (const std::string& given : options_.channels) {
      std::vector<std::string> names{given};
      if (std::find(header_.begin(), header_.end(), given) == header_.end() && given.find(',') != std::string::npos)
        names = split_names(given);
      for (const std::string& name : names) {
        columns_.channels.push_back(column(name, ""));
        if (std::count(columns_.channels.begin(), columns_.channels.end(), columns_.channels.back()) > 1)
          fail(table_.name, "the column '{}' is asked for twice", name);
        if (columns_.channels.back() == columns_.date) fail(table_.name, "the column '{}' holds the dates: it is no channel", name);
      }
    }
    if (options_.channels.empty())
      for (std::size_t i = 0; i < header_.size(); ++i)
        if (i != columns_.date) columns_.channels.push_back(i);
    if (columns_.channels.empty()) fail(table_.name, "there is no numeric column: the only one, '{}', holds the dates", header_.front());
    if (columns_.date) table_.date_column = header_[*columns_.date];
    for (const std::size_t i : columns_.channels) {
      if (header_[i].empty()) fail(table_.name, "column {} has no name in the header", i + 1);
      table_.channels.push_back(header_[i]);
    }
  }

  void read_date(const std::string& cell) {
    DateFormat format;
    const auto date = parse_date(cell, format);
    if (!date)
      fail(table_.name,
           "{}, column '{}': '{}' is no date; expected YYYY-MM-DD or YYYY/MM/DD, with or without a time HH:MM[:SS], or an integer", place(),
           table_.date_column, shown(cell));
    if (table_.dates.empty()) table_.format = format;
    else if (format.integer != table_.format.integer)
      fail(table_.name, "{}, column '{}': '{}' is written in another way than the dates before it", place(), table_.date_column,
           shown(cell));
    else if (*date <= table_.dates.back())
      fail(table_.name,
           "{}, column '{}': '{}' is not after '{}' in the row before; dates must increase: sort the rows, and keep one of each", place(),
           table_.date_column, shown(cell), write_date(table_.dates.back(), table_.format));
    // Dates with and without a time of day: written with it.
    else if (format.time_parts > table_.format.time_parts) table_.format = format;
    table_.dates.push_back(*date);
  }

  void read_value(const std::string& column_name, const std::string& cell) {
    const auto value = number_in(cell);
    if (!value)
      fail(table_.name, "{}, column '{}': '{}' is no number{}", place(), column_name, shown(cell),
           row_ == 1 ? "; if the column is none of numbers, name those that are (--channels)" : "");
    table_.values.push_back(*value);
    if (table_.values.size() % table_.channels.size() == 0) lines_.push_back(records_.line());
  }

  const TableOptions& options_;
  CsvRecords records_;
  SeriesTable table_;
  std::vector<std::string> header_;
  Columns columns_;
  std::int64_t row_ = 0;
  std::vector<std::int64_t> lines_;
};

[[noreturn]] void refuse_missing(const SeriesTable& table, const std::vector<std::int64_t>& lines) {
  constexpr std::size_t named = 3;
  std::vector<std::string> places;
  for (std::int64_t row = 0; row < table.rows() && places.size() < named; ++row)
    for (std::int64_t c = 0; c < std::ssize(table.channels) && places.size() < named; ++c)
      if (std::isnan(table.at(row, c)))
        places.push_back(fmt::format("row {} (line {}), column '{}'", row + 1, lines[static_cast<std::size_t>(row)],
                                     table.channels[static_cast<std::size_t>(c)]));
  fail(table.name, "{} value{} missing: {}{}; choose what becomes of them: --missing drop or --missing interpolate", table.missing,
       table.missing == 1 ? " is" : "s are", fmt::join(places, "; "), table.missing > std::ssize(places) ? "; …" : "");
}

void drop_rows(SeriesTable& table) {
  const std::int64_t n = std::ssize(table.channels), rows = table.rows();
  std::int64_t kept = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin = table.values.begin() + row * n;
    if (std::any_of(begin, begin + n, [](double v) { return std::isnan(v); })) continue;
    std::copy(begin, begin + n, table.values.begin() + kept * n);
    if (!table.dates.empty()) table.dates[static_cast<std::size_t>(kept)] = table.dates[static_cast<std::size_t>(row)];
    ++kept;
  }
  if (kept == 0) fail(table.name, "every row has a missing value: none is left (--missing interpolate fills them)");
  table.values.resize(static_cast<std::size_t>(kept * n));
  if (!table.dates.empty()) table.dates.resize(static_cast<std::size_t>(kept));
  table.dropped = rows - kept;
}

// Values of a channel between two that are there lie on the line between them.
void interpolate(SeriesTable& table, std::int64_t channel) {
  const std::int64_t n = std::ssize(table.channels), rows = table.rows();
  const auto value = [&](std::int64_t row) -> double& { return table.values[static_cast<std::size_t>(row * n + channel)]; };
  const auto time = [&](std::int64_t row) {
    return static_cast<double>(table.dates.empty() ? row : table.dates[static_cast<std::size_t>(row)]);
  };
  std::int64_t before = -1;  // the last row that has a value
  for (std::int64_t row = 0; row <= rows; ++row) {
    if (row < rows && std::isnan(value(row))) continue;
    if (row == rows && before < 0)
      fail(table.name, "column '{}' has no values at all: leave it out (--channels)", table.channels[static_cast<std::size_t>(channel)]);
    for (std::int64_t i = before + 1; i < row; ++i) {
      if (before < 0) value(i) = value(row);
      else if (row == rows) value(i) = value(before);
      else value(i) = std::lerp(value(before), value(row), (time(i) - time(before)) / (time(row) - time(before)));
    }
    before = row;
  }
}

}  // namespace

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    if (comma > begin) out.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return out;
}

std::string SeriesTable::date(std::int64_t row) const {
  return dates.empty() ? "" : write_date(dates[static_cast<std::size_t>(row)], format);
}

SeriesTable read_table(const std::function<bool(std::string& line)>& lines, const std::string& name, const TableOptions& options) {
  Reader reader(lines, name, options);
  SeriesTable table = reader.read();
  if (table.missing == 0) return table;
  switch (options.missing) {
    case Missing::refuse: refuse_missing(table, reader.lines());
    case Missing::drop: drop_rows(table); break;
    case Missing::interpolate:
      for (std::int64_t c = 0; c < std::ssize(table.channels); ++c) interpolate(table, c);
  }
  return table;
}

std::string write_table(const SeriesTable& table, int digits) {
  std::string out = table.dates.empty() ? "" : csv_cell(table.date_column) + ",";
  for (const std::string& channel : table.channels) out += csv_cell(channel) + ",";
  out.back() = '\n';
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    if (!table.dates.empty()) out += table.date(row) + ",";
    for (std::int64_t c = 0; c < std::ssize(table.channels); ++c)
      out += digits > 0 ? fmt::format("{:.{}g},", table.at(row, c), digits) : fmt::format("{},", table.at(row, c));
    out.back() = '\n';
  }
  return out;
}

}  // namespace transformer
