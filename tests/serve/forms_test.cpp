// LibreTranslate's clients: forms of both kinds, as curl -d and curl -F send them.
#include "serve/serving.h"

namespace transformer::test {
namespace {

using nlohmann::json;

class ServeForms : public testing::Test {
 protected:
  static Served& served() {
    static Served all;
    return all;
  }
  static std::pair<int, json> send(const std::string& body, const std::string& type, const std::string& path = "/translate") {
    const auto result = served().client().Post(path, body, type);
    return result ? std::pair(result->status, json::parse(result->body, nullptr, false)) : std::pair(-1, json());
  }
  static std::string part(const std::string& head, const std::string& text) {
    return "--xyz\r\nContent-Disposition: form-data; " + head + "\r\n\r\n" + text + "\r\n";
  }
};

constexpr const char* coded = "application/x-www-form-urlencoded";
constexpr const char* in_parts = "multipart/form-data; boundary=xyz";

TEST_F(ServeForms, LongOnesToo) {
  std::string lines;
  for (int i = 0; i < 900; ++i) lines += i == 0 ? "hello there" : "%0Ahello there";
  ASSERT_GT(lines.size(), 8192U);
  const auto [status, answer] = send("q=" + lines + "&source=auto&target=auto&beam=1", coded);
  ASSERT_EQ(status, 200) << answer.dump().substr(0, 300);
  const std::string text = answer["translatedText"];
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 899);
  EXPECT_EQ(send("q=hello+there&beam=1", "Application/X-WWW-Form-URLencoded; charset=utf-8").first, 200);
}

TEST_F(ServeForms, OfSeveralParts) {
  const json expected = served().post("/translate", {{"q", "hello there"}}).body;
  const std::string q = part("name=\"q\"", "hello there"), source = part("name=source", "auto"), end = "--xyz--\r\n";
  EXPECT_EQ(send(q + source + end, in_parts), std::pair(200, expected));
  EXPECT_EQ(send("before it\r\n" + source + q + end + "behind it", "multipart/form-data; charset=utf-8; boundary=\"xyz\""),
            std::pair(200, expected));
  EXPECT_EQ(send(part("filename=\"a.txt\"; name=\"q\"\r\nContent-Type: text/plain", "hello there") + end, in_parts),
            std::pair(200, expected));
  EXPECT_EQ(send(part("name=\"q\"", "a b") + part("name=\"q\"", "c") + end, in_parts),
            std::pair(200, served().post("/translate", {{"q", {"a b", "c"}}}).body));
  EXPECT_EQ(send(part("name=\"q\"", "a\r\n--xy\r\nb") + end, in_parts),
            std::pair(200, served().post("/translate", {{"q", "a\r\n--xy\r\nb"}}).body));
  for (const std::string& broken : {q, q + "--xyz", std::string("--xyz\r\n\r\nno name\r\n--xyz--"), std::string("--xyz\r\nno head"),
                                    "--xyz\r\nContent-Disposition: form-data; name=q\r\n\r\n" + end, std::string()}) {
    const auto [status, why] = send(broken, in_parts);
    EXPECT_EQ(status, 400) << broken;
    EXPECT_EQ(why["error"]["code"], "invalid_form") << why;
  }
  EXPECT_EQ(send(q + end, "multipart/form-data").second["error"]["code"], "invalid_form");
  EXPECT_EQ(send(q + end, in_parts, "/classify").first, 415);
}

TEST_F(ServeForms, HtmlIsNotTranslated) {
  const auto answer = served().post("/translate", {{"q", "<b>a</b>"}, {"format", "html"}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.body["error"]["param"], "format");
  EXPECT_NE(answer.body["error"]["message"].get<std::string>().find("HTML"), std::string::npos) << answer.body;
}

TEST_F(ServeForms, LanguagesAreNotDetected) {
  for (const auto& [status, answer] : {send("q=hello", coded, "/detect"), send(part("name=q", "a") + "--xyz--", in_parts, "/detect"),
                                       send(R"({"q": "hello"})", "application/json", "/detect")}) {
    EXPECT_EQ(status, 404) << answer;
    EXPECT_EQ(answer["error"]["code"], "not_found") << answer;
    EXPECT_NE(answer["error"]["message"].get<std::string>().find("'source'"), std::string::npos) << answer;
  }
  EXPECT_EQ(served().get("/detect").status, 405);
}

TEST_F(ServeForms, KeysAreInThem) {
  const Served guarded({.api_key = "abc"});
  const auto ask = [&](const std::string& body, const char* type) { return guarded.client().Post("/translate", body, type)->status; };
  EXPECT_EQ(ask("q=a&api_key=abc", coded), 200);
  EXPECT_EQ(ask("q=a&api_key=ab", coded), 401);
  const std::string end = "--xyz--\r\n", q = part("name=q", "a");
  EXPECT_EQ(ask(q + part("name=api_key", "abc") + end, in_parts), 200);
  EXPECT_EQ(ask(q + part("name=api_key", "abd") + end, in_parts), 401);
  EXPECT_EQ(ask(q + end, in_parts), 401);
}

}  // namespace
}  // namespace transformer::test
