// Texts that are longer than a model takes: they are refused, as OpenAI's clients expect, and not cut without a word.
#include "serve/serving.h"

namespace transformer::test {
namespace {

using nlohmann::json;

std::int64_t positions_of_case(const char* golden) {
  return read_json(golden_cases(golden).front() / "config.json")["max_position_embeddings"].get<std::int64_t>();
}

class ServeLengths : public testing::Test {
 protected:
  static Served& served() {
    static Served all;
    return all;
  }
  // The answer says what was given and what the model takes.
  static void expect_refused(const std::string& path, const json& body, std::int64_t tokens, std::int64_t most) {
    const Served::Answer answer = served().post(path, body);
    ASSERT_EQ(answer.status, 400) << path << answer.body.dump().substr(0, 200);
    const json& error = answer.body["error"];
    EXPECT_EQ(error["code"], "context_length_exceeded") << error;
    EXPECT_EQ(error["type"], "invalid_request_error") << error;
    const std::string message = error["message"];
    EXPECT_NE(message.find(fmt::format("{} tokens", tokens)), std::string::npos) << message;
    EXPECT_NE(message.find(fmt::format("at most {}", most)), std::string::npos) << message;
  }
};

TEST_F(ServeLengths, TextsThatAreTooLongAreRefused) {
  const std::int64_t most = positions_of_case("bert-cls");
  const auto text = [](std::int64_t letters) { return std::string(static_cast<std::size_t>(letters), 'a'); };
  const std::int64_t around = served().post("/tokenize", {{"model", "cls"}, {"text", "a"}}).body["count"].get<std::int64_t>() - 1;
  const std::string fits = text(most - around), longer = text(most - around + 1);
  EXPECT_EQ(served().post("/v1/embeddings", {{"model", "cls"}, {"input", fits}}).status, 200);
  EXPECT_EQ(served().post("/classify", {{"model", "cls"}, {"text", fits}}).status, 200);
  EXPECT_EQ(served().post("/explain", {{"model", "cls"}, {"text", fits}}).status, 200);
  expect_refused("/v1/embeddings", {{"model", "cls"}, {"input", longer}}, most + 1, most);
  expect_refused("/v1/embeddings", {{"model", "cls"}, {"input", {"a", longer, "b"}}}, most + 1, most);
  expect_refused("/classify", {{"model", "cls"}, {"text", {"a", longer}}}, most + 1, most);
  expect_refused("/explain", {{"model", "cls"}, {"text", longer}}, most + 1, most);
  // Which of several it is.
  const json several = served().post("/classify", {{"model", "cls"}, {"text", {"a", longer}}}).body["error"];
  EXPECT_NE(several["message"].get<std::string>().find("text 2 of 2"), std::string::npos) << several;
}

TEST_F(ServeLengths, SoAreThoseOfTranslators) {
  const std::int64_t most = positions_of_case("marian");
  const std::string longer(static_cast<std::size_t>(most) + 5, 'a');
  const std::int64_t tokens = served().post("/tokenize", {{"model", "mt"}, {"text", longer}}).body["count"].get<std::int64_t>();
  expect_refused("/translate", {{"model", "mt"}, {"q", longer}}, tokens, most);
  expect_refused("/translate", {{"model", "mt"}, {"q", "a\n" + longer}}, tokens, most);
  expect_refused("/v1/completions", {{"model", "mt"}, {"prompt", longer}}, tokens, most);
  expect_refused("/v1/embeddings", {{"model", "mt"}, {"input", longer}}, tokens, most);
  expect_refused("/explain", {{"model", "mt"}, {"source", longer}}, tokens, most);
  EXPECT_EQ(served().post("/translate", {{"model", "mt"}, {"q", "hello there"}}).status, 200);
}

}  // namespace
}  // namespace transformer::test
