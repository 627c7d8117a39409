#include "io/shared/utf8.h"

#include <gtest/gtest.h>

namespace transformer {
namespace {

constexpr const char* bad = "\xEF\xBF\xBD";  // U+FFFD

std::string repeat(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += bad;
  return text;
}

void expect_repaired(std::string_view text, const std::string& want, std::int64_t count) {
  std::int64_t replaced = 7;
  EXPECT_EQ(sanitize_utf8(text, replaced), want);
  EXPECT_EQ(replaced, 7 + count);
  EXPECT_EQ(is_valid_utf8(text), count == 0);
}

TEST(Utf8, ValidTextIsLeftAlone) {
  for (const std::string text :
       {"", "a", "나는 학교에 간다", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF",
        "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "sixteen ASCII characters and then 한"})
    expect_repaired(text, text, 0);
  expect_repaired(std::string("a\0b", 3), std::string("a\0b", 3), 0);
}

TEST(Utf8, OneReplacementForEachMaximalSubpart) {
  expect_repaired("\x80", repeat(1), 1);
  expect_repaired("a\xFFz", std::string("a") + bad + "z", 1);
  expect_repaired("\xC0\x80", repeat(2), 2);          // overlong: C0 begins nothing
  expect_repaired("\xE0\x80\x80", repeat(3), 3);      // overlong: E0 80 begins nothing
  expect_repaired("\xED\xA0\x80", repeat(3), 3);      // a surrogate
  expect_repaired("\xF4\x90\x80\x80", repeat(4), 4);  // beyond U+10FFFF
  expect_repaired("\xF5\x80", repeat(2), 2);
  expect_repaired("\xE1\x80", repeat(1), 1);  // cut off at the end
  expect_repaired("\xF0\x9F\x98", repeat(1), 1);
  expect_repaired("\xE1\x80\xE1\x80\x80", std::string(bad) + "\xE1\x80\x80", 1);
  expect_repaired("\xED\x95X", std::string(bad) + "X", 1);
  expect_repaired("\xF0\x9F\x98Z", std::string(bad) + "Z", 1);
  // The example of the standard, table 3-8: C0 AF E0 80 BF F0 81 82 41 gives eight and an A; table 3-11: E1 80 E2 F0 91 92 F1 BF 41.
  expect_repaired(
      "\xC0\xAF\xE0\x80\xBF\xF0\x81\x82"
      "A",
      repeat(8) + "A", 8);
  expect_repaired(
      "\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
      "A",
      repeat(4) + "A", 4);
}

TEST(Utf8, ReplacementsAreFoundWhereverTheyStand) {
  for (std::size_t at = 0; at < 24; ++at) {
    std::string text(24, 'x'), want = text;
    text[at] = '\xFE';
    want.replace(at, 1, bad);
    expect_repaired(text, want, 1);
    EXPECT_EQ(valid_utf8_prefix(text), at);
  }
}

}  // namespace
}  // namespace transformer
