// Many clients at once: each gets the answer that it gets alone. With TRANSFORMER_LOAD_SECONDS and TRANSFORMER_LOAD_MODEL=FOLDER (a
// translator or a language model) it is a measurement; _THREADS, _PRECISION and, of translators, _BEAM set what their names say.
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <stdexcept>

#include "serve/serving.h"
#include "support/op_check.h"

namespace transformer::test {
namespace {

using nlohmann::json;

struct LoadQuestion {
  std::string path;
  json body;
};

std::vector<LoadQuestion> load_questions(bool translates) {
  std::vector<LoadQuestion> all;
  const std::vector<std::string> words{"the", "cat", "saw", "a", "dog", "in", "school", "I", "go", "to", "mouse", "caught"};
  for (std::size_t i = 0; i < 48; ++i) {
    std::string text;
    for (std::size_t k = 0; k < 2 + i % 6; ++k) text += (k == 0 ? "" : " ") + words[(i * 7 + k * 5) % words.size()];
    const char* beam = std::getenv("TRANSFORMER_LOAD_BEAM");
    if (translates) all.push_back({"/translate", {{"q", text}, {"beam", beam != nullptr ? std::atoi(beam) : 5}}});
    else
      all.push_back(
          {"/v1/completions",
           {{"model", "model"}, {"prompt", text}, {"max_tokens", 4 + i % 20}, {"seed", i}, {"temperature", i % 3 == 0 ? 0.0 : 1.0}}});
  }
  return all;
}

// What an answer says, without its number and time.
json load_words(const json& body) { return body.contains("choices") ? body["choices"] : body; }

struct LoadResult {
  std::int64_t answers = 0, wrong = 0;
  double seconds = 0.0, processor = 0.0;  // of the wall's clock, and of the processor's: clients' part included
  std::vector<double> latencies = {};
  double rate() const { return static_cast<double>(answers) / seconds; }
  double percentile(double p) {
    std::sort(latencies.begin(), latencies.end());
    return latencies.empty() ? 0.0 : latencies[static_cast<std::size_t>(p * static_cast<double>(latencies.size() - 1))];
  }
};

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
      1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

// One of many clients; all are of one thread, so that they take little of the processors that the server has.
class LoadClient {
 public:
  LoadClient(int port, std::size_t number) : connection_(port), question_(number) {}
  int socket() const { return connection_.socket(); }
  std::size_t question() const { return question_; }

  void ask(const std::vector<std::string>& requests) {
    asked_ = std::chrono::steady_clock::now();
    if (!connection_.send(requests[question_ % requests.size()])) throw std::runtime_error("the server has hung up");
  }
  // What has come: the answer, when it is whole.
  std::optional<std::string> receive() {
    const std::string some = connection_.receive_some();
    if (some.empty()) throw std::runtime_error("the server has hung up");
    received_ += some;
    const std::size_t head = received_.find("\r\n\r\n"), length = received_.find("Content-Length: ");
    if (head == std::string::npos || received_.size() < head + 4 + std::strtoull(received_.c_str() + length + 16, nullptr, 10)) return {};
    question_ += 5;
    return std::exchange(received_, {});
  }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - asked_).count(); }

 private:
  RawClient connection_;
  std::size_t question_;
  std::string received_;
  std::chrono::steady_clock::time_point asked_;
};

// Sockets, of which those are named that have something to say. What is asked of the system does not grow with their number.
class Watched {
 public:
  Watched() : all_(::epoll_create1(EPOLL_CLOEXEC)) {}
  ~Watched() { ::close(all_); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  void add(int socket, std::size_t name) {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = name}};
    if (::epoll_ctl(all_, EPOLL_CTL_ADD, socket, &event) != 0) throw std::runtime_error("a socket cannot be watched");
  }
  const std::vector<std::size_t>& heard() {
    epoll_event events[64];
    const int count = ::epoll_wait(all_, events, 64, 120'000);
    if (count <= 0) throw std::runtime_error("the server has said nothing for two minutes");
    names_.clear();
    for (int i = 0; i < count; ++i) names_.push_back(events[i].data.u64);
    return names_;
  }

 private:
  int all_;
  std::vector<std::size_t> names_;
};

