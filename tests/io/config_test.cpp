#include "transformer/io/config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/op_check.h"

namespace transformer::test {
namespace {

enum class Colour { red, green, blue };
EnumNames<Colour> names(Colour) { return {{Colour::red, "red"}, {Colour::green, "green"}, {Colour::blue, "blue"}}; }

struct Inner {
  std::int64_t depth = 1;
  static void visit(auto& self, auto&& field) { field("depth", self.depth, "how deep"); }
  bool operator==(const Inner&) const = default;
};

struct Outer {
  bool fast = false;
  int d_model = 512;
  std::int64_t tokens = 1LL << 40;
  float dropout = 0.1F;
  double rate = 1e-9;
  std::string name = "base";
  Colour colour = Colour::green;
  std::vector<int> sizes = {1, 2};
  std::vector<Colour> colours = {};
  std::optional<float> scale = {};
  std::optional<std::string> label = "x";
  Inner inner = {};
  std::vector<Inner> layers = {};

  static void visit(auto& self, auto&& field) {
    field("fast", self.fast, "skip checks");
    field("d_model", self.d_model, "width of the model");
    field("tokens", self.tokens, "tokens to see");
    field("dropout", self.dropout, "share of values dropped");
    field("rate", self.rate, "learning rate");
    field("name", self.name, "name of the run");
    field("colour", self.colour, "of the plot");
    field("sizes", self.sizes, "of the batches");
    field("colours", self.colours, "of the lines");
    field("scale", self.scale, "of the scores");
    field("label", self.label, "of the plot");
    field("inner", self.inner, "a part");
    field("layers", self.layers, "more parts");
  }
  bool operator==(const Outer&) const = default;
};

using nlohmann::json;

TEST(Config, RoundTrip) {
  Outer c;
  Outer back{.fast = true, .label = {}};
  from_json(to_json(c), back);
  EXPECT_EQ(back, c);

  c = {.fast = true,
       .d_model = -7,
       .tokens = -1,
       .dropout = 1.0F / 3.0F,
       .rate = 0.1,
       .name = "나는 \"x\"\n",
       .colour = Colour::blue,
       .sizes = {},
       .colours = {Colour::red, Colour::blue},
       .scale = 1e-30F,
       .label = {},
       .inner = {.depth = 3},
       .layers = {{4}, {5}}};
  from_json(json::parse(to_json(c).dump()), back);
  EXPECT_EQ(back, c);
}

TEST(Config, FloatsAreWrittenShort) {
  EXPECT_EQ(to_json(Outer{})["dropout"].dump(), "0.1");
  expect_error([] { to_json(Outer{.dropout = INFINITY}); }, {"dropout", "inf"});
}

TEST(Config, KeepsWhatIsNotNamed) {
  Outer c{.d_model = 64};
  from_json(json{{"dropout", 0}, {"label", nullptr}, {"scale", 2}}, c);
  EXPECT_EQ(c.d_model, 64);
  EXPECT_EQ(c.dropout, 0.0F);
  EXPECT_EQ(c.label, std::nullopt);
  EXPECT_EQ(c.scale, 2.0F);
}

TEST(Config, NamesTheNearestKey) {
  Outer c;
  expect_error([&] { from_json(json{{"d_modle", 1}}, c); }, {"unknown key 'd_modle'", "did you mean 'd_model'?"});
  expect_error([&] { from_json(json{{"dropuot", 1}}, c); }, {"'dropuot'", "'dropout'"});
  expect_error([&] { from_json(json{{"inner", {{"dept", 1}}}}, c); }, {"'dept' in 'inner'", "'depth'"});
  expect_error([&] { from_json(json{{"colour", "gren"}}, c); }, {"key 'colour'", "'gren'", "red, green, blue", "did you mean 'green'?"});
}

TEST(Config, NamesTheExpectedType) {
  Outer c;
  const Outer before = c;
  auto refuses = [&](const json& j, const std::vector<std::string>& parts) {
    expect_error([&] { from_json(j, c); }, parts);
    EXPECT_EQ(c, before);
  };
  refuses({{"fast", 1}}, {"key 'fast'", "true or false", "got 1"});
  refuses({{"d_model", "512"}}, {"key 'd_model'", "an integer", "\"512\""});
  refuses({{"d_model", 512.5}}, {"an integer", "512.5"});
  refuses({{"d_model", 1LL << 40}}, {"a smaller integer"});
  refuses({{"tokens", 1ULL << 63}}, {"a smaller integer"});
  refuses({{"dropout", true}}, {"a number", "true"});
  refuses({{"dropout", 1e300}}, {"a smaller number"});
  refuses({{"name", nullptr}}, {"a string", "null"});
  refuses({{"colour", 1}}, {"colour", "names"});
  refuses({{"sizes", 3}}, {"a list"});
  refuses({{"sizes", {1, "x"}}}, {"sizes[1]", "an integer"});
  refuses({{"layers", {{{"depth", 1}}, {{"depth", "x"}}}}}, {"layers[1].depth"});
  refuses({{"inner", 1}}, {"'inner'", "an object"});
  refuses(json::array(), {"an object", "a list"});
  refuses({{"d_model", 7}, {"name", 7}}, {"name"});  // nothing is set when something is wrong
}

}  // namespace
}  // namespace transformer::test
