#include "transformer/io/toml.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/temporary_folder.h"
#include "transformer/core/error.h"
#include "transformer/io/config.h"

namespace transformer {
namespace {

using Json = nlohmann::json;
using namespace std::string_literals;

Json parse(std::string_view text) { return parse_toml(text, "test.toml"); }
Json json(const char* text) { return Json::parse(text); }

std::string error_of(std::string_view text) {
  try {
    return "accepted: " + parse(text).dump();
  } catch (const Error& e) {
    return e.what();
  }
}

// The text is refused at this place, with a message that has these words.
void expect_refused(std::string_view text, int line, int column, std::string_view words) {
  const std::string what = error_of(text), place = fmt::format("test.toml: line {}, column {}: ", line, column);
  EXPECT_TRUE(what.starts_with(place)) << what << "\nexpected " << place << "\n" << text;
  EXPECT_NE(what.find(words), std::string::npos) << what << "\nexpected '" << words << "'\n" << text;
}

TEST(Toml, ReadsWhatPeopleWrite) {
  EXPECT_EQ(parse(""), Json::object());
  EXPECT_EQ(parse("# only a comment"), Json::object());
  EXPECT_EQ(parse("\xEF\xBB\xBF"
                  "a = 1 # with a byte order mark\r\n\r\n b\t=\t2"),
            json(R"({"a": 1, "b": 2})"));
  EXPECT_EQ(parse(R"(
preset = "base"          # the paper's
max-tokens = 4_096
[optimizer]
betas = [
  0.9,  # first
  0.98,
]
adam.eps = 1e-9
[data.train]
files = ['a.en', "b.en"]
[data]
shuffle = true
[[layer]]
kind = {name = "encoder", size.width = 3}
[[layer]]
[layer.norm]
place = "pre"
)"),
            json(R"({"preset": "base", "max-tokens": 4096, "optimizer": {"betas": [0.9, 0.98], "adam": {"eps": 1e-9}},
                     "data": {"train": {"files": ["a.en", "b.en"]}, "shuffle": true},
                     "layer": [{"kind": {"name": "encoder", "size": {"width": 3}}}, {"norm": {"place": "pre"}}]})"));
}

TEST(Toml, ReadsKeys) {
  EXPECT_EQ(parse("1234 = 1\n-_ = 2\n\"\" = 3\n'a.b' = 4\n\"\\u00e9\".x = 5"),
            json(R"({"1234": 1, "-_": 2, "": 3, "a.b": 4, "é": {"x": 5}})"));
  EXPECT_EQ(parse("a . b.\tc = 1\na.d = 2"), json(R"({"a": {"b": {"c": 1}, "d": 2}})"));
  EXPECT_EQ(parse("3.14159 = 'pi'"), json(R"({"3": {"14159": "pi"}})"));
  EXPECT_EQ(parse("[ a . 'b c' ]\nx = 1"), json(R"({"a": {"b c": {"x": 1}}})"));
  EXPECT_EQ(parse("true = 1\ninf = 2\n1979-05-27 = 3"), json(R"({"true": 1, "inf": 2, "1979-05-27": 3})"));
}

TEST(Toml, ReadsStrings) {
  const auto value = [](std::string_view text) { return parse(fmt::format("s = {}", text))["s"].get<std::string>(); };
  EXPECT_EQ(value(R"("\b\t\n\f\r\"\\ \u00E9 \uac00 \U0001F600")"), "\b\t\n\f\r\"\\ é 가 😀");
  EXPECT_EQ(value("'C:\\new\\\"'"), "C:\\new\\\"");
  EXPECT_EQ(value("'나는 학교에 간다'"), "나는 학교에 간다");
  EXPECT_EQ(value("\"\""), "");
  EXPECT_EQ(value("\"\"\"\none\r\ntwo \\\n\n   three\"\"\""), "one\ntwo three");
  EXPECT_EQ(value("\"\"\"a \"\" b\"\"\"\"\""), "a \"\" b\"\"");
  EXPECT_EQ(value("'''\n\\n'quoted'''''"), "\\n'quoted''");
  EXPECT_EQ(value("\"\"\"\"\"\""), "");
  EXPECT_EQ(value("\"\"\"un \\\n  été\"\"\""), "un été");
  EXPECT_EQ(value("\"a\\u0000b\""), "a\0b"s);
}

TEST(Toml, ReadsNumbers) {
  const auto value = [](std::string_view text) { return parse(fmt::format("n = {}", text))["n"]; };
  const std::vector<std::pair<const char*, std::int64_t>> integers = {
      {"0", 0},
      {"+99", 99},
      {"-17", -17},
      {"-0", 0},
      {"1_000", 1000},
      {"1_2_3", 123},
      {"0xDEAD_beef", 0xDEADBEEF},
      {"0o755", 0755},
      {"0b1101", 13},
      {"0x0", 0},
      {"9223372036854775807", std::numeric_limits<std::int64_t>::max()},
      {"-9223372036854775808", std::numeric_limits<std::int64_t>::min()},
  };
  for (const auto& [text, expected] : integers) {
    EXPECT_TRUE(value(text).is_number_integer()) << text;
    EXPECT_EQ(value(text).get<std::int64_t>(), expected) << text;
  }
  const std::vector<std::pair<const char*, double>> floats = {
      {"1.0", 1.0},     {"+3.14", 3.14},          {"-0.01", -0.01},   {"5e+22", 5e22}, {"1e06", 1e6},
      {"-2E-2", -2e-2}, {"6.626e-34", 6.626e-34}, {"1_0.2_5", 10.25}, {"0.0", 0.0},    {"0e0", 0.0},
  };
  for (const auto& [text, expected] : floats) {
    EXPECT_TRUE(value(text).is_number_float()) << text;
    EXPECT_EQ(value(text).get<double>(), expected) << text;
  }
  EXPECT_TRUE(std::signbit(value("-0.0").get<double>()));
  for (const char* bad : {"01",
                          "-01",
                          "1_",
                          "_1",
                          "1__0",
                          "1._0",
                          "1_.0",
                          ".5",
                          "5.",
                          "1e",
                          "1e_1",
                          "+",
                          "0x",
                          "0xg",
                          "-0x1",
                          "0b2",
                          "0o8",
                          "1.2.3",
                          "00.5",
                          "1 2",
                          "9223372036854775808",
                          "-9223372036854775809",
                          "1e999",
                          "0x8000000000000000",
                          "++1",
                          "0_1",
                          "1.e5"})
    EXPECT_TRUE(error_of(fmt::format("n = {}", bad)).starts_with("test.toml: line 1, column ")) << bad;
}

TEST(Toml, RefusesWithPlaceAndReason) {
  expect_refused("a = 1\n한 = 2", 2, 1, "expected keys");
  for (const char* letter : {"é", "\u00a1", "\u0499"}) expect_refused(fmt::format("a = [1, {}]", letter), 1, 9, "value");
  expect_refused("a", 1, 2, "end-of-file");
  expect_refused("a = \n", 1, 5, "expected value");
  expect_refused("a = 1 b = 2", 1, 7, "saw 'b'");
  expect_refused("a = yes", 1, 5, "a string needs quotes");
  expect_refused("a = True", 1, 5, "a string needs quotes");
  expect_refused("a = inform", 1, 8, "a string needs quotes");
  expect_refused("x = '한글' 글", 1, 10, "saw '글'");
  expect_refused("a = inf", 1, 5, "not a finite number");
  expect_refused("a = [1.0, -nan]", 1, 11, "not a finite number");
  for (const char* date : {"1979-05-27", "1979-05-27T07:32:00Z", "07:32:00", "1979-05-27 07:32:00"})
    expect_refused(fmt::format("\nwhen = {}", date), 2, 8, "dates and times are not supported");
  // strings
  expect_refused("a = \"open\nb = 1", 1, 10, "string");
  expect_refused("a = \"\"\"open\n\"\"", 2, 3, "end-of-file");
  expect_refused("a = 'open", 1, 10, "end-of-file");
  expect_refused("a = \"\\q\"", 1, 7, "in 'single quotes'");
  expect_refused("a = \"\\u12\"", 1, 10, "hex digit");
  expect_refused("a = \"\\ud800\"", 1, 12, "surrogates");
  expect_refused("a = \"x\x01\"", 1, 7, "control characters");
  expect_refused("a = 'x\ry'", 1, 7, "control characters");
  expect_refused("# x\x02", 1, 4, "in comments");
  expect_refused("ok = 1\nb = 'é\xFF'", 2, 6, "save the file as UTF-8");
  expect_refused("# \xC0\xAF", 1, 2, "save the file as UTF-8");
  expect_refused("a = '\xEA\xB0", 1, 5, "save the file as UTF-8");
  EXPECT_NE(error_of("a = 1\0"s), "accepted: {\"a\":1}");
  // lists and tables
  expect_refused("a = [1, 2\n", 1, 11, "end-of-file");
  expect_refused("a = [1 2]", 1, 8, "expected comma or closing ']'");
  expect_refused("a = {b = 1", 1, 11, "end-of-file");
  expect_refused("a = {b = 1,}", 1, 12, "dangling comma");
  expect_refused("a = {b = 1\n}", 1, 11, "expected key or closing '}'");
  expect_refused("[a\nb = 1", 1, 3, "expected ']'");
  expect_refused("[]", 1, 2, "blank bare keys");
  expect_refused("[a.]", 1, 4, "key");
  expect_refused("[[[]]]", 1, 3, "key");
  expect_refused("[a] b = 1", 1, 5, "table header");
  expect_refused("\"\"\"a\"\"\" = 1", 1, 1, "multi-line");
  expect_refused("= 1", 1, 1, "expected keys");
}

TEST(Toml, RefusesToDefineTwice) {
  for (const char* twice : {"a = 1\na = 2", "a = 1\n\"a\" = 2", "x = 1\na = {b = 1, b = 2}", "[t]\n[t]", "t = 1\n[t]", "t = 1\n[t.u]",
                            "t = []\n[[t]]", "[[t]]\n[t]", "[t]\n[[t]]", "a.b = 1\na = 2", "a = 1\na.b = 2"})
    EXPECT_TRUE(error_of(twice).starts_with("test.toml: line 2, column ")) << error_of(twice);
  expect_refused("a = 1\na = 2", 2, 5, "cannot redefine existing integer 'a' (it is given twice)");
  expect_refused("t = {}\n[t.u]", 2, 6, "into existing inline table");
  expect_refused("t = {a.b = 1}\nt.a.c = 2", 2, 1, "cannot redefine");
  expect_refused("[f]\na.b = 1\n[f.a]", 3, 1, "cannot redefine existing table 'f.a'");
  expect_refused("[a.b.c]\nz = 9\n[a]\nb.c.t = 1", 4, 3, "cannot redefine");
  expect_refused("[[a.b]]\n[a]\nb.y = 2", 3, 1, "cannot redefine");
  expect_refused("[a.b]\n[a]\nb = 1", 3, 5, "cannot redefine existing table 'b'");
  // and what may be added to
  EXPECT_EQ(parse("[x.y.z.w]\n[x]\na = 1"), json(R"({"x": {"y": {"z": {"w": {}}}, "a": 1}})"));
  EXPECT_EQ(parse("[f]\na.b = 1\n[f.a.c]\nd = 2"), json(R"({"f": {"a": {"b": 1, "c": {"d": 2}}}})"));
  EXPECT_EQ(parse("[[a]]\n[[a.b]]\nx = 1\n[[a.b]]\n[[a]]\n[[a.b]]\nx = 3"), json(R"({"a": [{"b": [{"x": 1}, {}]}, {"b": [{"x": 3}]}]})"));
}

TEST(Toml, HostileNestingIsRefusedNotFatal) {
  const auto repeat = [](std::string_view what, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += what;
    return out;
  };
  constexpr int many = 200'000;
  EXPECT_NE(error_of("a = " + repeat("[", many)).find("nested too deeply"), std::string::npos);
  EXPECT_NE(error_of("a = " + repeat("{a=", many)).find("nested too deeply"), std::string::npos);
  EXPECT_NE(error_of("a" + repeat(".a", many) + " = 1").find("nested too deeply"), std::string::npos);
  EXPECT_NE(error_of("[a" + repeat(".a", many) + "]").find("nested too deeply"), std::string::npos);
  EXPECT_NE(error_of("a = " + repeat("{a.a.a=[", 30)).find("nested too deeply"), std::string::npos);
  EXPECT_NE(error_of("[a" + repeat(".a", 60) + "]\nb" + repeat(".b", 60) + " = 1").find("nested too deeply"), std::string::npos);
  EXPECT_EQ(error_of("a = " + repeat("[", 99) + repeat("]", 99)).substr(0, 8), "accepted");
  // Dots and brackets that nest nothing: in strings, comments and numbers.
  const std::string dots = repeat(".a[{", 300), numbers = "[" + repeat("0.5, ", 300) + "]";
  EXPECT_EQ(parse("a = '" + dots + "' # " + dots + "\nb = \"\"\"\\\"\"\"" + dots + "\n" + dots + "\"\"\"\"\nc = " + numbers)["c"].size(),
            300U);
  EXPECT_NE(error_of(std::string(17 << 20, '\n')).find("bytes"), std::string::npos);
  Json deep = Json::array();
  for (int i = 0; i < 1000; ++i) deep = Json::array({deep});
  EXPECT_THROW(to_toml({{"a", deep}}), Error);
}

TEST(Toml, ReadsFiles) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "run.toml") << "a = 1\nb = \n";
  try {
    read_toml(folder / "run.toml");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.where(), (folder / "run.toml").string());
    EXPECT_NE(std::string(e.what()).find("line 2, column 5"), std::string::npos) << e.what();
  }
  std::ofstream(folder / "run.toml") << "a = 1\n";
  EXPECT_EQ(read_toml(folder / "run.toml"), json(R"({"a": 1})"));
  EXPECT_THROW(read_toml(folder / "none.toml"), Error);
  EXPECT_THROW(read_toml(folder.path()), Error);
}

