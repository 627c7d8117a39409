#pragma once
// Texts and what they are: a class, several, or numbers for each text, or for each two texts that belong together, from TSV or JSON lines.
//
//   LabelledReader reader("train.tsv");
//   while (auto row = reader.next()) use(row->text, row->label);
//
// TSV: columns separated by tabs, the text in the first and the label in the second, or where the columns are named: by number
// from 1, or by the words of the first line, which is then a header. A first line with the words "text" or "sentence", and "label", is
// one too, and so is one whose class would be "label" where no other line has that class. Empty lines at the end are passed over.
// JSON lines (.jsonl, .ndjson): an object a line; the keys are "text" and "label", or those that are named. Labels that are
// numbers, true or false are taken by their spelling. Both may be gzip files.
// Several labels: a list of JSON ("labels" is looked for where there is no "label"), or, where a separator is given, what stands between
// separators; there may be none.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transformer/text/lines.h"

namespace transformer {

struct LabelledColumns {
  std::string text_column, second_column, label_column, label_separator;
  std::optional<bool> header = std::nullopt;

  static void visit(auto& self, auto&& field) {
    field("text_column", self.text_column, "column of the text: its number from 1 or its name; of JSON lines the key");
    field("second_column", self.second_column, "column of a second text, for pairs (a question and an answer, two sentences)");
    field("label_column", self.label_column, "column of the class, of the labels or of the number");
    field("label_separator", self.label_separator,
          "what stands between the labels of a text that has several, or between its numbers: , or ; or | (JSON lines may have lists)");
    field("header", self.header, "the first line of TSV files has the names of the columns (none: it has if it looks like that)");
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

  const std::string& path() const { return lines_.path(); }
  bool pairs() const { return !columns_.second_column.empty(); }

 private:
  void find_columns(const std::string& first);
  bool label_occurs_again(std::size_t column) const;
  void check_apart(const std::string& text, const std::string& second, const std::string& label, const char* kind) const;
  void check_label(const std::string& label, std::int64_t line) const;
  LabelledText from_tsv(const std::string& line) const;
  LabelledText from_json(const std::string& line) const;

  LabelledColumns columns_;
  LineReader lines_;
  bool json_ = false;
  std::size_t text_ = 0, second_ = 0, label_ = 0;  // columns of TSV, from 0
  std::optional<std::string> waiting_;             // a first line that was no header
};

}  // namespace transformer
