#include "transformer/text/labelled.h"

#include <fmt/ranges.h>

#include "support/op_check.h"
#include "text/files.h"

namespace transformer {
namespace {

using test::TextFolder;

std::vector<std::string> rows(const std::string& path, const LabelledColumns& columns = {}) {
  LabelledReader reader(path, columns);
  std::vector<std::string> out;
  while (const auto row = reader.next()) out.push_back(fmt::format("{}|{}|{}|{}", row->line, row->text, row->second, row->label));
  return out;
}
using Rows = std::vector<std::string>;

TEST(Labelled, TabSeparatedColumns) {
  const TextFolder folder;
  EXPECT_EQ(rows(folder.write("a.tsv", "good film\tpos\r\n\tneg\nbad\tneg\tmore")), Rows({"1|good film||pos", "2|||neg", "3|bad||neg"}));
  EXPECT_EQ(rows(folder.write_gzip("a.tsv.gz", "1\tx y\tz\n"), {.text_column = "2", .second_column = "3", .label_column = "1"}),
            Rows({"1|x y|z|1"}));
  // A header is one when it names the columns, or when the user says so.
  const std::string file = folder.write("b.tsv", "id\tlabel\ttext\n7\tpos\tfine\n");
  EXPECT_EQ(rows(file), Rows({"2|fine||pos"}));
  EXPECT_EQ(rows(file, {.text_column = "id", .label_column = "2"}), Rows({"2|7||pos"}));
  EXPECT_EQ(rows(file, {.text_column = "3", .label_column = "2", .header = false}), Rows({"1|text||label", "2|fine||pos"}));
  EXPECT_EQ(rows(folder.write("c.tsv", "what\tkind\nfine\tpos\n"), {.header = true}), Rows({"2|fine||pos"}));
}

// SST-2 has the columns "sentence" and "label"; a class may be called "label", but then other lines have it.
TEST(Labelled, HeadersThatNobodyAnnounced) {
  const TextFolder folder;
  EXPECT_EQ(rows(folder.write("a.tsv", "sentence\tlabel\nfine\t1\nbad\t0\n")), Rows({"2|fine||1", "3|bad||0"}));
  EXPECT_EQ(rows(folder.write("b.tsv", "label\tid\tsentence\n1\t7\tfine\n")), Rows({"2|fine||1"}));
  EXPECT_EQ(rows(folder.write("c.tsv", "review\tlabel\nfine\t1\n")), Rows({"2|fine||1"}));
  EXPECT_EQ(rows(folder.write("d.tsv", "index\treview\tlabel\n7\tfine\t1\n"), {.text_column = "2", .label_column = "3"}),
            Rows({"2|fine||1"}));
  EXPECT_EQ(rows(folder.write("e.tsv", "stick it on\tlabel\nfine\tother\nglue\tlabel\n")),
            Rows({"1|stick it on||label", "2|fine||other", "3|glue||label"}));
  EXPECT_EQ(rows(folder.write("f.tsv", "review\tlabel\nfine\t1\n"), {.header = false}), Rows({"1|review||label", "2|fine||1"}));
}

TEST(Labelled, EmptyLinesAtTheEndArePassedOver) {
  const TextFolder folder;
  EXPECT_EQ(rows(folder.write("a.tsv", "fine\t1\n\n \r\n\n")), Rows({"1|fine||1"}));
  EXPECT_EQ(rows(folder.write("a.jsonl", "{\"text\": \"a\", \"label\": 1}\n\n")), Rows({"1|a||1"}));
  test::expect_error([&] { rows(folder.write("b.tsv", "fine\t1\n\n\nbad\t0\n")); }, {"b.tsv", "line 2 is empty"});
}

TEST(Labelled, JsonLines) {
  const TextFolder folder;
  const std::string file = folder.write(
      "a.jsonl",
      "{\"text\": \"한국어\", \"label\": 1}\n{\"label\": \"x\", \"text\": \"b\", \"other\": [1]}\n{\"text\": \"\", \"label\": true}");
  EXPECT_EQ(rows(file), Rows({"1|한국어||1", "2|b||x", "3|||true"}));
  EXPECT_EQ(rows(folder.write("b.jsonl", R"({"q": "why", "a": "so", "y": "yes"})"),
                 {.text_column = "q", .second_column = "a", .label_column = "y"}),
            Rows({"1|why|so|yes"}));
}

TEST(Labelled, SeveralLabels) {
  const TextFolder folder;
  const auto lists = [&](const std::string& path, const LabelledColumns& columns = {}) {
    LabelledReader reader(path, columns);
    Rows out;
    while (const auto row = reader.next())
      out.push_back(row->several ? fmt::format("{}", fmt::join(*row->several, "|")) : "one " + row->label);
    return out;
  };
  EXPECT_EQ(lists(folder.write("a.tsv", "x\ta, b c ,,d\ny\ta\nz\t\n"), {.label_separator = ","}), Rows({"a|b c|d", "a", ""}));
  EXPECT_EQ(lists(folder.write("b.tsv", "x\ta; b\n")), Rows({"one a; b"}));
  const std::string file = folder.write(
      "a.jsonl",
      "{\"text\": \"x\", \"labels\": [\"a\", 2, true]}\n{\"text\": \"y\", \"labels\": []}\n{\"text\": \"z\", \"label\": \"a,b\"}\n");
  EXPECT_EQ(lists(file), Rows({"a|2|true", "", "one a,b"}));
  EXPECT_EQ(lists(file, {.label_separator = ","}), Rows({"a|2|true", "", "a|b"}));
  test::expect_error([&] { lists(folder.write("b.jsonl", "{\"text\": \"x\", \"labels\": [\"\"]}")); }, {"line 1: the class is empty"});
  test::expect_error([&] { lists(folder.write("c.jsonl", "{\"text\": \"x\", \"labels\": [[1]]}")); },
                     {"line 1: 'labels' is a list of other things"});
}

TEST(Labelled, WhatIsWrongIsNamedWithItsLine) {
  const TextFolder folder;
  const auto refused =
      [&](const std::string& name, const std::string& bytes, std::vector<std::string> parts, const LabelledColumns& columns = {}) {
    const std::string path = folder.write(name, bytes);
    parts.push_back(path);
    test::expect_error([&] { rows(path, columns); }, parts);
  };
  refused("a.tsv", "", {"empty"});
  refused("a.tsv", "x\ty\nno tab\n", {"line 2 has 1 column", "class is expected in column 2"});
  refused("a.tsv", "x\ty\nz\t\n", {"line 2: the class is empty"});
  refused("a.tsv", "x\t\xFF\n", {"line 1: the class is not UTF-8"});
  refused("a.tsv", "sentence\tgold\nx\ty\n", {"no column 'glod'", "did you mean 'gold'", "'sentence'"}, {.label_column = "glod"});
  refused("a.tsv", "x\ty\n", {"both column 2"}, {.text_column = "2"});
  refused("a.tsv", "x\ty\n", {"the second text and the label are both column 2"}, {.second_column = "2"});
  refused("a.tsv", "x\ty\n", {"the text and the second text are both column 1"}, {.second_column = "1"});
  refused("a.jsonl", "{\"text\": \"a\", \"label\": \"b\"}", {"both key label"}, {.second_column = "label"});
  refused("a.jsonl", "{\"text\": \"a\", \"label\": \"b\\nc\"}", {"line 1", "\"b\\nc\"", "a tab or a line end"});
  refused("a.jsonl", "{\"text\": \"a\", \"label\": \"b\\tc\"}", {"line 1", "a tab or a line end"});
  refused("a.tsv", "x\ty\n", {"no column 0"}, {.text_column = "0"});
  refused("a.tsv", "x\ty\n", {"has no header"}, {.text_column = "words", .header = false});
  refused("a.csv", "x,y\n", {"tabs"});
  refused("a.jsonl", "{\"text\": \"a\", \"label\": \"b\"}\n{\"text\": \n", {"line 2"});
  refused("a.jsonl", "{\"text\": \"a\", \"lable\": \"b\"}", {"line 1 has no key 'label'", "did you mean 'lable'"});
  refused("a.jsonl", "{\"text\": 3, \"label\": \"b\"}", {"line 1: 'text' is number"});
  refused("a.jsonl", "{\"text\": \"a\", \"label\": {}}", {"line 1: 'label' is object"});
  refused("a.jsonl", "[1]", {"line 1 is array"});
  test::expect_error([&] { rows(folder / "none.tsv"); }, {"none.tsv"});
}

}  // namespace
}  // namespace transformer
