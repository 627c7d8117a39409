// Every endpoint, as its clients use it.
#include <thread>

#include "serve/serving.h"
#include "transformer/predict/generator.h"
#include "transformer/predict/translator.h"

namespace transformer::test {
namespace {

using nlohmann::json;

Served& served() {
  static Served all;
  return all;
}

std::string error_code(const Served::Answer& answer) {
  return answer.body.is_object() && answer.body.contains("error") ? answer.body["error"].value("code", json("")).dump()
                                                                  : answer.body.dump();
}

// The data of server-sent events.
std::vector<std::string> events_of(const std::string& text) {
  std::vector<std::string> all;
  for (std::size_t at = 0; (at = text.find("data: ", at)) != std::string::npos;) {
    const std::size_t end = text.find("\n\n", at);
    all.push_back(text.substr(at + 6, end - at - 6));
    at = end;
  }
  return all;
}

TEST(ServeApi, CompletionsAreWhatTheGeneratorWrites) {
  Context ctx;
  const Generator g = Generator::load(ctx, served().models().gpt.path(), {.slide = false});
  for (const char* prompt : {"Hello", "a", "the quick brown fox"}) {
    const auto answer = served().post("/v1/completions", {{"model", "gpt"}, {"prompt", prompt}, {"max_tokens", 12}, {"temperature", 0}});
    ASSERT_EQ(answer.status, 200) << answer.body;
    const auto found = g.generate(ctx, std::vector<std::vector<std::int32_t>>{g.encode(prompt)},
                                  with_wishes(g.config(), {.max_new_tokens = 12, .temperature = 0.0}));
    EXPECT_EQ(answer.body["choices"][0]["text"], found[0][0].text);
    EXPECT_EQ(answer.body["choices"][0]["finish_reason"], found[0][0].finish == FinishReason::length ? "length" : "stop");
    EXPECT_EQ(answer.body["usage"]["prompt_tokens"], std::string(prompt).size());
    EXPECT_EQ(answer.body["usage"]["completion_tokens"], found[0][0].ids.size());
    EXPECT_EQ(answer.body["object"], "text_completion");
  }
}

TEST(ServeApi, SeveralPromptsAndAnswersWithSeeds) {
  const json request{{"model", "gpt"},     {"prompt", {"ab", "cd"}},     {"max_tokens", 8}, {"n", 2}, {"seed", 7},
                     {"temperature", 1.0}, {"logit_bias", {{"2", -100}}}};
  const auto first = served().post("/v1/completions", request), again = served().post("/v1/completions", request);
  ASSERT_EQ(first.status, 200) << first.body;
  ASSERT_EQ(first.body["choices"].size(), 4U);
  EXPECT_EQ(first.body["choices"], again.body["choices"]);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(first.body["choices"][i]["index"], i);
  EXPECT_NE(first.body["choices"][0]["text"], first.body["choices"][1]["text"]);
  EXPECT_EQ(first.body["usage"]["completion_tokens"], 4 * 8);
  // Tokens in place of text, the prompt before the answer, the best token twice.
  const auto ids = served().post(
      "/v1/completions",
      {{"model", "gpt"}, {"prompt", {tiny_id('a'), tiny_id('b')}}, {"max_tokens", 3}, {"echo", true}, {"temperature", 0}, {"n", 2}});
  ASSERT_EQ(ids.status, 200) << ids.body;
  EXPECT_TRUE(ids.body["choices"][0]["text"].get<std::string>().starts_with("ab"));
  EXPECT_EQ(ids.body["choices"][0]["text"], ids.body["choices"][1]["text"]);
}

TEST(ServeApi, StreamsAreTheSameTextInPieces) {
  json request{{"model", "gpt"}, {"prompt", "Once"}, {"max_tokens", 10}, {"seed", 3}};
  const auto whole = served().post("/v1/completions", request);
  request["stream"] = true;
  request["stream_options"] = {{"include_usage", true}};
  auto client = served().client();
  const auto result = client.Post("/v1/completions", request.dump(), "application/json");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->get_header_value("Content-Type"), "text/event-stream");
  const std::vector<std::string> events = events_of(result->body);
  ASSERT_GE(events.size(), 3U) << result->body;
  EXPECT_EQ(events.back(), "[DONE]");
  std::string text;
  for (std::size_t i = 0; i + 2 < events.size(); ++i) text += json::parse(events[i])["choices"][0]["text"].get<std::string>();
  EXPECT_EQ(text, whole.body["choices"][0]["text"].get<std::string>());
  EXPECT_EQ(json::parse(events[events.size() - 2])["usage"], whole.body["usage"]);
}

TEST(ServeApi, ChatHasRolesAndDeltas) {
  json request{{"model", "gpt"}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}, {"max_tokens", 6}, {"seed", 1}};
  const auto whole = served().post("/v1/chat/completions", request);
  ASSERT_EQ(whole.status, 200) << whole.body;
  EXPECT_EQ(whole.body["object"], "chat.completion");
  EXPECT_EQ(whole.body["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(whole.body["usage"]["prompt_tokens"], std::string("user: hi / assistant:").size());
  request["messages"][0]["content"] = {{{"type", "text"}, {"text", "hi"}}};
  EXPECT_EQ(served().post("/v1/chat/completions", request).body["choices"], whole.body["choices"]);
  request["stream"] = true;
  const std::vector<std::string> events = events_of(
      served().client().Post("/v1/chat/completions", request.dump(), "application/json")->body);
  EXPECT_EQ(json::parse(events.front())["choices"][0]["delta"]["role"], "assistant");
  std::string text;
  for (std::size_t i = 0; i + 1 < events.size(); ++i) text += json::parse(events[i])["choices"][0]["delta"].value("content", "");
  EXPECT_EQ(text, whole.body["choices"][0]["message"]["content"].get<std::string>());
  request = {{"model", "mt"}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  EXPECT_EQ(served().post("/v1/chat/completions", request).status, 400);
}

TEST(ServeApi, LogprobsAreThoseOfTheModel) {
  const auto answer = served().post("/v1/completions",
                                    {{"model", "gpt"}, {"prompt", "x"}, {"max_tokens", 4}, {"temperature", 0}, {"logprobs", 3}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json& l = answer.body["choices"][0]["logprobs"];
  ASSERT_EQ(l["tokens"].size(), answer.body["usage"]["completion_tokens"].get<std::size_t>());
  for (std::size_t i = 0; i < l["tokens"].size(); ++i) {
    EXPECT_EQ(l["top_logprobs"][i].size(), 3U);
    double best = -1e9;
    for (const auto& [token, value] : l["top_logprobs"][i].items()) best = std::max(best, value.get<double>());
    EXPECT_DOUBLE_EQ(l["token_logprobs"][i].get<double>(), best);  // the most probable one was taken
  }
  const auto chat = served().post("/v1/chat/completions",
                                  {{"model", "gpt"},
                                   {"messages", {{{"role", "user"}, {"content", "x"}}}},
                                   {"max_tokens", 2},
                                   {"logprobs", true},
                                   {"top_logprobs", 2},
                                   {"temperature", 0}});
  ASSERT_EQ(chat.status, 200) << chat.body;
  EXPECT_EQ(chat.body["choices"][0]["logprobs"]["content"][0]["top_logprobs"].size(), 2U);
  EXPECT_EQ(chat.body["choices"][0]["logprobs"]["content"][0]["token"],
            chat.body["choices"][0]["logprobs"]["content"][0]["top_logprobs"][0]["token"]);
}

// Tokens, their places in the text and the drawn token's logarithm, at once and as a stream.
TEST(ServeApi, LogprobsSayWhereTokensStand) {
  json request{{"model", "gpt"}, {"prompt", "Hello"}, {"max_tokens", 10}, {"seed", 4},
               {"logprobs", 1},  {"echo", true},      {"stop", {"~~"}},   {"logit_bias", {{"2", -100}}}};
  const auto whole = served().post("/v1/completions", request);
  ASSERT_EQ(whole.status, 200) << whole.body;
  const json& logprobs = whole.body["choices"][0]["logprobs"];
  const std::string text = whole.body["choices"][0]["text"];
  std::string joined;
  EXPECT_TRUE(text.starts_with("Hello"));
  ASSERT_GT(logprobs["tokens"].size(), 10U);  // the prompt's, too
  for (std::size_t i = 0; i < logprobs["tokens"].size(); ++i) {
    EXPECT_EQ(logprobs["text_offset"][i], joined.size());
    const std::string token = logprobs["tokens"][i];
    joined += token;
    if (i == 0) EXPECT_TRUE(logprobs["top_logprobs"][i].is_null() && logprobs["token_logprobs"][i].is_null());
    else EXPECT_EQ(logprobs["top_logprobs"][i][token], logprobs["token_logprobs"][i]);
  }
  EXPECT_EQ(joined, text);
  request["stream"] = true;
  json offsets = json::array();
  for (const std::string& event : events_of(served().client().Post("/v1/completions", request.dump(), "application/json")->body)) {
    if (event == "[DONE]") continue;
    const json piece = json::parse(event)["choices"][0]["logprobs"]["text_offset"];
    offsets.insert(offsets.end(), piece.begin(), piece.end());
  }
  EXPECT_EQ(offsets, logprobs["text_offset"]);
}

// What programs that measure language models ask for: how probable a text is that they have. It is as probable as when it was written.
TEST(ServeApi, PromptsAreAsProbableAsAnswers) {
  json request{{"model", "gpt"}, {"prompt", "Hello"}, {"max_tokens", 12}, {"seed", 5}, {"logprobs", 3}, {"logit_bias", {{"2", -100}}}};
  const json written = served().post("/v1/completions", request).body["choices"][0];
  const std::string text = "Hello" + written["text"].get<std::string>();
  for (const bool stream : {false, true}) {
    const json asked{{"model", "gpt"}, {"prompt", {text, "Hello"}}, {"max_tokens", 0}, {"logprobs", 3}, {"echo", true}, {"stream", stream}};
    auto client = served().client();
    const auto result = client.Post("/v1/completions", asked.dump(), "application/json");
    ASSERT_EQ(result->status, 200) << result->body;
    const json read = json::parse(stream ? events_of(result->body).front() : result->body)["choices"][0];
    EXPECT_EQ(read["text"], text);
    const json &then = written["logprobs"], &now = read["logprobs"];
    const std::size_t count = then["tokens"].size(), first = now["tokens"].size() - count;
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(now["tokens"][first + i], then["tokens"][i]);
      EXPECT_NEAR(now["token_logprobs"][first + i].get<double>(), then["token_logprobs"][i].get<double>(), 1e-4) << i;
      EXPECT_GE(now["top_logprobs"][first + i].size(), 3U);
    }
  }
  const auto none = served().post("/v1/completions", {{"model", "mt"}, {"prompt", "hello"}, {"logprobs", 1}, {"echo", true}});
  EXPECT_EQ(none.status, 400) << none.body;
  EXPECT_EQ(none.body["error"]["param"], "echo");
}

// Special tokens are not in the text.
TEST(ServeApi, LogprobsOfTranslationsSayWhereTokensStand) {
  json request{{"model", "mt"}, {"prompt", "hello there"}, {"max_tokens", 12}, {"seed", 3}, {"logprobs", 2}, {"n", 16}};
  const auto whole = served().post("/v1/completions", request);
  ASSERT_EQ(whole.status, 200) << whole.body;
  for (const json& choice : whole.body["choices"]) {
    std::string joined;
    for (std::size_t i = 0; i < choice["logprobs"]["tokens"].size(); ++i) {
      const std::string token = choice["logprobs"]["tokens"][i];
      EXPECT_EQ(choice["logprobs"]["text_offset"][i], joined.size()) << choice;
      EXPECT_LE(choice["logprobs"]["top_logprobs"][i].size(), 3U) << choice;
      if (token.size() == 1) joined += token;  // the others are special
    }
    EXPECT_EQ(joined, choice["text"]) << choice;
  }
}

// What changes logits does so before only the best are drawn from.
TEST(ServeApi, NarrowDrawsLeaveWhatIsAskedFor) {
  const json boolean{{"type", "json_schema"}, {"json_schema", {{"schema", {{"type", "boolean"}}}}}};
  for (const json& narrow : {json{{"top_k", 1}}, json{{"top_p", 0.01}}, json{{"min_p", 0.99}}}) {
    json request{{"model", "gpt"}, {"prompt", "x"}, {"max_tokens", 20}, {"seed", 1}, {"temperature", 1.0}, {"response_format", boolean}};
    request.update(narrow);
    const auto answer = served().post("/v1/completions", request);
    ASSERT_EQ(answer.status, 200) << narrow << answer.body;
    EXPECT_TRUE(json::parse(answer.body["choices"][0]["text"].get<std::string>()).is_boolean()) << answer.body;
  }
  json request{{"model", "gpt"},   {"prompt", "x"},          {"max_tokens", 12},
               {"temperature", 0}, {"frequency_penalty", 2}, {"logit_bias", {{"2", -100}}}};
  const auto one = served().post("/v1/completions", request);
  request["n"] = 2;
  const auto two = served().post("/v1/completions", request);
  for (int i : {0, 1}) EXPECT_EQ(two.body["choices"][i]["text"], one.body["choices"][0]["text"]);
  const std::string text = one.body["choices"][0]["text"];
  EXPECT_NE(text, std::string(text.size(), text[0])) << "the penalty changes nothing";
}

TEST(ServeApi, ALongPromptShortensNoOther) {
  json request{{"model", "gpt"}, {"prompt", {"a", std::string(30, 'b')}}, {"seed", 1}, {"logit_bias", {{"2", -100}}}};
  const auto both = served().post("/v1/completions", request);
  request["prompt"] = "a";
  EXPECT_EQ(served().post("/v1/completions", request).body["choices"][0]["text"], both.body["choices"][0]["text"]);
}

TEST(ServeApi, NoStopBeforeTheLeastTokens) {
  json request{{"model", "gpt"}, {"prompt", "a"}, {"max_tokens", 12}, {"temperature", 0}, {"logit_bias", {{"2", -100}}}};
  const std::string text = served().post("/v1/completions", request).body["choices"][0]["text"];
  ASSERT_EQ(text.size(), 12U);
  request["stop"] = {text.substr(0, 1)}, request["min_tokens"] = 6;
  const auto answer = served().post("/v1/completions", request);
  EXPECT_GE(answer.body["choices"][0]["text"].get<std::string>().size(), 5U) << answer.body;
  EXPECT_GE(answer.body["usage"]["completion_tokens"], 6);
}

TEST(ServeApi, StopsAreNotShown) {
  const json request{{"model", "gpt"}, {"prompt", "q"}, {"max_tokens", 20}, {"temperature", 0}};
  const std::string whole = served().post("/v1/completions", request).body["choices"][0]["text"];
  ASSERT_GE(whole.size(), 6U);
  json stopped = request;
  stopped["stop"] = whole.substr(3, 2);
  const auto answer = served().post("/v1/completions", stopped);
  EXPECT_EQ(answer.body["choices"][0]["text"], whole.substr(0, whole.find(whole.substr(3, 2))));
  EXPECT_EQ(answer.body["choices"][0]["finish_reason"], "stop");
}

TEST(ServeApi, AnswersHaveTheFormThatWasAskedFor) {
  const json schema{
      {"type", "object"}, {"properties", {{"ok", {{"type", "boolean"}}}, {"n", {{"type", "integer"}}}}}, {"required", {"ok", "n"}}};
  for (int seed = 0; seed < 5; ++seed) {
    const auto answer = served().post(
        "/v1/chat/completions",
        {{"model", "gpt"},
         {"messages", {{{"role", "user"}, {"content", "a"}}}},
         {"max_tokens", 40},
         {"seed", seed},
         {"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}}}});
    ASSERT_EQ(answer.status, 200) << answer.body;
    const json read = json::parse(answer.body["choices"][0]["message"]["content"].get<std::string>(), nullptr, false);
    ASSERT_TRUE(read.is_object()) << answer.body;
    EXPECT_TRUE(read["ok"].is_boolean() && read["n"].is_number_integer()) << read;
  }
  const auto refused = served().post(
      "/v1/completions",
      {{"model", "gpt"},
       {"prompt", "a"},
       {"response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", {{"type", "string"}, {"pattern", "x"}}}}}}}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body["error"]["message"].get<std::string>().find("pattern"), std::string::npos);
}

TEST(ServeApi, TranslationsAreThoseOfTheTranslator) {
  Context ctx;
  const Translator translator = Translator::load(ctx, served().models().mt.path());
  const auto one = served().post("/translate", {{"q", "hello there"}, {"source", "auto"}, {"target", "auto"}, {"model", "mt"}});
  ASSERT_EQ(one.status, 200) << one.body;
  EXPECT_EQ(one.body["translatedText"], translator.translate(ctx, "hello there"));
  const auto several = served().post("/translate", {{"q", {"a b", "", "c"}}, {"alternatives", 2}});
  ASSERT_EQ(several.status, 200) << several.body;
  EXPECT_EQ(several.body["translatedText"][0], translator.translate(ctx, "a b"));
  EXPECT_EQ(several.body["translatedText"][1], "");
  EXPECT_EQ(several.body["alternatives"][2].size(), 2U);
  EXPECT_EQ(served().get("/languages").body[0]["targets"].size(), 1U);
  const auto form = [](const std::string& text) {
    const auto result = served().client().Post("/translate", text, "application/x-www-form-urlencoded");
    return result ? std::pair(result->status, json::parse(result->body, nullptr, false)) : std::pair(-1, json());
  };
  EXPECT_EQ(form("q=hello+there&source=auto&target=auto"), std::pair(200, one.body));
  EXPECT_EQ(form("q=a+b&q=&q=c&alternatives=2"), std::pair(200, several.body));
  // As they stand there, also twice or with = in them.
  const auto twice = served().post("/translate", {{"q", {"a b", "c", "a b"}}});
  EXPECT_EQ(form("q=a+b&q=c&q=a%20b&"), std::pair(200, twice.body));
  EXPECT_EQ(form("q=a+b&q=c&q=a+b"), std::pair(200, twice.body));
  EXPECT_EQ(form("q=5=a"), std::pair(200, served().post("/translate", {{"q", "5=a"}}).body));
  EXPECT_EQ(form("q=a&beam=many").second["error"]["param"], "beam");
  EXPECT_EQ(form("q=a&beam=1.5").second["error"]["param"], "beam");
  EXPECT_EQ(form("q=%ff").second["error"]["code"], "invalid_utf8");
  EXPECT_EQ(form("source=auto").second["error"]["code"], "missing_field");
  EXPECT_EQ(form("").first, 400);
  EXPECT_EQ(form(R"( {"q": "hello there"})"), std::pair(200, one.body));  // curl without a header
  EXPECT_EQ(served().post("/translate", {{"q", "a"}, {"target", "xx"}}).status, 400);
}

// LibreTranslate translates lines, and leaves them where they are.
TEST(ServeApi, TranslationsKeepTheirLines) {
  const auto translation = [](const json& q, int alternatives = 0) {
    return served().post("/translate", {{"model", "mt"}, {"q", q}, {"alternatives", alternatives}}).body;
  };
  const json a = translation("hello there", 1), b = translation("c d", 1);
  const std::string first = a["translatedText"], second = b["translatedText"];
  ASSERT_NE(first, second);
  EXPECT_EQ(translation("hello there\nc d")["translatedText"], first + "\n" + second);
  EXPECT_EQ(translation("\nhello there\r\n\nc d\n")["translatedText"], "\n" + first + "\n\n" + second + "\n");
  const json both = translation({"hello there\n\nc d", "c d", ""}, 1);
  EXPECT_EQ(both["translatedText"], json({first + "\n\n" + second, second, ""}));
  EXPECT_EQ(both["alternatives"][0][0], a["alternatives"][0].get<std::string>() + "\n\n" + b["alternatives"][0].get<std::string>());
  EXPECT_EQ(both["alternatives"][1], b["alternatives"]);
}

TEST(ServeApi, OtherTasks) {
  const auto labels = served().post("/classify", {{"text", {"good", "bad"}}, {"top_k", 0}});
  ASSERT_EQ(labels.status, 200) << labels.body;
  EXPECT_EQ(labels.body["results"].size(), 2U);
  EXPECT_EQ(error_code(served().post("/classify", {{"image", "iVBORw0KGgo="}})), "\"wrong_model\"");  // the one that is there is for texts
  EXPECT_EQ(error_code(served().post("/classify", {{"model", "cls"}})), "\"missing_field\"");
  const auto vectors = served().post("/v1/embeddings", {{"model", "cls"}, {"input", {"a", "b"}}});
  ASSERT_EQ(vectors.status, 200) << vectors.body;
  EXPECT_EQ(vectors.body["data"].size(), 2U);
  EXPECT_EQ(vectors.body["data"][1]["index"], 1);
  EXPECT_GT(vectors.body["data"][0]["embedding"].size(), 10U);
  EXPECT_TRUE(served()
                  .post("/v1/embeddings", {{"model", "cls"}, {"input", "a"}, {"encoding_format", "base64"}})
                  .body["data"][0]["embedding"]
                  .is_string());
  const auto tokens = served().post("/tokenize", {{"model", "gpt"}, {"text", "Hi"}});
  EXPECT_EQ(tokens.body["tokens"], json({tiny_id('H'), tiny_id('i')}));
  EXPECT_EQ(served().post("/detokenize", {{"model", "gpt"}, {"tokens", tokens.body["tokens"]}}).body["text"], "Hi");
  EXPECT_EQ(served().post("/explain", {{"model", "gpt"}, {"ids", tokens.body["tokens"]}}).body["text"], "Hi");
  const auto models = served().get("/v1/models");
  EXPECT_EQ(models.body["data"].size(), 4U);
  EXPECT_EQ(served().get("/v1/models/gpt").body, models.body["data"][0]);
  const json series = served().get("/v1/models/series").body, config = read_json(golden_cases("patchtst").front() / "config.json");
  EXPECT_EQ(series["context"], config["context_length"]);
  EXPECT_EQ(series["channels"], config["num_input_channels"]);
  EXPECT_EQ(served().get("/v1/models/none").body["error"]["code"], "model_not_found");
  EXPECT_EQ(served().client().Head("/v1/models/gpt")->status, 200);
  EXPECT_EQ(served().client().Delete("/v1/models/gpt")->status, 405);
  // Who names no model gets the first that is for it.
  EXPECT_EQ(served().post("/v1/completions", {{"prompt", "Hi"}, {"max_tokens", 1}}).body["model"], "gpt");
  EXPECT_EQ(served().post("/v1/embeddings", {{"input", "Hi"}}).status, 200);
  const json language = served().post("/translate", {{"q", "a"}, {"model", "mt"}, {"source", "xx"}}).body["error"];
  EXPECT_EQ(language["param"], "source");
  EXPECT_EQ(language["message"].get<std::string>().find("--"), std::string::npos) << language;
  EXPECT_EQ(language["message"].get<std::string>().find(served().models().mt.path().string()), std::string::npos) << language;
  EXPECT_EQ(served().get("/v1/models", {{"Range", "bytes=0-3"}}).body, models.body);
  EXPECT_EQ(served().get("/health").body["status"], "ok");
  const auto metrics = served().client().Get("/metrics");
  EXPECT_NE(metrics->body.find("transformer_generated_tokens_total{model=\"gpt\"}"), std::string::npos);
  EXPECT_EQ(served().client().Get("/")->status, 200);
  EXPECT_EQ(served().get("/training/metrics").status, 404);
}

TEST(ServeApi, ForecastsTakeNumbersAndCsv) {
  const json config = read_json(golden_cases("patchtst").front() / "config.json");
  const auto channels = config["num_input_channels"].get<std::size_t>(), length = config["context_length"].get<std::size_t>();
  json series = json::object();
  std::string csv;
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t t = 0; t < length; ++t) series[fmt::format("c{}", c)].push_back(static_cast<double>(t % 7 + c));
    csv += fmt::format("{}c{}", c == 0 ? "" : ",", c);
  }
  for (std::size_t t = 0; t < length; ++t) {
    csv += "\n";
    for (std::size_t c = 0; c < channels; ++c) csv += fmt::format("{}{}.0", c == 0 ? "" : ",", t % 7 + c);
  }
  const auto numbers = served().post("/forecast", {{"series", series}}), text = served().post("/forecast", {{"series", csv}});
  ASSERT_EQ(numbers.status, 200) << numbers.body;
  EXPECT_EQ(numbers.body["forecast"].size(), channels);
  EXPECT_EQ(numbers.body["forecast"], text.body["forecast"]) << text.body;
  EXPECT_EQ(served().post("/forecast", {{"series", {{"c0", {1.0}}}}}).status, 400);
  // Two names do not make two channels of one.
  const json one{{"channels", {"c0", "c1"}}, {"values", std::vector<double>(channels * length, 1.0)}};
  EXPECT_EQ(served().post("/explain", {{"model", "series"}, {"series", one}}).status, 400);
}

TEST(ServeApi, WrongRequestsAreToldWhatIsWrong) {
  const auto code = [](const json& body, int status = 400, const char* path = "/v1/completions") {
    const auto answer = served().post(path, body);
    EXPECT_EQ(answer.status, status) << body << answer.body;
    EXPECT_TRUE(answer.body["error"]["message"].is_string() && answer.body["error"]["type"].is_string()) << answer.body;
    return error_code(answer);
  };
  EXPECT_EQ(code({{"model", "gtp"}, {"prompt", "a"}}, 404), "\"model_not_found\"");
  EXPECT_EQ(code({{"model", "cls"}, {"prompt", "a"}}), "\"wrong_model\"");
  EXPECT_EQ(code({{"model", "gpt"}}), "\"missing_field\"");
  EXPECT_EQ(code({{"model", "gpt"}, {"prompt", "a"}, {"max_token", 3}}), "\"unknown_field\"");
  EXPECT_EQ(code({{"model", "gpt"}, {"prompt", "a"}, {"temperature", "hot"}}), "\"invalid_value\"");
  EXPECT_EQ(code({{"model", "gpt"}, {"prompt", "a"}, {"n", 0}}), "\"invalid_value\"");
  EXPECT_EQ(code({{"model", "gpt"}, {"prompt", {1000000}}}), "\"invalid_value\"");
  EXPECT_EQ(code({{"model", "gpt"}, {"prompt", std::string(100, 'a')}}), "\"context_length_exceeded\"");
  EXPECT_EQ(code({{"model", "gpt"}, {"prompt", "a"}, {"max_tokens", 64}}), "\"context_length_exceeded\"");
  for (const auto& [body, expected] : {std::pair{"{", "\"invalid_json\""},
                                       {"[]", "\"invalid_value\""},
                                       {"{\"model\":\"\xff\"}", "\"invalid_utf8\""},
                                       {"", "\"invalid_json\""}}) {
    const auto answer = served().post_text("/v1/completions", body);
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(error_code(answer), expected);
  }
  std::string deep(100000, '[');
  EXPECT_EQ(served().post_text("/v1/completions", deep).status, 400);
  EXPECT_EQ(served().get("/v1/completions").status, 405);
  EXPECT_EQ(served().get("/nothing").status, 404);
  EXPECT_EQ(served().post_text("/tokenize", "x", {{"Content-Encoding", "gzip"}}).status, 415);
}

// A stream has not ended when its first event is sent.
TEST(ServeApi, StreamsTakeAsLongAsTheyDo) {
  const Served slow({}, false);
  json request{{"model", "gpt"}, {"prompt", "a"}, {"max_tokens", 60}, {"n", 64}, {"logit_bias", {{"2", -100}}}, {"stream", true}};
  const auto begun = std::chrono::steady_clock::now();
  ASSERT_EQ(slow.client().Post("/v1/completions", request.dump(), "application/json")->status, 200);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  const std::string name = "transformer_request_seconds_sum{endpoint=\"/v1/completions\"} ";
  std::string text;
  for (int i = 0; i < 100 && text.find(name) == std::string::npos; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(20)))
    text = slow.client().Get("/metrics")->body;
  ASSERT_NE(text.find(name), std::string::npos) << text;
  const double counted = std::stod(text.substr(text.find(name) + name.size()));
  EXPECT_GT(counted, 0.5 * took.count());
  EXPECT_NE(text.find("transformer_requests_total{endpoint=\"/v1/completions\",status=\"200\"} 1\n"), std::string::npos) << text;
}

TEST(ServeApi, TheDescriptionKnowsEveryEndpoint) {
  const auto answer = served().get("/openapi.json");
  ASSERT_EQ(answer.status, 200);
  for (const auto& [path, methods] : answer.body["paths"].items())
    for (const auto& [method, what] : methods.items()) {
      const int status = method == "get" ? served().client().Get(path)->status : served().post(path, json::object()).status;
      EXPECT_TRUE(what["responses"].contains(std::to_string(status))) << method << " " << path << " " << status;
    }
}

}  // namespace
}  // namespace transformer::test
