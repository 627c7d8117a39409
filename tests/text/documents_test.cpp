#include "transformer/text/documents.h"

#include "io/shared/utf8.h"
#include "support/op_check.h"
#include "support/text_files.h"

namespace transformer::test {
namespace {

// Documents, the parts of each with bars between them.
std::vector<std::string> documents(const std::vector<std::string>& files, Documents kind, std::size_t part = std::size_t{1} << 20) {
  DocumentReader reader(files, kind, part);
  std::vector<std::string> out;
  bool begins = true;
  for (DocumentPart next; reader.next(next); begins = next.last) {
    if (begins) out.push_back(next.text);
    else out.back() += "|" + next.text;
  }
  EXPECT_TRUE(begins);
  return out;
}

using List = std::vector<std::string>;

}  // namespace

TEST(Documents, AreFilesLinesOrParagraphs) {
  const TextFolder folder;
  const std::string a = folder.write("a", "\xEF\xBB\xBFone\r\ntwo\n\n\n three \n\n"), b = folder.write_gzip("b.gz", "four\n\nfive"),
                    none = folder.write("none", "");
  EXPECT_EQ(documents({a, none, b}, Documents::file), (List{"one\r\ntwo\n\n\n three \n\n", "four\n\nfive"}));
  EXPECT_EQ(documents({a, none, b}, Documents::line), (List{"one", "two", " three ", "four", "five"}));
  EXPECT_EQ(documents({a, none, b}, Documents::paragraph), (List{"one\ntwo", " three ", "four", "five"}));
  EXPECT_EQ(documents({none}, Documents::file), List{});
  expect_error([&] { DocumentReader({a, folder / "missing"}, Documents::file); }, {"missing", "cannot open"});
}

// Parts end where a line ends and text follows; together they are the document.
TEST(Documents, LongOnesComeInParts) {
  const TextFolder folder;
  const std::string text = "first line\n second\n\nthird line is here\nfourth\n";
  EXPECT_EQ(documents({folder.write("a", text)}, Documents::file, 16), (List{"first line\n second\n\n|third line is here\nfourth\n"}));
  EXPECT_EQ(documents({folder / "a"}, Documents::paragraph, 16), (List{"first line\n second", "third line is here\n|fourth"}));
  // Without any line: between characters.
  std::string wide;
  for (int i = 0; i < 500; ++i) wide += i % 3 == 0 ? "🙂" : "é";
  DocumentReader reader({folder.write("b", wide)}, Documents::file, 16);
  std::string all;
  int parts = 0;
  for (DocumentPart part; reader.next(part); ++parts) {
    EXPECT_TRUE(is_valid_utf8(part.text));
    all += part.text;
  }
  EXPECT_EQ(all, wide);
  EXPECT_GT(parts, 2);
  EXPECT_EQ(reader.replaced(), 0);
}

TEST(Documents, BrokenUtf8IsRepairedAndCounted) {
  const TextFolder folder;
  DocumentReader reader({folder.write("a", "ok \xFF\xFE and \xE2\x82\n")}, Documents::file);
  DocumentPart part;
  ASSERT_TRUE(reader.next(part));
  EXPECT_EQ(part.text, "ok \uFFFD\uFFFD and \uFFFD\n");
  EXPECT_EQ(reader.replaced(), 3);
  EXPECT_FALSE(reader.next(part));
}

}  // namespace transformer::test