LoadResult load(int port, std::size_t count, double seconds, const std::vector<LoadQuestion>& questions,
                const std::vector<json>& expected) {
  std::vector<std::string> requests;
  for (const LoadQuestion& q : questions) requests.push_back(request_text(q.path, q.body));
  std::vector<std::unique_ptr<LoadClient>> clients;
  Watched sockets;
  for (std::size_t c = 0; c < count; ++c) {
    clients.push_back(std::make_unique<LoadClient>(port, c));
    sockets.add(clients.back()->socket(), c);
  }
  const auto begun = std::chrono::steady_clock::now();
  const auto since = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(); };
  const double used = processor_seconds();
  LoadResult all;
  std::vector<std::pair<std::size_t, std::string>> answers;  // to the questions; read when time is not taken
  for (const auto& client : clients) client->ask(requests);
  for (std::size_t open = count; open > 0;) {
    for (const std::size_t c : sockets.heard()) {
      const std::size_t question = clients[c]->question();
      std::optional<std::string> answer = clients[c]->receive();
      if (!answer) continue;
      all.latencies.push_back(clients[c]->seconds());
      answers.emplace_back(question, std::move(*answer));
      if (since() < seconds) clients[c]->ask(requests);
      else --open;  // a client that asks no more is heard no more
    }
  }
  all.seconds = since(), all.processor = processor_seconds() - used;
  all.answers = std::ssize(answers);
  for (const auto& [question, answer] : answers) {
    const json body = answer.starts_with("HTTP/1.1 200") ? json::parse(answer.substr(answer.find("\r\n\r\n")), nullptr, false) : json();
    all.wrong += body.is_object() && load_words(body) == expected[question % questions.size()] ? 0 : 1;
  }
  return all;
}

void check_load(serve::Server& server, bool translates, double seconds) {
  const std::vector<LoadQuestion> questions = load_questions(translates);
  std::vector<json> expected;
  httplib::Client client("127.0.0.1", server.port());
  client.set_read_timeout(120);
  for (const LoadQuestion& q : questions) {
    const auto result = client.Post(q.path, q.body.dump(), "application/json");
    ASSERT_TRUE(result && result->status == 200) << (result ? result->body : "");
    expected.push_back(load_words(json::parse(result->body)));
  }
  double alone = 0.0;
  for (const std::size_t clients : {1, 8, 32, 64}) {
    LoadResult r = load(server.port(), clients, clients == 64 ? seconds : std::min(seconds, 10.0), questions, expected);
    if (clients == 1) alone = r.rate();
    std::printf(
        "%2zu clients: %6.1f answers/s (%.2f times 1 client), median %6.1f ms, p99 %6.1f ms, %5.2f ms of the processor each, %lld "
        "answers, %lld wrong\n",
        clients, r.rate(), r.rate() / alone, 1e3 * r.percentile(0.5), 1e3 * r.percentile(0.99),
        1e3 * r.processor / static_cast<double>(r.answers), static_cast<long long>(r.answers), static_cast<long long>(r.wrong));
    EXPECT_EQ(r.wrong, 0);
    EXPECT_GT(r.answers, 0);
  }
}

TEST(ServeLoad, EachOfManyGetsTheAnswerThatHeGetsAlone) {
  NOT_ON_A_GPU("rows with the same bits in every batch");
  const char *given = std::getenv("TRANSFORMER_LOAD_SECONDS"), *model = std::getenv("TRANSFORMER_LOAD_MODEL");
  const double seconds = given != nullptr ? std::atof(given) : 0.5;
  const char* precision = std::getenv("TRANSFORMER_LOAD_PRECISION");
  const char* threads = std::getenv("TRANSFORMER_LOAD_THREADS");
  const ContextOptions context{
      .threads = threads != nullptr ? std::atoi(threads) : 0,
      .precision = precision != nullptr && std::string(precision) == "bfloat16" ? DType::bfloat16 : DType::float32};
  const ServedModels models;
  if (model != nullptr) {
    serve::Server server({.port = 0}, context);
    server.add_model("model", model);
    server.start();
    const auto kinds = httplib::Client("127.0.0.1", server.port()).Get("/v1/models");
    return check_load(server, kinds->body.find("another_text") != std::string::npos, seconds);
  }
  for (const bool translates : {false, true}) {
    serve::Server server({.port = 0}, context);
    server.add_model("model", translates ? models.mt.path() : models.gpt.path());
    server.start();
    check_load(server, translates, seconds);
  }
}

}  // namespace
}  // namespace transformer::test
