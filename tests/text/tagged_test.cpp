#include "transformer/text/tagged.h"

#include "support/op_check.h"
#include "support/text_files.h"

namespace transformer {
namespace {

using test::TextFolder;

std::vector<std::string> tagged_rows(const std::string& path, const TaggedColumns& columns = {}) {
  TaggedReader reader(path, columns);
  std::vector<std::string> out;
  while (const auto text = reader.next()) {
    out.emplace_back();
    for (std::size_t i = 0; i < text->words.size(); ++i)
      out.back() += fmt::format("{}:{}/{} ", text->lines[i], text->words[i], text->tags[i]);
  }
  return out;
}
using Rows = std::vector<std::string>;

TEST(Tagged, Conll) {
  const TextFolder folder;
  const std::string conll =
      "-DOCSTART- -X- -X- O\n\nEU NNP B-ORG\r\nrejects VBZ O\n\n\n-DOCSTART- -X- O\n나는\tPRP\tO\n \t\nRome  NNP  B-LOC";
  const Rows texts{"3:EU/B-ORG 4:rejects/O ", "8:나는/O ", "10:Rome/B-LOC "};
  EXPECT_EQ(tagged_rows(folder.write("a.conll", conll)), texts);
  EXPECT_EQ(tagged_rows(folder.write_gzip("a.txt.gz", conll)), texts);
  EXPECT_EQ(tagged_rows(folder.write("b", "1 the DT x\n2 dog NN y\n"), {.word_column = "2", .tag_column = "3"}),
            Rows({"1:the/DT 2:dog/NN "}));
}

TEST(Tagged, JsonLines) {
  const TextFolder folder;
  EXPECT_EQ(
      tagged_rows(folder.write(
          "a.jsonl", "{\"tokens\": [\"EU\", \"is\"], \"tags\": [\"B-ORG\", \"O\"], \"id\": 3}\n\n{\"tokens\": [\"a\"], \"tags\": [7]}")),
      Rows({"1:EU/B-ORG 1:is/O ", "3:a/7 "}));
  EXPECT_EQ(tagged_rows(folder.write("b.json", R"({"words": ["x y"], "ner": ["O"]})"), {.word_column = "words", .tag_column = "ner"}),
            Rows({"1:x y/O "}));
}

TEST(Tagged, WhatIsWrongIsNamedWithItsLine) {
  const TextFolder folder;
  const auto refused =
      [&](const std::string& name, const std::string& bytes, std::vector<std::string> parts, const TaggedColumns& columns = {}) {
    const std::string path = folder.write(name, bytes);
    parts.push_back(path);
    test::expect_error([&] { tagged_rows(path, columns); }, parts);
  };
  refused("a", "", {"the file is empty"});
  refused("a", "EU B-ORG\nrejects\n", {"line 2 has 1 column", "a word and its tag"});
  refused("a", "EU B-ORG\n", {"line 1 has 2 columns", "3 columns"}, {.tag_column = "3"});
  refused("a", "a b c\na b\n", {"line 2", "both column 2"}, {.word_column = "2"});
  refused("a", "EU B-ORG\n", {"both column 1"}, {.tag_column = "1"});
  refused("a", "EU B-ORG\n", {"no column 'ner'"}, {.tag_column = "ner"});
  refused("a", "EU B-ORG\n", {"no column '0'"}, {.tag_column = "0"});
  refused("a", "EU \xFF\n", {"line 1: the tag is not UTF-8"});
  refused("a.jsonl", "[1]", {"line 1 is array"});
  refused("a.jsonl", "{\"tokens\": [\"a\"], \"tag\": [\"O\"]}", {"line 1 has no key 'tags'", "did you mean 'tag'"});
  refused("a.jsonl", "{\"tokens\": [\"a\", \"b\"], \"tags\": [\"O\"]}", {"line 1 has 2 words and 1 tags"});
  refused("a.jsonl", "{\"tokens\": [], \"tags\": []}", {"line 1 has no words"});
  refused("a.jsonl", "{\"tokens\": [\" \"], \"tags\": [\"O\"]}", {"line 1: word 1 is empty"});
  refused("a.jsonl", "{\"tokens\": \"a\", \"tags\": [\"O\"]}", {"'tokens' is string, expected a list"});
  refused("a.jsonl", "{\"tokens\": [\"a\"], \"tags\": [0.5]}", {"'tags' has number in it"});
  refused("a.jsonl", "{\"tokens\": [\"a\"], \"tags\": [\"\"]}", {"the tag of 'a' is empty"});
  refused("a.jsonl", "{\"tokens\": [\"a\"]", {"line 1"});
  refused("a.jsonl", "{}", {"both key x"}, {.word_column = "x", .tag_column = "x"});
  test::expect_error([&] { tagged_rows(folder / "none.conll"); }, {"none.conll"});
}

}  // namespace
}  // namespace transformer
