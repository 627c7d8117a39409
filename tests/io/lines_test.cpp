#include "transformer/io/lines.h"

#include "support/op_check.h"
#include "support/text_files.h"

namespace transformer {
namespace {

using test::all_lines;
using test::TextFolder;
using Lines = std::vector<std::string>;

TEST(Lines, AsGetline) {
  const TextFolder folder;
  const auto lines = [&](std::string_view text) { return all_lines(read_lines({folder.write("text", text)})); };
  EXPECT_EQ(lines(""), Lines());
  EXPECT_EQ(lines("\n"), Lines({""}));
  EXPECT_EQ(lines("a"), Lines({"a"}));
  EXPECT_EQ(lines("a\n"), Lines({"a"}));
  EXPECT_EQ(lines("a\n\nb"), Lines({"a", "", "b"}));
  EXPECT_EQ(lines("a\n\n"), Lines({"a", ""}));
  EXPECT_EQ(lines("a\r\n\r\nb\r\r\nc\rd\r"), Lines({"a", "", "b\r", "c\rd"})) << "only the \\r of a line's end goes";
  EXPECT_EQ(lines(std::string_view("a\0b\n\0\n", 6)), Lines({std::string("a\0b", 3), std::string(1, '\0')}));
  EXPECT_EQ(lines("\xEF\xBB\xBFmark\n\xEF\xBB\xBFnot one"), Lines({"mark", "\xEF\xBB\xBFnot one"}));
  EXPECT_EQ(lines("x\xFF\xFE\n\xC3"), Lines({"x\xFF\xFE", "\xC3"})) << "bytes are handed on as they are";
}

// What Windows calls Unicode text, and pandas writes with encoding="utf-16".
TEST(Lines, Utf16WithItsMark) {
  const TextFolder folder;
  const auto encoded = [](std::u16string_view text, bool big) {
    std::string out;
    for (const char16_t c : text) {
      const auto high = static_cast<char>(c >> 8), low = static_cast<char>(c & 0xFF);
      out += big ? high : low;
      out += big ? low : high;
    }
    return out;
  };
  const auto lines = [&](std::string_view bytes) { return all_lines(read_lines({folder.write("text", bytes)})); };
  for (const bool big : {false, true}) {
    EXPECT_EQ(lines(encoded(u"\uFEFF한국어\tpos\r\n\U0001F600é\n", big)), Lines({"한국어\tpos", "\U0001F600é"}));
    EXPECT_EQ(all_lines(read_lines({folder.write_gzip("packed", encoded(u"\uFEFFa\nb", big))})), Lines({"a", "b"}));
    EXPECT_EQ(lines(encoded(u"\uFEFF", big)), Lines());
    // Characters of two units wherever a block of the file ends.
    std::u16string wide = u"\uFEFF";
    std::string same;
    for (int i = 0; i < 40'000; ++i) wide += i % 3 == 0 ? u"x" : u"\U0001F600", same += i % 3 == 0 ? "x" : "\U0001F600";
    EXPECT_EQ(lines(encoded(wide, big)), Lines({same}));
    EXPECT_EQ(lines(encoded(u"\uFEFF", big) + encoded({u"a\xD800z\xDC00\xD800", 5}, big) + "!"), Lines({"a\uFFFDz\uFFFD\uFFFD\uFFFD"}));
  }
}

TEST(Lines, LongLinesAndManyOfThem) {
  const TextFolder folder;
  for (const std::size_t size : {65535U, 65536U, 65537U, 1U << 20U}) {
    const std::string line(size, 'x');
    const Lines want = {"first", line, "", line};
    const std::string text = "first\n" + line + "\r\n\n" + line;
    EXPECT_EQ(all_lines(read_lines({folder.write("plain", text)})), want);
    EXPECT_EQ(all_lines(read_lines({folder.write_gzip("packed", text)})), want);
  }
  LineReader limited(folder.write("long", "short\n" + std::string(100, 'x')), 50);
  std::string line;
  EXPECT_TRUE(limited.next(line));
  EXPECT_EQ(limited.number(), 1);
  test::expect_error([&] { limited.next(line); }, {"long", "line 2", "50 bytes"});
}

TEST(Lines, GzipByContentAndInParts) {
  const TextFolder folder;
  std::string packed = test::contents(folder.write_gzip("one.txt", "a\nb"));
  packed += test::contents(folder.write_gzip("two.txt", "c\nd\n"));
  EXPECT_EQ(all_lines(read_lines({folder.write("both.txt", packed)})), Lines({"a", "bc", "d"})) << "as gzip -d joins them";
  EXPECT_EQ(all_lines(read_lines({folder.write("plain.gz", "not packed\n")})), Lines({"not packed"}));
  EXPECT_EQ(all_lines(read_lines({folder / "plain.gz", folder / "two.txt", folder.write("empty", ""), folder / "one.txt"})),
            Lines({"not packed", "c", "d", "a", "b"}));
  EXPECT_EQ(all_lines(read_lines({})), Lines());
}

TEST(Lines, ErrorsNameTheFile) {
  const TextFolder folder;
  std::string line;
  test::expect_error([&] { LineReader(folder / "missing"); }, {"missing", "No such file"});
  test::expect_error([&] { LineReader(folder.path().string()); }, {folder.path().string(), "folder"});
  if (geteuid() != 0) {  // who may do anything may read anything
    std::filesystem::permissions(folder.write("secret", "x"), std::filesystem::perms::none);
    test::expect_error([&] { LineReader(folder / "secret"); }, {"secret", "Permission denied"});
  }

  std::string text;
  for (int i = 0; i < 20000; ++i) text += std::to_string(i * 7919 % 65537) + "\n";
  const std::string packed = test::contents(folder.write_gzip("whole.gz", text));
  for (const std::size_t kept : {packed.size() - 1, packed.size() - 8, packed.size() / 2, std::size_t{12}, std::size_t{5}})
    test::expect_error([&] { all_lines(read_lines({folder.write("cut.gz", packed.substr(0, kept))})); }, {"cut.gz", "cut off"});
  std::string damaged = packed;
  damaged[damaged.size() - 6] = static_cast<char>(damaged[damaged.size() - 6] ^ 1);
  test::expect_error([&] { all_lines(read_lines({folder.write("damaged.gz", damaged)})); }, {"damaged.gz", "damaged", "data check"});
}

TEST(Lines, StandardInput) {
  const TextFolder folder;
  const int before = dup(STDIN_FILENO);
  for (const std::string& path : {folder.write("plain", "a\nb"), folder.write_gzip("packed", "a\nb")}) {
    ASSERT_NE(freopen(path.c_str(), "r", stdin), nullptr);
    EXPECT_EQ(all_lines(read_lines({"-"})), Lines({"a", "b"}));
  }
  dup2(before, STDIN_FILENO);
  close(before);
}

}  // namespace
}  // namespace transformer
