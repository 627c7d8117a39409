// A training that is watched: its numbers, and what its newest checkpoint says.
#include <fstream>

#include "serve/serving.h"
#include "support/temporary_folder.h"
#include "transformer/predict/generator.h"

namespace transformer::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A folder as a training writes it: each checkpoint is a model's folder with trainer.json.
struct TrainingFolder {
  TemporaryFolder folder;
  ServedModels models;

  fs::path path() const { return folder / "run"; }
  fs::path checkpoint(int step) const { return path() / "checkpoints" / fmt::format("step-{:08}", step); }
  void save(int step, const fs::path& model) const {
    fs::create_directories(checkpoint(step).parent_path());
    fs::copy(model, folder / "draft", fs::copy_options::recursive);
    write_json(folder / "draft" / "trainer.json", json::object());
    fs::rename(folder / "draft", checkpoint(step));
  }
  void log(const std::string& text) const {
    fs::create_directories(path());
    std::ofstream(path() / "metrics.jsonl", std::ios::app) << text;
  }
};

struct Watching {
  serve::Server server{{.port = 0}, {.threads = 1}};
  explicit Watching(const TrainingFolder& training) {
    server.add_training(training.path());
    server.start();
  }
  std::pair<int, json> get(const std::string& path) const {
    const auto answer = httplib::Client("127.0.0.1", server.port()).Get(path);
    return {answer->status, json::parse(answer->body)};
  }
  std::pair<int, json> ask(const json& body) const {
    httplib::Client client("127.0.0.1", server.port());
    client.set_read_timeout(60);
    const auto answer = client.Post("/training/sample", body.dump(), "application/json");
    return {answer->status, json::parse(answer->body)};
  }
};

TEST(ServeTraining, GivesLinesAsTheyAreWritten) {
  const TrainingFolder training;
  training.log("{\"step\":1,\"loss\":2.5}\n{\"step\":2,\"lo");
  const Watching watching(training);
  const auto [status, first] = watching.get("/training/metrics");
  ASSERT_EQ(status, 200) << first;
  EXPECT_EQ(first["records"], json::parse(R"([{"step":1,"loss":2.5}])"));
  EXPECT_TRUE(first["checkpoint"].is_null());
  training.log("ss\":2.25}\n");
  const json second = watching.get(fmt::format("/training/metrics?from={}", first["next"].get<int>())).second;
  EXPECT_EQ(second["records"], json::parse(R"([{"step":2,"loss":2.25}])"));
  EXPECT_EQ(watching.get("/training/metrics?from=x").first, 400);
}

TEST(ServeTraining, TheNewestCheckpointSpeaks) {
  const TrainingFolder training;
  fs::create_directories(training.path());
  const Watching watching(training);
  EXPECT_EQ(watching.ask({{"text", "a"}}).first, 404) << "no checkpoint yet";
  EXPECT_EQ(watching.ask(json::object()).first, 400);
  EXPECT_EQ(watching.ask({{"text", "a"}, {"max_tokens", 0}}).first, 400);

  training.save(10, training.models.gpt.path());
  const auto [status, first] = watching.ask({{"text", "a short one"}, {"max_tokens", 6}});
  ASSERT_EQ(status, 200) << first;
  EXPECT_EQ(first["step"], 10);
  EXPECT_EQ(first["text"], "a short one");
  Context ctx({.threads = 1});
  const Generator generator = Generator::load(ctx, training.models.gpt.path());
  EXPECT_EQ(first["said"], generator.generate(ctx, "a short one", {.max_new_tokens = 6, .temperature = 0.0}));
  EXPECT_EQ(watching.get("/training/metrics").second["checkpoint"], 10);

  // The training goes on, and removes what is old.
  training.save(20, training.models.mt.path());
  fs::remove_all(training.checkpoint(10));
  const auto [again, second] = watching.ask({{"text", "a short one"}});
  ASSERT_EQ(again, 200) << second;
  EXPECT_EQ(second["step"], 20);

  training.save(30, training.models.cls.path());
  EXPECT_EQ(watching.ask({{"text", "a short one"}}).second["step"], 30);

  // A model that reads no text says what it is for.
  training.save(40, golden_cases("patchtst").front());
  const auto [refused, why] = watching.ask({{"text", "a short one"}});
  EXPECT_EQ(refused, 400);
  EXPECT_NE(why["error"]["message"].get<std::string>().find("forecast"), std::string::npos) << why;
}

}  // namespace
}  // namespace transformer::test
