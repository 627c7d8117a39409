// Clients that do what they should not: they get an error or nothing, and others do not notice.
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "serve/http.h"
#include "serve/serving.h"

namespace transformer::test {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

bool still_answers(const Served& served) {
  const auto answer = served.post("/v1/completions", {{"model", "gpt"}, {"prompt", "a"}, {"max_tokens", 2}});
  return answer.status == 200;
}

double metric(const Served& served, const std::string& name) {
  const std::string text = served.client().Get("/metrics")->body;
  const std::size_t at = text.find("\n" + name);
  return at == std::string::npos ? -1.0 : std::stod(text.substr(text.find(' ', at + 1)));
}

// Becomes true within a few seconds.
bool soon(const auto& condition) {
  for (int i = 0; i < 200; ++i, std::this_thread::sleep_for(50ms))
    if (condition()) return true;
  return false;
}

std::int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  in >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(ServeHostile, WhoHangsUpFreesHisPlace) {
  const Served served({.max_sequences = 2}, false);
  const json endless{{"model", "gpt"}, {"prompt", "a"}, {"max_tokens", 60}, {"stream", true}, {"logit_bias", {{"2", -100}}}, {"n", 2}};
  for (int i = 0; i < 20; ++i) {
    RawClient client(served.port());
    ASSERT_TRUE(client.send(request_text("/v1/completions", endless)));
    EXPECT_TRUE(i % 2 == 1 || client.receive_some().find("200 OK") != std::string::npos);
    client.close();  // in the middle of the answer, or before it
  }
  EXPECT_TRUE(still_answers(served));
  EXPECT_TRUE(soon([&] { return metric(served, "transformer_running_sequences{model=\"gpt\"}") == 0.0; }));
}

TEST(ServeHostile, HeadsThatAreTooLargeOrWrong) {
  const Served served({}, false);
  {
    RawClient client(served.port());
    client.send("GET /health HTTP/1.1\r\n" + std::string(100000, 'a') + ": b\r\n");
    EXPECT_NE(client.receive().find("431"), std::string::npos);
  }
  {
    RawClient client(served.port(), 2);
    client.send("GET /health HTTP/1.1\r\nA: " + std::string(20000, 'a') + "\r\n\r\n");
    const std::string answer = client.receive();
    EXPECT_NE(answer.find(" 4"), std::string::npos) << answer.substr(0, 200);
    EXPECT_NE(answer.find("\"error\""), std::string::npos) << answer.substr(0, 400);
  }
  for (const std::string text : {"\r\n\r\n", "nonsense\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
                                 "POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                                 "POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"}) {
    RawClient client(served.port(), 1);  // some connections stay open
    ASSERT_TRUE(client.send(text));
    const std::string answer = client.receive();
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 4")) << text << answer.substr(0, 100);
  }
  EXPECT_TRUE(still_answers(served));
}

// The only worker waits a moment for more of the client that it has answered, not for ever.
TEST(ServeHostile, WhoStaysHoldsNobodyUp) {
  serve::HttpServer server({.workers = 1, .linger = 50ms});
  server.Get("/", [](const httplib::Request&, httplib::Response& answer) { answer.set_content("here", "text/plain"); });
  const int port = server.bind("127.0.0.1", 0);
  server.start();
  const std::string request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  const RawClient stays(port, 5), other(port, 5);
  const auto answered = [](const RawClient& client) {
    std::string all;
    for (std::string some = "-"; !some.empty() && !all.ends_with("here");) all += some = client.receive_some();
    return all.starts_with("HTTP/1.1 200") && all.ends_with("here");
  };
  for (int i = 0; i < 3; ++i)
    for (const RawClient* client : {&stays, &stays, &other}) EXPECT_TRUE(client->send(request) && answered(*client));
  // Part of a request is the watcher's to wait for.
  ASSERT_TRUE(stays.send(request.substr(0, 10)) && other.send(request));
  EXPECT_TRUE(answered(other));
  ASSERT_TRUE(stays.send(request.substr(10)));
  EXPECT_TRUE(answered(stays));
}

// A request that says nothing of a body has none; one that says two things of it is not understood.
TEST(ServeHostile, LengthsThatAreMissingOrWrong) {
  const Served served({}, false);
  const auto begun = std::chrono::steady_clock::now();
  for (const std::string head : {"", "Content-Length: -5\r\n", "Content-Length: 99999999999999999999\r\n", "Content-Length: 2, 2\r\n",
                                 "Content-Length: 2\r\nContent-Length: 3\r\n", "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
                                 "Transfer-Encoding: gzip\r\n", "Content-Length : 2\r\n"}) {
    const RawClient client(served.port());
    ASSERT_TRUE(client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + head + "\r\n"));
    EXPECT_TRUE(client.receive_some().starts_with("HTTP/1.1 400")) << head;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 5s);
  EXPECT_TRUE(still_answers(served));
}

// A body that nobody reads is no next request, also where it begins with a new buffer.
TEST(ServeHostile, BodiesOfRequestsThatHaveNone) {
  const Served served({}, false);
  const std::string inner = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";
  std::string head = fmt::format("GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\nX: ", inner.size());
  head += std::string(4096 - head.size() - 4, 'x') + "\r\n\r\n";
  const RawClient client(served.port(), 5);
  ASSERT_TRUE(client.send(head + inner));
  const std::string answer = client.receive();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
  EXPECT_NE(answer.find("Connection: close"), std::string::npos) << answer;
  EXPECT_EQ(answer.find("HTTP/1.1", 1), std::string::npos) << answer;
}

// Nor is one of a request that is refused before it was read, however late it comes.
TEST(ServeHostile, BodiesOfRequestsThatAreRefused) {
  const Served served({}, false);
  for (const std::string head :
       {"POST /tokenize HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 100000\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=a\r\nContent-Length: 100000\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nRange: bytes=a\r\nContent-Length: 100000\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    const RawClient client(served.port(), 5);
    ASSERT_TRUE(client.send(head));
    const std::string answer = client.receive_some();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 4")) << answer;
    EXPECT_NE(answer.find("Connection: close"), std::string::npos) << answer;
    client.send("GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(client.receive().find("HTTP/1.1"), std::string::npos) << head;
  }
  EXPECT_TRUE(still_answers(served));
}

// Who does not wait for an answer before the next request gets all of them, in their order.
TEST(ServeHostile, RequestsThatComeTogether) {
  const Served served({}, false);
  const RawClient client(served.port(), 5);
  const std::string get = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
  std::string all;
  for (const std::int64_t length : {1, 2, 5000, 3})
    all += request_text("/tokenize", {{"model", "gpt"}, {"text", std::string(static_cast<std::size_t>(length), 'a')}}) + get;
  ASSERT_TRUE(client.send(all + "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  const std::string answers = client.receive();
  std::size_t at = 0;
  for (const std::string expected :
       {"\"count\":1,", "\"ok\"", "\"count\":2,", "\"ok\"", "\"count\":5000,", "\"ok\"", "\"count\":3,", "\"ok\"", "\"ok\""}) {
    at = answers.find(expected, at);
    ASSERT_NE(at, std::string::npos) << expected;
    at += expected.size();
  }
}

TEST(ServeHostile, BodiesThatAreTooLarge) {
  const Served served({.max_body_bytes = 1000}, false);
  const auto answer = served.post("/v1/completions", {{"model", "gpt"}, {"prompt", std::string(5000, 'a')}});
  EXPECT_EQ(answer.status, 413);
  EXPECT_TRUE(answer.body.contains("error"));
  EXPECT_TRUE(still_answers(served));
}

TEST(ServeHostile, SlowClientsHoldNobodyUp) {
  const Served served({}, false);
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 300; ++i) {  // more than there are workers
    slow.push_back(std::make_unique<RawClient>(served.port()));
    slow.back()->send("POST /v1/completions HTTP/1.1\r\nHost");
  }
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(still_answers(served));
    for (const auto& client : slow) client->send("x");
  }
}

TEST(ServeHostile, SlowBodiesHoldNobodyUp) {
  const Served served({}, false);
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 300; ++i) {  // more than there are workers
    slow.push_back(std::make_unique<RawClient>(served.port()));
    slow.back()->send("POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\ncontent-length: 500\r\n\r\n{");
  }
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(still_answers(served));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 8s) << "a request has ten seconds to come";
  // What comes late, but comes, is answered.
  const std::string rest = R"("model":"gpt","prompt":"a","max_tokens":1})";
  slow.front()->send(rest + std::string(499 - rest.size(), ' '));
  EXPECT_TRUE(slow.front()->receive_some().starts_with("HTTP/1.1 200"));
}

TEST(ServeHostile, ThousandsOfIdleConnections) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const Served served({}, false);
  getrlimit(RLIMIT_NOFILE, &limit);                                                                 // the server has raised it
  const auto most = static_cast<std::size_t>(std::min<rlim_t>(10000, (limit.rlim_cur - 200) / 2));  // both ends are here
  EXPECT_TRUE(still_answers(served));
  const std::int64_t before = resident_bytes();
  {
    std::vector<std::unique_ptr<RawClient>> idle;
    for (std::size_t i = 0; i < most; ++i) {
      idle.push_back(std::make_unique<RawClient>(served.port()));
      ASSERT_TRUE(idle.back()->connected()) << i;
    }
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(still_answers(served));
    EXPECT_TRUE(soon([&] { return metric(served, "transformer_open_connections") >= static_cast<double>(most); }));
    std::printf("%zu idle connections: %.1f MB more\n", most, static_cast<double>(resident_bytes() - before) / 1e6);
  }
  EXPECT_TRUE(soon([&] { return metric(served, "transformer_open_connections") < 10.0; }));
  EXPECT_TRUE(still_answers(served));
  EXPECT_LT(resident_bytes() - before, std::int64_t{20} << 20);
}