TEST(Toml, WritesWhatPeopleRead) {
  EXPECT_EQ(to_toml(json(R"({"lr": 0.0005, "steps": 1000, "half": 0.5, "whole": 2.0, "name": "a \"b\"\n", "off": null, "odd key": true,
                             "list": [1, [2, {"x": 1}]], "model": {"d": 4, "deep": {}}, "runs": [{"a": 1}, {"b": {"c": 2}}]})")),
            R"(half = 0.5
list = [1, [2, {x = 1}]]
lr = 0.0005
name = "a \"b\"\n"
"odd key" = true
steps = 1000
whole = 2.0

[model]
d = 4

[model.deep]

[[runs]]
a = 1

[[runs]]

[runs.b]
c = 2
)");
  EXPECT_EQ(to_toml(Json::object()), "");
  EXPECT_THROW(to_toml(Json::array()), Error);
  EXPECT_THROW(to_toml({{"a", Json::array({nullptr})}}), Error);
  EXPECT_THROW(to_toml({{"a", std::numeric_limits<double>::infinity()}}), Error);
  EXPECT_THROW(to_toml({{"a", std::numeric_limits<std::uint64_t>::max()}}), Error);
  EXPECT_THROW(to_toml({{"a", "\xFF"}}), Error);
  EXPECT_THROW(to_toml({{"\xFF", 1}}), Error);
}

