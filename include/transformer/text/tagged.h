#pragma once
// Texts as words with a tag each, in the layout of CoNLL or as JSON lines.
//
//   TaggedReader reader("train.conll");
//   while (auto row = reader.next()) use(row->words, row->tags);
//
// CoNLL: a word per line, its columns separated by spaces or tabs, the word in the first and the tag in the last; an empty line behind each
// text. Lines of -DOCSTART- are passed over.
//   EU NNP B-ORG
//   rejects VBZ O
// JSON lines (.jsonl, .ndjson, .json): an object per line: {"tokens": ["EU", "rejects"], "tags": ["B-ORG", "O"]}. Both may be gzip files.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transformer/io/lines.h"

namespace transformer {

struct TaggedColumns {
  std::string word_column, tag_column;

  static void visit(auto& self, auto&& field) {
    field("word_column", self.word_column, "column of the words: its number from 1; of JSON lines the key (none: the first, \"tokens\")");
    field("tag_column", self.tag_column, "column of the tags: its number from 1; of JSON lines the key (none: the last, \"tags\")");
  }
};

struct TaggedText {
  std::vector<std::string> words, tags;  // of the same length, never empty
  std::vector<std::int64_t> lines;       // where each word stands in its file, from 1
};

class TaggedReader {
 public:
  // Error for a file that is missing or empty, and for columns that are none.
  explicit TaggedReader(std::string path, TaggedColumns columns = {});

  // The next text; none after the last one. Error names the file and the line.
  std::optional<TaggedText> next();
  const std::string& path() const { return lines_.path(); }

 private:
  bool add(TaggedText& text, const std::string& line);  // false: nothing was in it
  TaggedText from_json(const std::string& line) const;
  void check(const TaggedText& text) const;

  TaggedColumns columns_;
  LineReader lines_;
  bool json_ = false;
  std::size_t word_ = 0;            // columns, from 0
  std::optional<std::size_t> tag_;  // none: the last
};

}  // namespace transformer
