#pragma once
// Texts and what they are: a class, several, or numbers for each text, or for each two texts that belong together, from tables (TSV, CSV)
// or JSON lines.
//
//   LabelledReader reader("train.tsv");
//   while (auto row = reader.next()) use(row->text, row->label);
//
// Tables: columns separated by tabs; in files called .csv by commas, semicolons, tabs or bars, whichever fits (io/delimited.h, also about
// quotes). The text is in the first column and the label in the second, or where the columns are named: by number from 1, or by the
// words of the first record, which is then a header. It is one, too, when it has a usual name of the text (text, sentence, review …) and
// the name of the label (label, class, sentiment …), or a usual name in the place of the label that no other row has there; in .csv files
// also when all of it are single words, of which the label stands in no other row; a word above numbers is one, too. Names are compared
// without regard to case. Where it is in doubt, an Error says so. Empty lines at the end are passed over.
//
// JSON lines (.jsonl, .ndjson): an object per line; the keys are "text" and "label", or those that are named. Labels that are
// numbers, true or false are taken by their spelling. All may be gzip files.
//
// Several labels: a list of JSON ("labels" is looked for where there is no "label"), or, where a separator is given, what stands between
// separators; there may be none.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transformer/io/delimited.h"
#include "transformer/io/lines.h"

namespace transformer {

struct LabelledColumns {
  std::string text_column, second_column, label_column, label_separator;
  Header header = Header::automatic;
  std::string delimiter = "auto";

  static void visit(auto& self, auto&& field) {
    field("text_column", self.text_column, "column of the text: its number from 1 or its name; of JSON lines the key");
    field("second_column", self.second_column, "column of a second text, for pairs (a question and an answer, two sentences)");
    field("label_column", self.label_column, "column of the class, of the labels or of the number");
    field("label_separator", self.label_separator,
          "what stands between the labels of a text that has several, or between its numbers: , or ; or | (JSON lines may have lists)");
    field("header", self.header, "whether the first line of a table has the names of the columns (auto: it has if it looks like that)");
    field("delimiter", self.delimiter, "between the columns: auto (tab; in .csv files what fits), tab, or a character such as ;");
  }
};

struct LabelledText {
  std::string text, second, label;
  std::optional<std::vector<std::string>> several;  // labels, or numbers; then label is as it stands in the file
  std::int64_t line = 0;                            // where it stands in its file, from 1
};

class LabelledReader {
 public:
  // Error for a file that is missing, or empty, or has not these columns.
  explicit LabelledReader(std::string path, LabelledColumns columns = {});

  // The next row; none after the last one. Error names the file and the line.
  std::optional<LabelledText> next();

  const std::string& path() const { return lines_->path(); }
  bool pairs() const { return !columns_.second_column.empty(); }

 private:
  using Cells = std::vector<std::string>;
  DelimitedReader records() const;  // of the file, from the beginning
  void find_columns(const Cells& first);
  bool looks_like_header(const Cells& first, std::size_t text, std::size_t label) const;
  void check_apart(const std::string& text, const std::string& second, const std::string& label, const char* kind) const;
  void check_label(const std::string& label, std::int64_t line) const;
  bool next_json(LabelledText& row);
  bool next_record(LabelledText& row);
  LabelledText from_cells(const Cells& cells) const;
  LabelledText from_json(const std::string& line) const;

  LabelledColumns columns_;
  std::shared_ptr<LineReader> lines_;
  bool json_ = false, csv_ = false;
  std::optional<DelimitedReader> records_;         // of tables
  std::size_t text_ = 0, second_ = 0, label_ = 0;  // their columns, from 0
  std::optional<Cells> waiting_;                   // a first record that was no header
};

}  // namespace transformer
