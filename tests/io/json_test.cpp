#include "io/shared/json.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/op_check.h"
#include "support/temporary_folder.h"

namespace transformer::test {
namespace {

TEST(Json, RoundTrip) {
  const TemporaryFolder folder;
  const nlohmann::json value{{"model", "Transformer"}, {"layers", 6}, {"words", {"나는", "학교에", "간다"}}};
  write_json(folder / "config.json", value);
  EXPECT_EQ(read_json(folder / "config.json"), value);
  write_json(folder / "config.json", {{"layers", 7}});
  EXPECT_EQ(read_json(folder / "config.json")["layers"], 7);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);  // no temporary left
}

TEST(Json, NamesFileLineAndColumn) {
  const TemporaryFolder folder;
  write_text(folder / "a.json", "{\n  \"d_model\": 512,\n  \"heads\" 8\n}\n");
  expect_error([&] { read_json(folder / "a.json"); }, {"a.json", "line 3, column 11", "syntax error"});
  write_text(folder / "b.json", "");
  expect_error([&] { read_json(folder / "b.json"); }, {"b.json", "line 1, column 1"});
  write_text(folder / "c.json", "[1, 2");
  expect_error([&] { read_json(folder / "c.json"); }, {"c.json", "line 1, column 6"});
  write_text(folder / "d.json", std::string(100'000, '['));
  expect_error([&] { read_json(folder / "d.json"); }, {"d.json", "line 1"});
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');  // JSON, but copying it would exhaust the stack
  expect_error([&] { parse_json(deep, "e.json"); }, {"e.json", "line 1, column 257", "nested too deeply"});
  expect_error([&] { parse_json("{\"a\": " + deep + "}", "e.json"); }, {"nested too deeply"});
  EXPECT_EQ(parse_json(R"(["[[[[\"[[[[", 1])", "f.json")[0], "[[[[\"[[[[");
  EXPECT_EQ(parse_json(deep.substr(100'000 - 256, 512), "f.json").size(), 1U);
  expect_error([&] { parse_json("[1e999]", "g.json"); }, {"g.json", "1e999"});
  expect_error([&] { read_json(folder / "absent.json"); }, {"absent.json", "No such file"});
  expect_error([&] { read_json(folder.path()); }, {"folder"});
}

TEST(Json, NamesWhereItCannotWrite) {
  expect_error([] { write_json("/nowhere/at/all/config.json", {}); }, {"/nowhere/at/all/config.json", "No such file"});
  const TemporaryFolder folder;
  expect_error([&] { write_json(folder / "x.json", "\xff"); }, {"x.json", "UTF-8"});
}

}  // namespace
}  // namespace transformer::test