TEST(ServeHostile, TooManyAreToldToComeLater) {
  const Served served({.max_sequences = 1, .max_queue = 2}, false);
  const json request{{"model", "gpt"}, {"prompt", "a"}, {"max_tokens", 60}, {"logit_bias", {{"2", -100}}}};
  std::vector<int> statuses(12, 0);
  std::vector<std::string> retry(12);
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < statuses.size(); ++i)
    clients.emplace_back([&, i] {
      for (int k = 0; k < 30 && statuses[i] != 429; ++k) {
        const auto answer = served.post("/v1/completions", request);
        statuses[i] = answer.status;
        for (const auto& [name, value] : answer.headers)
          if (name == "Retry-After") retry[i] = value;
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_GT(std::count(statuses.begin(), statuses.end(), 429), 0);
  for (std::size_t i = 0; i < statuses.size(); ++i) EXPECT_TRUE(statuses[i] == 429 ? retry[i] == "1" : statuses[i] == 200) << statuses[i];
  EXPECT_TRUE(still_answers(served));
}

TEST(ServeHostile, WhatTakesTooLongIsEnded) {
  const Served served({.max_tokens = 4096, .max_seconds = 1e-9}, false);
  json request{{"model", "gpt"}, {"prompt", "a"}, {"max_tokens", 60}, {"n", 64}, {"logit_bias", {{"2", -100}}}};
  const auto answer = served.post("/v1/completions", request);
  EXPECT_EQ(answer.status, 504) << answer.body;
  request["stream"] = true;
  const auto stream = served.client().Post("/v1/completions", request.dump(), "application/json");
  EXPECT_NE(stream->body.find("timeout"), std::string::npos) << stream->body;
  EXPECT_TRUE(soon([&] { return metric(served, "transformer_cancelled_total{model=\"gpt\"}") == 2.0; }));
  EXPECT_TRUE(soon([&] { return metric(served, "transformer_running_sequences{model=\"gpt\"}") == 0.0; }));
}

TEST(ServeHostile, NothingTakesTooLongWhereThereIsForEver) {
  const Served served({.max_seconds = 1e10}, false);
  const json request{{"model", "gpt"}, {"prompt", "a"}, {"max_tokens", 60}, {"n", 64}, {"logit_bias", {{"2", -100}}}};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(served.post("/v1/completions", request).status, 200);
}

TEST(ServeHostile, KeysAreWantedWhereThereIsOne) {
  const Served served({.api_key = "secret"}, false);
  const json request{{"model", "gpt"}, {"prompt", "a"}, {"max_tokens", 1}};
  EXPECT_EQ(served.post("/v1/completions", request).status, 401);
  EXPECT_EQ(served.post("/v1/completions", request, {{"Authorization", "Bearer secret2"}}).status, 401);
  EXPECT_EQ(served.post("/v1/completions", request, {{"Authorization", "Bearer secret"}}).status, 200);
  for (const auto& [form, status] : {std::pair{"q=a&api_key=secret", 400}, {"q=a&api_key=secret2", 401}, {"q=a", 401}})
    EXPECT_EQ(served.client().Post("/translate", form, "application/x-www-form-urlencoded")->status, status);  // 400: no translator
  EXPECT_EQ(served.get("/health").status, 200);
  EXPECT_EQ(served.get("/v1/models").status, 401);
  EXPECT_EQ(served.get("/v1/models", {{"Origin", "http://evil"}}).headers.count("Access-Control-Allow-Origin"), 0U);
}

TEST(ServeHostile, OtherOriginsOnlyWhereTheyMay) {
  const Served served({.cors_origin = "https://a.example"}, false);
  const auto answer = served.get("/v1/models", {{"Origin", "https://a.example"}});
  EXPECT_EQ(answer.headers.find("Access-Control-Allow-Origin")->second, "https://a.example");
  // What a page sends with its question is its own choice: OpenAI's client in a browser has a dozen headers.
  const auto before = served.client().Options("/v1/models", {{"Access-Control-Request-Headers", "authorization,x-stainless-os"}});
  EXPECT_EQ(before->status, 204);
  EXPECT_NE(before->get_header_value("Access-Control-Allow-Headers").find("*"), std::string::npos);
  // It may read what is wrong, too, also where nobody looked at the question.
  for (const httplib::Headers& headers : {httplib::Headers{{"Content-Encoding", "gzip"}}, {{"Range", "bytes=a"}}, {}})
    EXPECT_EQ(served.post_text("/tokenize", "{", headers).headers.count("Access-Control-Allow-Origin"), 1U);
}

TEST(ServeHostile, AShutdownFinishesWhatIsUnderWay) {
  Served served({}, false);
  std::vector<int> statuses(6, 0);
  std::vector<std::string> texts(6);
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < statuses.size(); ++i)
    clients.emplace_back([&, i] {
      const auto answer = served.post("/v1/completions",
                                      {{"model", "gpt"}, {"prompt", "a"}, {"max_tokens", 60}, {"seed", 5}, {"logit_bias", {{"2", -100}}}});
      statuses[i] = answer.status;
      if (answer.status == 200) texts[i] = answer.body["choices"][0]["text"];
    });
  std::this_thread::sleep_for(10ms);
  served.server().stop();
  for (std::thread& client : clients) client.join();
  for (std::size_t i = 0; i < statuses.size(); ++i)  // answered as a whole, or never taken
    EXPECT_TRUE(statuses[i] == 200 ? texts[i].size() == 60 : statuses[i] == -1) << statuses[i] << texts[i];
}

}  // namespace
}  // namespace transformer::test