// A random value of everything a configuration can hold.
class RandomJson {
 public:
  explicit RandomJson(unsigned seed) : random_(seed) {}

  Json object(int depth) {
    Json out = Json::object();
    for (int i = below(5); i > 0; --i) out[string()] = value(depth);
    return out;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  std::string string() {
    static const std::vector<std::string> pieces = {"a", "B", "7",    "_",    "-",    ".",    " ",      "\"",  "'", "\\", "\n",
                                                    "#", "=", "\r\n", "\t",   "\x01", "\x7F", "\"\"\"", "]",   "{", "é",  "가",
                                                    "😀", "",  "\\u",  "\x1F", "true", "\b",   "[",      "\0"s, ","};
    std::string out;
    for (int i = below(5); i > 0; --i) out += pieces[static_cast<std::size_t>(below(static_cast<int>(pieces.size())))];
    return out;
  }

  Json value(int depth) {
    switch (below(depth > 0 ? 7 : 4)) {
      case 0: return string();
      case 1: return below(2) == 0;
      case 2: return static_cast<std::int64_t>((static_cast<std::uint64_t>(random_()) << 32 | random_()) >> below(64));
      case 3: return number();
      case 4: return object(depth - 1);
      default: {
        Json list = Json::array();
        const bool tables = below(2) == 0;
        for (int i = below(4); i > 0; --i) list.push_back(tables ? object(depth - 1) : value(depth - 1));
        return list;
      }
    }
  }

  double number() {
    const std::uint64_t bits = static_cast<std::uint64_t>(random_()) << 32 | random_();
    const double any = std::bit_cast<double>(bits);
    return std::isnormal(any) && below(2) == 0 ? any : below(2000) - 1000.0;
  }

  std::mt19937 random_;
};

// The same value and the same types: 1.0 stays a float.
bool same(const Json& a, const Json& b) {
  if (a.is_number_float() != b.is_number_float() || a.type_name() != std::string(b.type_name()) || a.size() != b.size()) return false;
  if (!a.is_structured()) return a == b;
  for (auto x = a.begin(), y = b.begin(); x != a.end(); ++x, ++y)
    if (!same(*x, *y) || (a.is_object() && x.key() != y.key())) return false;
  return true;
}

TEST(Toml, WhatIsWrittenReadsAsTheSame) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    const Json value = RandomJson(seed).object(4);
    const std::string text = to_toml(value);
    ASSERT_TRUE(same(parse(text), value)) << seed << "\n" << text << "\n" << value.dump(2);
  }
}

