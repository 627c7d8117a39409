#include "transformer/text/labelled.h"

#include <fmt/ranges.h>

#include "support/op_check.h"
#include "support/text_files.h"

namespace transformer {
namespace {

using test::TextFolder;

std::vector<std::string> labelled_rows(const std::string& path, const LabelledColumns& columns = {}) {
  LabelledReader reader(path, columns);
  std::vector<std::string> out;
  while (const auto row = reader.next()) out.push_back(fmt::format("{}|{}|{}|{}", row->line, row->text, row->second, row->label));
  return out;
}
using Rows = std::vector<std::string>;

TEST(Labelled, TabSeparatedColumns) {
  const TextFolder folder;
  EXPECT_EQ(labelled_rows(folder.write("a.tsv", "good film\tpos\r\n\tneg\nbad\tneg\tmore")),
            Rows({"1|good film||pos", "2|||neg", "3|bad||neg"}));
  EXPECT_EQ(labelled_rows(folder.write_gzip("a.tsv.gz", "1\tx y\tz\n"), {.text_column = "2", .second_column = "3", .label_column = "1"}),
            Rows({"1|x y|z|1"}));
  // A header is one when it names the columns, or when the user says so.
  const std::string file = folder.write("b.tsv", "id\tlabel\ttext\n7\tpos\tfine\n");
  EXPECT_EQ(labelled_rows(file), Rows({"2|fine||pos"}));
  EXPECT_EQ(labelled_rows(file, {.text_column = "id", .label_column = "2"}), Rows({"2|7||pos"}));
  EXPECT_EQ(labelled_rows(file, {.text_column = "3", .label_column = "2", .header = Header::no}), Rows({"1|text||label", "2|fine||pos"}));
  EXPECT_EQ(labelled_rows(folder.write("c.tsv", "what\tkind\nfine\tpos\n"), {.header = Header::yes}), Rows({"2|fine||pos"}));
}

// SST-2 has the columns "sentence" and "label"; a class may be called "label", but then other lines have it.
TEST(Labelled, HeadersThatNobodyAnnounced) {
  const TextFolder folder;
  EXPECT_EQ(labelled_rows(folder.write("a.tsv", "sentence\tlabel\nfine\t1\nbad\t0\n")), Rows({"2|fine||1", "3|bad||0"}));
  EXPECT_EQ(labelled_rows(folder.write("b.tsv", "label\tid\tsentence\n1\t7\tfine\n")), Rows({"2|fine||1"}));
  EXPECT_EQ(labelled_rows(folder.write("c.tsv", "review\tlabel\nfine\t1\n")), Rows({"2|fine||1"}));
  EXPECT_EQ(labelled_rows(folder.write("d.tsv", "index\treview\tlabel\n7\tfine\t1\n"), {.text_column = "2", .label_column = "3"}),
            Rows({"2|fine||1"}));
  EXPECT_EQ(labelled_rows(folder.write("e.tsv", "stick it on\tlabel\nfine\tother\nglue\tlabel\n")),
            Rows({"1|stick it on||label", "2|fine||other", "3|glue||label"}));
  EXPECT_EQ(labelled_rows(folder.write("f.tsv", "review\tlabel\nfine\t1\n"), {.header = Header::no}),
            Rows({"1|review||label", "2|fine||1"}));
}

// As pandas, Excel and Python's csv write them.
TEST(Labelled, CommaSeparatedColumns) {
  const TextFolder folder;
  EXPECT_EQ(labelled_rows(folder.write("a.csv", "text,label\r\n\"good, and \"\"new\"\"\",pos\r\n\"two\nlines\",neg\r\n")),
            Rows({"2|good, and \"new\"||pos", "3|two\nlines||neg"}));
  EXPECT_EQ(labelled_rows(folder.write("b.csv", "\xEF\xBB\xBFtext;label\r\nna, ja;pos\r\n\"a;b\";neg\r\n")),
            Rows({"2|na, ja||pos", "3|a;b||neg"}));
  EXPECT_EQ(labelled_rows(folder.write_gzip("c.csv.gz", ",sentence,label\n0,fine,1\n1,bad,0\n")), Rows({"2|fine||1", "3|bad||0"}));
  EXPECT_EQ(labelled_rows(folder.write("d.csv", "label,text\npos,\"a, b\"\nneg,c\n")), Rows({"2|a, b||pos", "3|c||neg"}));
  EXPECT_EQ(labelled_rows(folder.write("e.csv", "a,pos\nb,neg\nc,pos\n")), Rows({"1|a||pos", "2|b||neg", "3|c||pos"}));
  EXPECT_EQ(labelled_rows(folder.write("f.txt", "a|pos\nb|neg\nc|pos\n"), {.delimiter = "|"}), Rows({"1|a||pos", "2|b||neg", "3|c||pos"}));
  EXPECT_EQ(labelled_rows(folder.write("g.tsv", "\"text\"\t\"label\"\n\"a \"\"b\"\"\"\t\"x\"\n\"c\td\"\t\"y\"\n")),
            Rows({"2|a \"b\"||x", "3|c\td||y"}));
  EXPECT_EQ(labelled_rows(folder.write("h.tsv", "\"Oh\tneg\nhe said \"go\"\tpos\n")), Rows({"1|\"Oh||neg", "2|he said \"go\"||pos"}));
  EXPECT_EQ(labelled_rows(folder.write("i.csv", std::string_view("\xFF\xFEt\0e\0x\0t\0,\0l\0a\0b\0e\0l\0\n\0\x5C\xD5,\0y\0\n\0", 32))),
            Rows({"2|한||y"}));
}

TEST(Labelled, HeadersWithOtherNames) {
  const TextFolder folder;
  // Usual names, in any order and case.
  EXPECT_EQ(labelled_rows(folder.write("a.tsv", "Sentiment\tReview\npos\tfine\nneg\tbad\n")), Rows({"2|fine||pos", "3|bad||neg"}));
  EXPECT_EQ(labelled_rows(folder.write("b.tsv", "what\tcategory\nfine\tpos\n")), Rows({"2|fine||pos"}));
  EXPECT_EQ(labelled_rows(folder.write("c.csv", ",Review,Stars\n0,fine,good\n1,bad,poor\n")), Rows({"2|fine||good", "3|bad||poor"}));
  // Other names: words that are not the class of another row, in a file whose kind has a header.
  EXPECT_EQ(labelled_rows(folder.write("d.csv", "Aussage,Stimmung\n\"gut, ja\",pos\nschlecht,neg\n")),
            Rows({"2|gut, ja||pos", "3|schlecht||neg"}));
  EXPECT_EQ(labelled_rows(folder.write("e.csv", "fine film,pos\nbad,neg\n")), Rows({"1|fine film||pos", "2|bad||neg"}));
  // Numbers, as pandas names columns that have no name; but not where texts are numbers.
  EXPECT_EQ(labelled_rows(folder.write("f.csv", "0,1\nfine,1\nbad,0\n")), Rows({"2|fine||1", "3|bad||0"}));
  EXPECT_EQ(labelled_rows(folder.write("g.tsv", "0\t1\n7\t1\n8\t0\n")), Rows({"1|0||1", "2|7||1", "3|8||0"}));
  // In doubt the user is asked.
  std::string text = "Aussage\tStimmung\n";
  for (int i = 0; i < 6; ++i) text += "gut\tpos\nschlecht\tneg\n";
  const std::string file = folder.write("h.tsv", text);
  test::expect_error([&] { labelled_rows(file); }, {"h.tsv", "line 1", "'Stimmung'", "--header yes", "--header no"});
  EXPECT_EQ(labelled_rows(file, {.header = Header::yes}).size(), 12u);
  EXPECT_EQ(labelled_rows(file, {.header = Header::no}).size(), 13u);
}

TEST(Labelled, EmptyLinesAtTheEndArePassedOver) {
  const TextFolder folder;
  EXPECT_EQ(labelled_rows(folder.write("a.tsv", "fine\t1\n\n \r\n\n")), Rows({"1|fine||1"}));
  EXPECT_EQ(labelled_rows(folder.write("a.jsonl", "{\"text\": \"a\", \"label\": 1}\n\n")), Rows({"1|a||1"}));
  test::expect_error([&] { labelled_rows(folder.write("b.tsv", "fine\t1\n\n\nbad\t0\n")); }, {"b.tsv", "line 2 is empty"});
}

TEST(Labelled, JsonLines) {
  const TextFolder folder;
  const std::string file = folder.write(
      "a.jsonl",
      "{\"text\": \"한국어\", \"label\": 1}\n{\"label\": \"x\", \"text\": \"b\", \"other\": [1]}\n{\"text\": \"\", \"label\": true}");
  EXPECT_EQ(labelled_rows(file), Rows({"1|한국어||1", "2|b||x", "3|||true"}));
  EXPECT_EQ(labelled_rows(folder.write("b.jsonl", R"({"q": "why", "a": "so", "y": "yes"})"),
                          {.text_column = "q", .second_column = "a", .label_column = "y"}),
            Rows({"1|why|so|yes"}));
}

// A word above a column of numbers is its name; one that stands for a missing number is not.
TEST(Labelled, HeadersAboveNumbers) {
  const TextFolder folder;
  EXPECT_EQ(labelled_rows(folder.write("a.tsv", "film\tstars\nfine\t4.5\nbad\t1\n")), Rows({"2|fine||4.5", "3|bad||1"}));
  EXPECT_EQ(labelled_rows(folder.write("b.tsv", "film\tNA\nfine\t4.5\nbad\t1\n")).size(), 3U);
  EXPECT_EQ(labelled_rows(folder.write("c.tsv", "film\tnan\nfine\t4.5\nbad\t1\n")).size(), 3U);
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
    test::expect_error([&] { labelled_rows(path, columns); }, parts);
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
  refused("a.tsv", "x\ty\n", {"has no header"}, {.text_column = "words", .header = Header::no});
  refused("a.txt", "x,y\nz,w\n", {"line 1 has 1 column", "separated by tabs", "--delimiter"});
  refused("a.csv", "text,label\nx,\"y\n", {"line 2", "does not end"});
  refused("a.csv", "text,label\n\"a\nb\",y\nc\n", {"line 4 has 1 column", "','"});
  refused("a.csv", std::string("t\0e\0x\0t\0,\0", 10), {"UTF-16", "UTF-8"});
  refused("a.jsonl", "{\"text\": \"a\", \"label\": \"b\"}\n{\"text\": \n", {"line 2"});
  refused("a.jsonl", "{\"text\": \"a\", \"lable\": \"b\"}", {"line 1 has no key 'label'", "did you mean 'lable'"});
  refused("a.jsonl", "{\"text\": 3, \"label\": \"b\"}", {"line 1: 'text' is number"});
  refused("a.jsonl", "{\"text\": \"a\", \"label\": {}}", {"line 1: 'label' is object"});
  refused("a.jsonl", "[1]", {"line 1 is array"});
  test::expect_error([&] { labelled_rows(folder / "none.tsv"); }, {"none.tsv"});
}

}  // namespace
}  // namespace transformer
