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
  // Slow under the sanitizers, where a long curve is read for the first time.
  httplib::Client client() const {
    httplib::Client client("127.0.0.1", server.port());
    client.set_read_timeout(60);
    return client;
  }
  static std::pair<int, json> read(const httplib::Result& answer) {
    if (!answer) return {0, httplib::to_string(answer.error())};
    return {answer->status, json::parse(answer->body)};
  }
  std::pair<int, json> get(const std::string& path) const { return read(client().Get(path)); }
  std::pair<int, json> ask(const json& body) const { return read(client().Post("/training/sample", body.dump(), "application/json")); }
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

// What a page shows of a long training: few points, and the same shape.
TEST(ServeTraining, LongCurvesAreThinned) {
  const TrainingFolder training;
  std::string text;
  constexpr int rows = 200000;
  for (int step = 1; step <= rows; ++step) {
    const double loss = step == 123457 ? 99.5 : step == 54321 ? -7.25 : 2.0 + step % 10 / 100.0;
    text += fmt::format("{{\"step\":{},\"epoch\":1,\"split\":\"train\",\"seconds\":{},\"loss\":{},\"lr\":{}}}\n", step, step * 0.1, loss,
                        step * 1e-9);
    if (step % 20000 == 0) text += fmt::format("{{\"step\":{},\"split\":\"valid\",\"loss\":{}}}\n", step, step / 1000);
  }
  training.log(text);
  const Watching watching(training);
  const auto curve = [](const json& answer, const std::string& split, const std::string& name) {
    std::vector<std::pair<std::int64_t, double>> points;
    for (const json& row : answer["records"])
      if (row["split"] == split && row.contains(name)) points.emplace_back(row["step"], row[name]);
    return points;
  };
  const auto [status, all] = watching.get("/training/metrics?from=0&points=500");
  ASSERT_EQ(status, 200) << all;
  EXPECT_EQ(all["rows"], rows + 10);
  EXPECT_EQ(all["next"], text.size());
  EXPECT_LT(all.dump().size(), text.size() / 100);
  const auto loss = curve(all, "train", "loss"), rate = curve(all, "train", "lr"), valid = curve(all, "valid", "loss");
  EXPECT_LE(loss.size(), 502U);
  EXPECT_GE(loss.size(), 250U);
  EXPECT_EQ(loss.front().first, 1);
  EXPECT_EQ(loss.back().first, rows);
  EXPECT_TRUE(std::is_sorted(loss.begin(), loss.end()));
  EXPECT_EQ(std::count(loss.begin(), loss.end(), std::pair<std::int64_t, double>(123457, 99.5)), 1);
  EXPECT_EQ(std::count(loss.begin(), loss.end(), std::pair<std::int64_t, double>(54321, -7.25)), 1);
  EXPECT_EQ(rate.back().second, rows * 1e-9);
  ASSERT_EQ(valid.size(), 10U);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(valid[i], std::pair(20000 * std::int64_t(i + 1), 20.0 * double(i + 1)));
  // What comes then, alone; and with all the rest for who comes later.
  const auto since = [&](const json& from) {
    return watching.get(fmt::format("/training/metrics?from={}&points=500", from.get<std::int64_t>())).second;
  };
  EXPECT_EQ(since(all["next"])["records"], json::array());
  training.log("{\"step\":200001,\"split\":\"train\",\"loss\":1.5}\n{\"step\":200002,\"sp");
  const json more = since(all["next"]);
  EXPECT_EQ(more["records"], json::parse(R"([{"step":200001,"split":"train","loss":1.5}])"));
  EXPECT_FALSE(more["restarted"]);
  EXPECT_EQ(curve(since(0), "train", "loss").back(), std::pair(std::int64_t{200001}, 1.5));
  EXPECT_EQ(watching.get("/training/metrics?from=0&points=0").first, 400);
  EXPECT_EQ(watching.get("/training/metrics?points=many").first, 400);
}

// A training that begins again in the same folder, or goes on from a checkpoint.
TEST(ServeTraining, AShorterFileIsNoticed) {
  const TrainingFolder training;
  const auto row = [](int step, double loss) { return fmt::format("{{\"step\":{},\"split\":\"train\",\"loss\":{}}}\n", step, loss); };
  training.log(row(1, 2.5) + row(2, 2.25) + row(3, 2.125));
  const Watching watching(training);
  const json first = watching.get("/training/metrics?from=0&points=100").second;
  ASSERT_EQ(first["rows"], 3);
  const std::string later = fmt::format("/training/metrics?from={}&points=100", first["next"].get<int>());
  fs::remove(training.path() / "metrics.jsonl");
  training.log(row(1, 7.5));
  for (const std::string& path : {later, std::string("/training/metrics?from=0&points=100")}) {
    const json again = watching.get(path).second;
    EXPECT_EQ(again["restarted"], path == later);
    EXPECT_EQ(again["records"], json::parse(R"([{"step":1,"split":"train","loss":7.5}])"));
  }
  // Longer than before already.
  training.log(row(20000, 6.5) + row(30000, 5.5) + row(400000, 4.5));
  const json longer = watching.get(later).second;
  EXPECT_TRUE(longer["restarted"]);
  EXPECT_EQ(longer["rows"], 4);
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
