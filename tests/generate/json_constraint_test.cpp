#include "transformer/generate/json_constraint.h"

#include <gtest/gtest.h>

#include "generate/json_machine.h"
#include "support/tiny_tokenizer.h"
#include "transformer/core/error.h"

namespace transformer::test {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Can the text begin like this, and can it end there?
struct Verdict {
  bool possible, complete;
  bool operator==(const Verdict&) const = default;
};
Verdict verdict(const std::string& schema, const std::string& text) {
  const JsonMachine machine(OrderedJson::parse(schema));
  JsonMachine::States states = machine.begin();
  for (const char c : text) states = machine.next(states, static_cast<std::uint8_t>(c));
  return {!states.empty(), machine.is_complete(states)};
}
constexpr Verdict whole{true, true}, part{true, false}, wrong{false, false};

TEST(JsonConstraint, SaysWhatMayCome) {
  const std::string person = R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name"]})";
  EXPECT_EQ(verdict(person, R"({"name": "A", "age": 3})"), whole);
  EXPECT_EQ(verdict(person, R"({"name":"A"})"), whole);
  EXPECT_EQ(verdict(person, R"({"name":"A",)"), part);
  EXPECT_EQ(verdict(person, R"({"age")"), wrong);  // name must come
  EXPECT_EQ(verdict(person, R"({})"), wrong);
  EXPECT_EQ(verdict(person, R"({"name":"A","age":3.5)"), wrong);
  EXPECT_EQ(verdict(person, R"({"name":"A","other)"), wrong);
  EXPECT_EQ(verdict(person, R"({"name":"A"} )"), wrong);  // nothing behind it
  EXPECT_EQ(verdict(R"({"enum":["red","green",1]})", "\"gre"), part);
  EXPECT_EQ(verdict(R"({"enum":["red","green",1]})", "1"), whole);
  EXPECT_EQ(verdict(R"({"enum":["red","green",1]})", "\"blue"), wrong);
  EXPECT_EQ(verdict(R"({"anyOf":[{"type":"null"},{"type":"array","items":{"type":"boolean"},"maxItems":2}]})", "[true , false]"), whole);
  EXPECT_EQ(verdict(R"({"anyOf":[{"type":"null"},{"type":"array","items":{"type":"boolean"},"maxItems":2}]})", "[true,false,"), wrong);
  EXPECT_EQ(verdict(R"({"type":["string","null"]})", "null"), whole);
  EXPECT_EQ(verdict(R"({"type":"array","items":{"type":"integer"},"minItems":2})", "[1]"), wrong);
  EXPECT_EQ(verdict(R"({"type":"array","items":{"type":"integer"},"minItems":2})", "[-10,0]"), whole);
  EXPECT_EQ(verdict(R"({"type":"array","items":{"type":"integer"}})", "[01"), wrong);
  EXPECT_EQ(verdict(R"({"type":"number"})", "-1.5e-7"), whole);
  EXPECT_EQ(verdict(R"({"type":"number"})", "1."), part);
  EXPECT_EQ(verdict(R"({"type":"string","maxLength":2})", "\"가나\""), whole);
  EXPECT_EQ(verdict(R"({"type":"string","maxLength":2})", "\"가나다"), wrong);
  EXPECT_EQ(verdict(R"({"type":"string","minLength":2})", "\"가\""), wrong);
  EXPECT_EQ(verdict(R"({"type":"string"})", R"("\n\u00e9\"")"), whole);
  EXPECT_EQ(verdict(R"({"type":"string"})", R"("\ud83d)"), wrong);  // half of a character
  EXPECT_EQ(verdict(R"({"type":"string"})", "\"\xC0\x80"), wrong);  // no UTF-8
  EXPECT_EQ(verdict(R"({"type":"string"})", "\"\n"), wrong);
  EXPECT_EQ(verdict(R"({})", R"({"a":[1,{"b":null}],"c":"d"})"), whole);
  EXPECT_EQ(verdict(R"({"const":{"a":[1]}})", R"({"a":[1]})"), whole);
  const std::string tree =
      R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"v":{"type":"integer"},"l":{"$ref":"#/$defs/t"}},"required":["v"]}}})";
  EXPECT_EQ(verdict(tree, R"({"v":1,"l":{"v":2,"l":{"v":3}}})"), whole);
  EXPECT_EQ(verdict(tree, R"({"v":1,"l":{"l")"), wrong);
}

