#include "transformer/series/table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "io/shared/characters.h"
#include "series/date_column.h"
#include "transformer/io/lines.h"

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

// A finite number with a decimal point, NaN for a missing one, nothing for anything else.
std::optional<double> number_in(std::string_view cell) {
  if (is_missing(cell)) return absent;
  if (cell.starts_with('+')) cell.remove_prefix(1);
  double value = 0.0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// 1,234: may be read as a thousand and more. Not 0,234 nor 1,5.
bool may_be_thousands(std::string_view cell) {
  if (cell.starts_with('+') || cell.starts_with('-')) cell.remove_prefix(1);
  const std::size_t comma = cell.find(',');
  return comma >= 1 && comma <= 3 && cell.front() != '0' && cell.size() == comma + 4 &&
      std::all_of(cell.begin() + static_cast<std::ptrdiff_t>(comma) + 1, cell.end(), is_digit);
}

// The numbers of a table, whose decimals stand behind one sign in all of them.
class Numbers {
 public:
  explicit Numbers(Decimal decimal) : decimal_(decimal) {}

  // NaN for a missing one, nothing for what is not a number.
  template <class Place>
  std::optional<double> read(const std::string& cell, Place&& place) {
    const bool point = cell.find('.') != std::string::npos, comma = cell.find(',') != std::string::npos;
    if (!comma && !(point && decimal_ == Decimal::comma)) {
      const auto value = number_in(cell);
      if (value && point && point_.empty()) point_ = fmt::format("'{}' in {}", cell, place());
      return value;
    }
    if (point || decimal_ == Decimal::point) return std::nullopt;
    std::string with_point = cell;
    with_point[cell.find(',')] = '.';
    const auto value = number_in(with_point);  // a second comma is none
    if (value && comma_.empty()) comma_ = fmt::format("'{}' in {}", cell, place());
    sure_ = sure_ || (value && !may_be_thousands(cell));
    return value;
  }

  // Error when the commas that were read as decimal ones may be something else.
  void check(const std::string& table) const {
    if (decimal_ != Decimal::automatic || comma_.empty()) return;
    if (!point_.empty())
      fail(table, "{} has a comma and {} a point: numbers have one or the other before their decimals, and nothing between thousands",
           comma_, point_);
    if (!sure_)
      fail(table,
           "{} may be with three decimals or without any, and so may all numbers that have a comma: give --decimal , if it stands "
           "before decimals, or write thousands without a comma",
           comma_);
  }

 private:
  Decimal decimal_;
  bool sure_ = false;
  std::string comma_, point_;  // the first of them, with its place
};

// 01/31/20, 31.1.20, 31-Jan-20: what a person reads as a date. Not 1.000.000.
bool looks_like_date(std::string_view cell) {
  const std::size_t first = cell.find_first_of("/-.");
  if (first == std::string_view::npos) return false;
  const std::size_t second = cell.find(cell[first], first + 1);
  if (second == std::string_view::npos) return false;
  const auto is_letter = [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; };
  const std::string_view a = cell.substr(0, first), b = cell.substr(first + 1, second - first - 1), c = cell.substr(second + 1);
  const bool month = !b.empty() &&
      (std::all_of(b.begin(), b.end(), is_letter) || (b.size() <= 2 && std::all_of(b.begin(), b.end(), is_digit)));
  return month && !a.empty() && a.size() <= 4 && std::all_of(a.begin(), a.end(), is_digit) && !c.empty() && is_digit(c.front());
}

// What to do about a cell that is not a number.
std::string advice_for(std::string_view cell, bool first_row) {
  if (looks_like_date(cell) && !is_date(cell)) return fmt::format("; if it is a date, write it in one of the forms {}", date_forms);
  if (cell.find_first_of("0123456789") != std::string_view::npos && cell.find_first_not_of("0123456789.,' +-") == std::string_view::npos)
    return "; numbers have nothing between thousands, and a decimal point, or a comma in all of them (--decimal): 1234.5";
  return first_row ? "; if the column is not numeric, name those that are (--channels)" : "";
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
      : options_(options), records_(lines, name, {.delimiter = options.delimiter, .numbers = true}), numbers_(options.decimal) {
    table_.name = name;
  }

  SeriesTable read() {
    std::vector<std::string> cells;
    read_header(cells);
    bool first = true;
    for (bool more = !cells.empty() || records_.next(cells); more; more = records_.next(cells), first = false) {
      ++row_;
      if (cells.size() != columns_.all)
        fail(table_.name, "{} has {} cells, but the header has {} columns (delimiter '{}')", place(), cells.size(), columns_.all,
             records_.delimiter_name());
      if (first) choose_columns(cells);
      if (columns_.date) dates_->add(cells[*columns_.date], [this] { return place(); });
      for (const std::size_t i : columns_.channels) read_value(header_[i], cells[i]);
    }
    if (row_ == 0) fail(table_.name, "there are no rows below the header");
    numbers_.check(table_.name);
    if (dates_) dates_->finish(table_.dates, table_.format);
    table_.missing = std::count_if(table_.values.begin(), table_.values.end(), [](double v) { return std::isnan(v); });
    return std::move(table_);
  }
  // The line of the file where each row begins, for messages.
  const std::vector<std::int64_t>& lines() const { return lines_; }

 private:
  std::string place() const { return fmt::format("row {} (line {})", row_, records_.line()); }

  // The names of the columns. A first row that has none is left in `cells`.
  void read_header(std::vector<std::string>& cells) {
    if (!records_.next(header_)) fail(table_.name, "the file is empty: expected a row of column names");
    const auto is_number = [&](const std::string& cell) { return Numbers(options_.decimal).read(cell, [] { return ""; }).has_value(); };
    bool named = options_.header != Header::no;
    if (options_.header == Header::automatic) {
      if (std::all_of(header_.begin(), header_.end(), is_number))
        fail(table_.name,
             "the first row has numbers ('{}' …): expected the names of the columns there; give --header yes if they are the names, "
             "--header no if there are none",
             shown(header_.front()));
      named = !std::all_of(header_.begin(), header_.end(), [&](const std::string& c) { return is_number(c) || is_a_date(c); });
    }
    columns_.all = header_.size();
    if (!named) {
      cells = header_;
      for (std::size_t i = 0; i < header_.size(); ++i) header_[i] = fmt::format("column{}", i + 1);
      if (options_.date_column.empty())
        if (const auto date = std::find_if(cells.begin(), cells.end(), [&](const std::string& c) { return is_a_date(c); });
            date != cells.end())
          header_[static_cast<std::size_t>(date - cells.begin())] = "date";
    }
    std::set<std::string> seen;
    for (const std::string& name : header_)
      if (!name.empty() && !seen.insert(name).second) fail(table_.name, "two columns are called '{}': give each a name of its own", name);
  }

  std::size_t column(const std::string& name, std::string_view what) const {
    const auto found = std::find(header_.begin(), header_.end(), name);
    if (found == header_.end() || name.empty())
      fail(table_.name, "there is no column '{}'{}{}; it has {}", name, what, did_you_mean(name, header_), fmt::join(header_, ", "));
    return static_cast<std::size_t>(found - header_.begin());
  }

  // By the names, and by what the first row has.
  void choose_columns(const std::vector<std::string>& cells) {
    const auto known = std::find(header_.begin(), header_.end(), options_.usual_date_column);
    if (!options_.date_column.empty()) {
      columns_.date = column(options_.date_column, " for the dates");
    } else if (!options_.usual_date_column.empty() && known != header_.end()) {
      columns_.date = static_cast<std::size_t>(known - header_.begin());
    } else {
      const auto date = std::find_if(cells.begin(), cells.end(), [&](const std::string& cell) { return is_a_date(cell); });
      constexpr std::string_view usual[] = {"date", "datetime", "timestamp", "time", "year"};
      if (date != cells.end()) columns_.date = static_cast<std::size_t>(date - cells.begin());
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
        if (columns_.channels.back() == columns_.date) fail(table_.name, "the column '{}' holds the dates: it is not a channel", name);
      }
    }
    if (options_.channels.empty())
      for (std::size_t i = 0; i < header_.size(); ++i)
        if (i != columns_.date) columns_.channels.push_back(i);
    if (columns_.channels.empty()) fail(table_.name, "there is no numeric column: the only one, '{}', holds the dates", header_.front());
    if (columns_.date) {
      table_.date_column = header_[*columns_.date];
      dates_.emplace(table_.name, table_.date_column, options_.date_format);
    } else if (!options_.date_format.empty()) {
      fail(table_.name, "--date-format is '{}', but the first row has no such date: '{}'", options_.date_format, fmt::join(cells, "', '"));
    }
    for (const std::size_t i : columns_.channels) {
      if (header_[i].empty())
        fail(table_.name, "column {} has no name in the header: give it one, or name the columns to use (--channels)", i + 1);
      table_.channels.push_back(header_[i]);
    }
  }

  // A date by itself, which a plain integer is not.
  bool is_a_date(const std::string& cell) const {
    DateFormat format;
    if (options_.date_format.empty()) return is_date(cell);
    return parse_date(cell, options_.date_format, format).has_value();
  }

  void read_value(const std::string& column_name, const std::string& cell) {
    const auto value = numbers_.read(cell, [&] { return fmt::format("{}, column '{}'", place(), column_name); });
    if (!value)
      fail(table_.name, "{}, column '{}': '{}' is not a number{}", place(), column_name, shown(cell), advice_for(cell, row_ == 1));
    table_.values.push_back(*value);
    if (table_.values.size() % table_.channels.size() == 0) lines_.push_back(records_.line());
  }

  const TableOptions& options_;
  DelimitedReader records_;
  Numbers numbers_;
  std::optional<DateColumn> dates_;
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

SeriesTable read_csv(const std::string& path, const TableOptions& options) {
  constexpr std::size_t longest_line = std::size_t{1} << 24;
  LineReader file(path, longest_line);
  return read_table([&](std::string& line) { return file.next(line); }, path == "-" ? "standard input" : path, options);
}

int decimals_for(std::span<const double> values) {
  double mean = 0.0, squares = 0.0, largest = 0.0;
  for (const double v : values) mean += v / static_cast<double>(values.size()), largest = std::max(largest, std::abs(v));
  for (const double v : values) squares += (v - mean) * (v - mean) / static_cast<double>(values.size());
  // Values that are all the same, but for rounding, are as fine as they are large.
  double scale = std::sqrt(squares);
  if (!(scale > largest * 1e-15)) scale = largest > 0.0 ? largest : 1.0;
  const auto power = [](double v) { return static_cast<int>(std::floor(std::log10(v))); };
  if (!std::isfinite(scale)) return -1;
  const int first = std::max(0, largest > 0.0 ? power(largest) : 0), wanted = std::max(0, 5 - power(scale));
  if (first > 16 || wanted > 20) return -1;
  return largest < 1.0 ? wanted : std::min(wanted, 16 - first);  // a double has no more
}

std::string write_table(const SeriesTable& table, const std::vector<int>& decimals) {
  std::string out = table.dates.empty() ? "" : csv_cell(table.date_column) + ",";
  for (const std::string& channel : table.channels) out += csv_cell(channel) + ",";
  out.back() = '\n';
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    if (!table.dates.empty()) out += csv_cell(table.date(row)) + ",";
    for (std::int64_t c = 0; c < std::ssize(table.channels); ++c) {
      const int places = decimals.empty() ? -1 : decimals[static_cast<std::size_t>(c)];
      out += places < 0 ? fmt::format("{},", table.at(row, c)) : fmt::format("{:.{}f},", table.at(row, c), places);
    }
    out.back() = '\n';
  }
  return out;
}

}  // namespace transformer
