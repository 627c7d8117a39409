#include "tokenizers/regex.h"

#include "support/op_check.h"

namespace transformer {
namespace {

// What is found, each in brackets: "a[b]c".
std::string marked(const std::string& pattern, const std::string& text) {
  std::string out;
  for (const PatternMatch& part : Regex(pattern).find_all(text)) {
    const std::string piece = text.substr(part.begin, part.end - part.begin);
    out += part.found ? "[" + piece + "]" : piece;
  }
  return out;
}

TEST(Regex, ReadsOniguruma) {
  EXPECT_EQ(marked(R"(\p{N}{1,3})", "a1234567b"), "a[123][456][7]b");
  EXPECT_EQ(marked(R"(\p{N}{1,3}+)", "a1234567b"), "a[1234567]b") << "not possessive: the whole is repeated";
  EXPECT_EQ(marked("(ab){2}+c", "ababababc"), "[ababababc]");
  EXPECT_EQ(marked("^a", "ab\nab"), "[a]b\n[a]b") << "^ is the beginning of a line";
  EXPECT_EQ(marked("b$", "ab\nab"), "a[b]\na[b]");
  EXPECT_EQ(marked("(?m:a.b)", "a\nb"), "[a\nb]") << "Ruby's m lets . match a newline";
  EXPECT_EQ(marked("a.b", "a\nb"), "a\nb");
  EXPECT_EQ(marked("(?i:'s)", "a'\u017Fb'Sb"), "a['\u017F]b['S]b");
  EXPECT_EQ(marked(R"(\w+)", "a\u0301b ½ ① _"), "[a\u0301b] [½] ① [_]");
  EXPECT_EQ(marked(R"(\s)", "a\u180Eb\u3000c"), "a\u180Eb[\u3000]c");
  EXPECT_EQ(marked(R"([^\s\p{L}]+)", "a12 b\u180E"), "a[12] b[\u180E]");
  EXPECT_EQ(marked(R"(\h+)", "xyz0Ffg"), "xyz[0Ff]g") << "hexadecimal digits";
  EXPECT_EQ(marked(R"([[:punct:]])", "a$b,"), "a[$]b[,]");
  EXPECT_EQ(marked(R"(\u0041)", "BA"), "B[A]");
  EXPECT_EQ(marked("a{,2}b", "aaab"), "a[aab]");
  EXPECT_EQ(marked(R"(\s+(?!\S)|\s+)", "a   b "), "a[  ][ ]b[ ]");
  EXPECT_EQ(marked(quoted_pattern("a.b[c"), "axb[c a.b[c"), "axb[c [a.b[c]");
}

TEST(Regex, MatchesOfNothing) {
  EXPECT_EQ(marked("x*", "abxxb"), "[]a[]b[xx]b[]") << "none right behind another match";
  EXPECT_EQ(marked("", "한글"), "[]한[]글[]");
  EXPECT_EQ(marked("a", ""), "");
}

TEST(Regex, WhatCannotBeSaidIsRefused) {
  test::expect_error([] { Regex("[a-z&&[^b]]"); }, {"'&&'"});
  test::expect_error([] { Regex("[a[b]]"); }, {"a set of characters inside another"});
  test::expect_error([] { Regex(R"([\W])"); }, {"between brackets"});
  test::expect_error([] { Regex("(*LIMIT_MATCH=1)a"); }, {"'(*'"});
  test::expect_error([] { Regex("(a"); }, {"regular expression", "(a", "parenthesis"});
  test::expect_error([] { Regex("[a"); }, {"without its ']'"});
  test::expect_error([] { Regex(R"(\p{Klingon})"); }, {"property"});
  test::expect_error([] { Regex("a\\"); }, {"ends with"});
  test::expect_error([] { Regex(std::string(100'000, 'a')); }, {"100000 bytes"});
}

TEST(Regex, TimeIsBounded) {
  const Regex bad("(a|aa|aaa)*[cd]");
  test::expect_error([&] { bad.find_all(std::string(60, 'a') + "b"); }, {"cannot be matched", "limit"});
  const Regex gpt2(R"('s| ?\p{L}+| ?\p{N}+|\s+(?!\S)|\s+)");
  EXPECT_EQ(gpt2.find_all(std::string(200'000, ' ') + "a").size(), 2u) << "a long row of spaces is no trouble";
}

}  // namespace
}  // namespace transformer
