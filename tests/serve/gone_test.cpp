// Clients that hang up while their work waits: it is not done for nobody.
#include <future>
#include <thread>

#include "serve/api.h"
#include "serve/serving.h"

namespace transformer::test {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

// Becomes true within a few seconds.
bool before_long(const auto& condition) {
  for (int i = 0; i < 200; ++i, std::this_thread::sleep_for(20ms))
    if (condition()) return true;
  return false;
}

// The server's parts, so that a model can be held up.
class ServeGone : public testing::Test {
 protected:
  ServeGone() {
    models_.push_back(host("cls", folders_.cls.path()));
    models_.push_back(host("series", golden_cases("patchtst").front()));
    for (const auto& m : models_) m->loaded();
    api_.emplace(options_, models_, nullptr);
    http_.emplace(serve::HttpLimits{});
    api_->add_routes(*http_);
    port_ = http_->bind("127.0.0.1", 0);
    http_->start();
  }
  serve::Engine& engine(const std::string& model) { return models_[model == "cls" ? 0 : 1]->engine(); }
  int port() const { return port_; }
  std::string metrics() const { return httplib::Client("127.0.0.1", port_).Get("/metrics")->body; }
  std::string count(const std::string& path, int status) const {
    return fmt::format("transformer_requests_total{{endpoint=\"{}\",status=\"{}\"}} 1\n", path, status);
  }

  // Work of the test's own on the engine's thread: it has begun when this is made, and ends when it is let go.
  class Hold {
   public:
    explicit Hold(serve::Engine& engine)
        : thread_([this, &engine] { engine.run([this](Context&) { begun_.set_value(), go_.get_future().wait(); }); }) {}
    void wait() { begun_.get_future().wait(); }
    void let_go() { go_.set_value(); }
    ~Hold() { thread_.join(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    std::promise<void> begun_, go_;
    std::thread thread_;
  };

 private:
  static std::unique_ptr<serve::HostedModel> host(const std::string& name, const std::filesystem::path& folder) {
    return std::make_unique<serve::HostedModel>(name, folder, ContextOptions{.device = Device::cpu(), .threads = 1}, serve::EngineLimits{});
  }
  ServedModels folders_;
  serve::ServerOptions options_;
  std::vector<std::unique_ptr<serve::HostedModel>> models_;
  std::optional<serve::Api> api_;
  std::optional<serve::HttpServer> http_;  // the last: its threads use the others
  int port_ = 0;
};

TEST_F(ServeGone, WorkThatWaitsForNobodyIsNotBegun) {
  json values = json::object();
  const json config = read_json(golden_cases("patchtst").front() / "config.json");
  for (int c = 0; c < config["num_input_channels"]; ++c)
    for (int t = 0; t < config["context_length"]; ++t) values[fmt::format("c{}", c)].push_back(t % 7);
  for (const auto& [path, model, body] : {std::tuple<std::string, std::string, json>{"/v1/embeddings", "cls", {{"input", "a"}}},
                                          {"/classify", "cls", {{"text", "a"}}},
                                          {"/explain", "cls", {{"text", "a"}, {"model", "cls"}}},
                                          {"/forecast", "series", {{"series", values}}}}) {
    Hold held(engine(model));
    held.wait();
    RawClient client(port());
    ASSERT_TRUE(client.send(request_text(path, body)));
    EXPECT_TRUE(before_long([&] { return engine(model).state().waiting == 1; })) << path;
    client.close();
    EXPECT_TRUE(before_long([&] { return engine(model).state().waiting == 0; })) << path;
    held.let_go();
    EXPECT_TRUE(before_long([&] { return metrics().find(count(path, 499)) != std::string::npos; })) << path;
  }
  EXPECT_NE(metrics().find("transformer_cancelled_total{model=\"cls\"} 3\n"), std::string::npos);
}

TEST_F(ServeGone, WorkInPartsEndsBetweenThem) {
  for (const auto& [path, field] : {std::pair{"/v1/embeddings", "input"}, {"/classify", "text"}}) {
    Hold held(engine("cls"));
    held.wait();
    RawClient client(port());
    ASSERT_TRUE(client.send(request_text(path, {{field, std::vector<std::string>(1000, std::string(60, 'a'))}})));
    EXPECT_TRUE(before_long([&] { return engine("cls").state().waiting == 1; }));
    Hold next(engine("cls"));  // behind the first part
    EXPECT_TRUE(before_long([&] { return engine("cls").state().waiting == 2; }));
    held.let_go();
    next.wait();
    EXPECT_TRUE(before_long([&] { return engine("cls").state().waiting == 1; })) << "another part waits";
    client.close();
    EXPECT_TRUE(before_long([&] { return engine("cls").state().waiting == 0; })) << path;
    next.let_go();
    EXPECT_TRUE(before_long([&] { return metrics().find(count(path, 499)) != std::string::npos; })) << path;
  }
}

// Parts change nothing of what is answered.
TEST_F(ServeGone, PartsAreOneAnswer) {
  httplib::Client client("127.0.0.1", port());
  client.set_read_timeout(30);
  const auto ask = [&](const std::string& path, const json& body) {
    return json::parse(client.Post(path, body.dump(), "application/json")->body);
  };
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 900; ++i) texts.push_back(std::string(1 + i % 59, static_cast<char>('a' + i % 26)));
  const json vectors = ask("/v1/embeddings", {{"input", texts}}), labels = ask("/classify", {{"text", texts}});
  ASSERT_EQ(vectors["data"].size(), texts.size());
  ASSERT_EQ(labels["results"].size(), texts.size());
  for (const std::size_t i : {0U, 401U, 899U}) {
    EXPECT_EQ(vectors["data"][i]["index"], i);
    EXPECT_EQ(vectors["data"][i]["embedding"], ask("/v1/embeddings", {{"input", texts[i]}})["data"][0]["embedding"]);
    EXPECT_EQ(labels["results"][i], ask("/classify", {{"text", texts[i]}})["results"][0]);
  }
}

}  // namespace
}  // namespace transformer::test