// Whatever is cut off or put in, the answer is a value or an Error.
TEST(Toml, DamagedTextIsAnErrorAtWorst) {
  std::mt19937 random(7);
  int refused = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    std::string text = to_toml(RandomJson(seed).object(3));
    text.resize(random() % (text.size() + 1));
    for (int i = 0; i < 3 && !text.empty(); ++i) text[random() % text.size()] = "[]{}\"'\\=.,#\n\xE9 1e_"[random() % 18];
    try {
      const Json value = parse(text);
      ASSERT_TRUE(same(parse(to_toml(value)), value)) << text;
    } catch (const Error& e) {
      ASSERT_TRUE(std::string(e.what()).starts_with("test.toml: line ")) << e.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 300);
}

struct TomlInner {
  float rate = 0.1F;
  std::optional<std::int64_t> limit;
  static void visit(auto& self, auto&& field) {
    field("rate", self.rate, "a float");
    field("limit", self.limit, "maybe");
  }
};
struct TomlOuter {
  std::string name = "x";
  std::vector<TomlInner> parts;
  TomlInner inner;
  static void visit(auto& self, auto&& field) {
    field("name", self.name, "a name");
    field("parts", self.parts, "a list");
    field("inner", self.inner, "a table");
  }
};

TEST(Toml, CarriesAConfiguration) {
  TomlOuter config;
  config.name = "학교\n";
  config.parts = {{.rate = 1e-9F, .limit = 5}, {.rate = 3.0F, .limit = {}}};
  config.inner.limit = -1;
  TomlOuter read;
  from_json(parse(to_toml(to_json(config))), read);
  EXPECT_EQ(to_json(read), to_json(config));
}

}  // namespace
}  // namespace transformer