// Whatever comes out is what the schema says, as an independent reader of JSON sees it.
TEST(JsonConstraint, AllThatIsDrawnIsOfTheForm) {
  const TokenizerPtr tokenizer = parse_tokenizer(tiny_tokenizer(false).dump());
  const OrderedJson schema = OrderedJson::parse(R"({"type":"object","required":["kind","tags","size"],"properties":{
      "kind":{"enum":["cat","dog"]},"tags":{"type":"array","items":{"type":"string","maxLength":3},"maxItems":3},
      "size":{"type":"number"},"owner":{"anyOf":[{"type":"null"},{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}]}}})");
  const LogitsProcessor constraint = json_constraint(schema, tokenizer, {2});
  std::uint32_t random = 1;
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int32_t> ids{tiny_id('a')};
    std::string text;
    while (ids.size() < 400) {
      std::vector<float> logits(static_cast<std::size_t>(tiny_tokens), 0.0F);
      constraint({.ids = ids, .prompt = 1, .max_length = 1000}, logits);
      std::vector<std::int32_t> possible;
      for (std::int32_t id = 0; id < tiny_tokens; ++id)
        if (logits[static_cast<std::size_t>(id)] == 0.0F) possible.push_back(id);
      ASSERT_FALSE(possible.empty()) << text;
      random = random * 1664525U + 1013904223U;
      const std::int32_t id = possible[random / 65536U % possible.size()];
      if (id == 2) break;
      ids.push_back(id);
      text += tokenizer->decode(std::vector<std::int32_t>{tiny_id('a'), id}).substr(1);
    }
    ASSERT_LT(ids.size(), 400U) << text;
    const nlohmann::json read = nlohmann::json::parse(text, nullptr, false);
    ASSERT_TRUE(read.is_object()) << text;
    EXPECT_TRUE(read["kind"] == "cat" || read["kind"] == "dog") << text;
    ASSERT_TRUE(read["tags"].is_array() && read["tags"].size() <= 3) << text;
    for (const auto& tag : read["tags"]) EXPECT_TRUE(tag.is_string() && tag.get<std::string>().size() <= 3) << text;
    EXPECT_TRUE(read["size"].is_number()) << text;
    EXPECT_TRUE(!read.contains("owner") || read["owner"].is_null() || read["owner"]["id"].is_number_integer()) << text;
  }
}

TEST(JsonConstraint, NamesWhatItDoesNotSupport) {
  const auto message = [](const char* schema) {
    try {
      JsonMachine machine(OrderedJson::parse(schema));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no Error");
  };
  EXPECT_NE(message(R"({"type":"string","pattern":"a+"})").find("'pattern'"), std::string::npos);
  EXPECT_NE(message(R"({"type":"object","properties":{"a":{"type":"integer","minimum":3}}})").find("a: the keyword 'minimum'"),
            std::string::npos);
  EXPECT_NE(message(R"({"type":"thing"})").find("'thing'"), std::string::npos);
  EXPECT_NE(message(R"({"$ref":"http://x"})").find("$ref"), std::string::npos);
  EXPECT_NE(message(R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}})").find("itself"), std::string::npos);
  EXPECT_NE(message(R"({"anyOf":[{"$ref":"#"}]})").find("itself"), std::string::npos);
  EXPECT_NE(message(R"({"type":"object","required":["a"]})").find("'a'"), std::string::npos);
}

}  // namespace
}  // namespace transformer::test
