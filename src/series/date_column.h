#pragma once
// The dates of a column, which are all written in one way; 01/02/2024 alone does not say which, 01/13/2024 does.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "transformer/series/dates.h"

namespace transformer {

// A cell in a message: the beginning of a long one.
std::string shown(std::string_view text);

// A date by itself, in one of the forms that are known without being told; a plain integer is none.
bool is_date(std::string_view text);

class DateColumn {
 public:
  // table and column: for messages. format: strptime's letters, or empty. Error for other letters.
  DateColumn(std::string table, std::string column, const std::string& format);

  // The date of the next row; place() names it. Error when it is none, not written as those before, or not after them.
  void add(const std::string& cell, const std::function<std::string()>& place);
  // All of them, increasing. Error where two forms fit all.
  void finish(std::vector<std::int64_t>& dates, DateFormat& format);

 private:
  // A form that all dates so far may be written in.
  struct Form {
    std::string pattern = {};  // empty: what parse_date finds by itself
    DateFormat format = {};
    std::vector<std::int64_t> dates = {};

    std::string add(const std::string& cell);  // what is wrong, or nothing
  };

  std::string table_, column_, first_;
  bool given_ = false;
  std::vector<Form> forms_;
};

}  // namespace transformer
