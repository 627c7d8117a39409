#include "transformer/train/metrics_log.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "io/shared/read_file.h"
#include "support/temporary_folder.h"
#include "train/event_file.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Lines = std::vector<std::string>;

Lines lines_of(const fs::path& path) {
  Lines lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}
MetricsRecord loss_at(std::int64_t step, double loss) {
  return {.step = step, .epoch = 1, .split = "train", .seconds = 0.5, .values = {{"loss", loss}}};
}
std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// --- a reader of event files, by the published descriptions of TFRecord and protocol buffers ---

struct Field {
  std::uint64_t number = 0, integer = 0;  // an integer, or the bits of a float or double
  std::string bytes;
};

std::uint64_t take_bits(const std::string& data, std::size_t& at, std::size_t size) {
  std::uint64_t value = 0;
  EXPECT_LE(at + size, data.size());
  std::memcpy(&value, data.data() + at, std::min(size, data.size() - at));
  at += size;
  return value;
}

std::uint64_t take_varint(const std::string& data, std::size_t& at) {
  std::uint64_t value = 0;
  for (int shift = 0; at < data.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(data[at++]);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

std::vector<Field> fields_of(const std::string& message) {
  std::vector<Field> fields;
  for (std::size_t at = 0; at < message.size();) {
    const std::uint64_t key = take_varint(message, at);
    Field& field = fields.emplace_back(Field{.number = key >> 3, .integer = 0, .bytes = {}});
    switch (key & 7) {
      case 0: field.integer = take_varint(message, at); break;
      case 1: field.integer = take_bits(message, at, 8); break;
      case 5: field.integer = take_bits(message, at, 4); break;
      case 2: {
        const std::uint64_t size = take_varint(message, at);
        field.bytes = message.substr(at, size);
        at += size;
        break;
      }
      default: ADD_FAILURE() << "wire type " << (key & 7); return fields;
    }
  }
  return fields;
}

struct Event {
  double wall_time = 0.0;
  std::int64_t step = 0;
  std::string version;
  bool session_start = false;
  std::vector<std::pair<std::string, float>> values;
};

std::vector<Event> events_of(const fs::path& path) {
  const std::string data = read_file(path);
  const auto unmasked = [](std::uint64_t masked) { return std::rotl(static_cast<std::uint32_t>(masked) - 0xA282EAD8U, 15); };
  std::vector<Event> events;
  for (std::size_t at = 0; at < data.size();) {
    const std::string length_bytes = data.substr(at, 8);
    const std::uint64_t length = take_bits(data, at, 8);
    EXPECT_EQ(unmasked(take_bits(data, at, 4)), crc32c(length_bytes));
    if (at + length + 4 > data.size()) {
      ADD_FAILURE() << "cut short";
      break;
    }
    const std::string message = data.substr(at, length);
    at += length;
    EXPECT_EQ(unmasked(take_bits(data, at, 4)), crc32c(message));
    Event& event = events.emplace_back();
    for (const Field& field : fields_of(message)) {
      if (field.number == 1) event.wall_time = std::bit_cast<double>(field.integer);
      if (field.number == 2) event.step = static_cast<std::int64_t>(field.integer);
      if (field.number == 3) event.version = field.bytes;
      if (field.number == 7)
        for (const Field& status : fields_of(field.bytes)) event.session_start = status.number == 1 && status.integer == 1;
      if (field.number != 5) continue;
      for (const Field& value : fields_of(field.bytes)) {
        auto& [tag, number] = event.values.emplace_back();
        for (const Field& part : fields_of(value.bytes)) {
          if (part.number == 1) tag = part.bytes;
          if (part.number == 2) number = std::bit_cast<float>(static_cast<std::uint32_t>(part.integer));
        }
      }
    }
  }
  return events;
}

// --- the tests ---

TEST(MetricsLog, Crc32cHasThePublishedValues) {  // RFC 3720, B.4
  std::string rising(32, '\0'), falling(32, '\0');
  for (std::size_t i = 0; i < 32; ++i) rising[i] = static_cast<char>(i), falling[i] = static_cast<char>(31 - i);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(crc32c(rising), 0x46DD794EU);
  EXPECT_EQ(crc32c(falling), 0x113FDB5CU);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(MetricsLog, WritesThreeFilesAtOnce) {
  const test::TemporaryFolder folder;
  MetricsLog log(folder / "new" / "run");  // it is still open when the files are read
  log.add({.step = 100, .epoch = 1, .split = "train", .seconds = 12.5, .values = {{"loss", 4.25}, {"lr", 3e-4}}});
  log.add({.step = 200, .epoch = 2, .split = "valid", .seconds = 30, .values = {{"bleu", 0.1}, {"loss", 1.0 / 3}}});
  const fs::path run = folder / "new" / "run";
  EXPECT_EQ(lines_of(run / "metrics.jsonl"),
            (Lines{R"({"step":100,"epoch":1,"split":"train","seconds":12.5,"loss":4.25,"lr":0.0003})",
                   R"({"step":200,"epoch":2,"split":"valid","seconds":30.0,"bleu":0.1,"loss":0.3333333333333333})"}));
  EXPECT_EQ(lines_of(run / "metrics.csv"),
            (Lines{"step,epoch,split,seconds,loss,lr,bleu", "100,1,train,12.5,4.25,0.0003,", "200,2,valid,30,0.3333333333333333,,0.1"}));

  ASSERT_EQ(event_files(run).size(), 1u);
  const std::vector<Event> events = events_of(event_files(run)[0]);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_TRUE(events[1].session_start);
  EXPECT_EQ(events[1].step, 0);
  EXPECT_EQ(events[2].step, 100);
  EXPECT_EQ(events[2].values, (std::vector<std::pair<std::string, float>>{{"train/loss", 4.25F}, {"train/lr", 3e-4F}}));
  EXPECT_EQ(events[3].step, 200);
  EXPECT_EQ(events[3].values, (std::vector<std::pair<std::string, float>>{{"valid/bleu", 0.1F}, {"valid/loss", 1.0F / 3}}));
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  for (const Event& event : events) EXPECT_NEAR(event.wall_time, now, 60.0);
}

TEST(MetricsLog, LargeStepsAndLongTagsAreEncoded) {
  const test::TemporaryFolder folder;
  const std::int64_t step = 12'345'678'901;
  const std::string name(300, 'n');
  MetricsLog(folder.path()).add({.step = step, .epoch = 0, .split = "train", .seconds = 0, .values = {{name, -1.5}}});
  const std::vector<Event> events = events_of(event_files(folder.path()).at(0));
  EXPECT_EQ(events.at(2).step, step);
  EXPECT_EQ(events.at(2).values.at(0), std::pair("train/" + name, -1.5F));
  EXPECT_EQ(json::parse(lines_of(folder / "metrics.jsonl").at(0))["step"], step);
}

TEST(MetricsLog, ValuesThatAreNotFinite) {
  const test::TemporaryFolder folder;
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  MetricsLog(folder.path())
      .add({.step = 1, .epoch = 1, .split = "train", .seconds = 1, .values = {{"a", nan}, {"b", inf}, {"c", -inf}, {"d", -nan}}});
  EXPECT_EQ(lines_of(folder / "metrics.jsonl").at(0),
            R"({"step":1,"epoch":1,"split":"train","seconds":1.0,"a":null,"b":null,"c":null,"d":null})");
  EXPECT_EQ(lines_of(folder / "metrics.csv").at(1), "1,1,train,1,nan,inf,-inf,nan");
  const auto values = events_of(event_files(folder.path()).at(0)).at(2).values;
  EXPECT_TRUE(std::isnan(values.at(0).second));
  EXPECT_EQ(values.at(1).second, std::numeric_limits<float>::infinity());
  EXPECT_EQ(values.at(2).second, -std::numeric_limits<float>::infinity());
}

// Interrupted at any place and resumed, the text files are those of a run that was never stopped.
TEST(MetricsLog, ResumedFilesEqualUninterrupted) {
  const auto record = [](std::int64_t step) {
    MetricsRecord r = loss_at(step, 1.0 / static_cast<double>(step));
    if (step % 3 == 0) r.split = "valid", r.values.emplace_back("bleu", static_cast<double>(step));
    return r;
  };
  const test::TemporaryFolder whole;
  {
    MetricsLog log(whole.path());
    for (std::int64_t step = 1; step <= 8; ++step) log.add(record(step));
  }
  for (std::int64_t checkpoint = 0; checkpoint <= 7; ++checkpoint) {
    const test::TemporaryFolder folder;
    {
      MetricsLog log(folder.path());
      for (std::int64_t step = 1; step <= 7; ++step) log.add(record(step));
    }
    for (const char* name : {"metrics.jsonl", "metrics.csv"})  // killed in the middle of a line
      std::ofstream(folder / name, std::ios::app) << read_file(whole / name).substr(0, 11 + static_cast<std::size_t>(checkpoint));
    MetricsLog log(folder.path(), checkpoint);
    for (std::int64_t step = checkpoint + 1; step <= 8; ++step) log.add(record(step));
    EXPECT_EQ(read_file(folder / "metrics.jsonl"), read_file(whole / "metrics.jsonl")) << checkpoint;
    EXPECT_EQ(lines_of(folder / "metrics.csv"), lines_of(whole / "metrics.csv")) << checkpoint;

    // What TensorBoard has after it has forgotten what each start of a session tells it to.
    const std::vector<fs::path> files = event_files(folder.path());
    ASSERT_EQ(files.size(), 2u) << "a file of its own, even in the same second";
    std::map<std::int64_t, int> seen;
    for (const fs::path& file : files)
      for (const Event& event : events_of(file)) {
        if (event.session_start) seen.erase(seen.lower_bound(event.step), seen.end());
        if (!event.values.empty()) ++seen[event.step];
      }
    EXPECT_EQ(seen, (std::map<std::int64_t, int>{{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 1}, {8, 1}})) << checkpoint;
  }
}

TEST(MetricsLog, ANewRunKeepsNothing) {
  const test::TemporaryFolder folder;
  MetricsLog(folder.path()).add(loss_at(0, 1.0));
  MetricsLog(folder.path()).add({.step = 0, .epoch = 0, .split = "valid", .seconds = 0, .values = {{"bleu", 2.0}}});
  EXPECT_EQ(lines_of(folder / "metrics.jsonl").size(), 1u);
  EXPECT_EQ(lines_of(folder / "metrics.csv"), (Lines{"step,epoch,split,seconds,bleu", "0,0,valid,0,2"}));
  EXPECT_EQ(events_of(event_files(folder.path()).at(1)).at(1).step, 0);
}

// Files of these names that are of no training are somebody's.
TEST(MetricsLog, OthersFilesAreKept) {
  for (const auto& [name, text] : {std::pair{"metrics.csv", "date,weather\n1,rain\n"},
                                   {"metrics.jsonl", "{\"text\":\"a\"}\n"},
                                   {"metrics.jsonl", "mine"},
                                   {"metrics.csv", "x"}})
    for (const std::int64_t step : {-1, 5}) {
      const test::TemporaryFolder folder;
      std::ofstream(folder / name) << text;
      EXPECT_THROW(MetricsLog(folder.path(), step), Error);
      EXPECT_EQ(read_file(folder / name), text);
    }
}

TEST(MetricsLog, GoesOnWhereTheFirstLineWasBeingWritten) {
  for (const char* text : {"{", "{\"step\":1,\"ep"}) {
    const test::TemporaryFolder folder;
    std::ofstream(folder / "metrics.jsonl") << text;
    MetricsLog(folder.path(), 5).add(loss_at(6, 0.5));
    EXPECT_EQ(lines_of(folder / "metrics.jsonl").size(), 1U);
  }
}

TEST(MetricsLog, ResumesWhereFilesAreMissingOrForeign) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "metrics.jsonl") << "{\"step\":1}\nnot json\n[1]\n{\"step\":\"2\"}\n{\"step\":9}\n{\"step\":2}\n";
  MetricsLog(folder.path(), 5).add(loss_at(6, 0.5));
  EXPECT_EQ(lines_of(folder / "metrics.csv"), (Lines{"step,epoch,split,seconds,loss", "6,1,train,0.5,0.5"}));
  EXPECT_EQ(lines_of(folder / "metrics.jsonl"),
            (Lines{"{\"step\":1}", "{\"step\":2}", R"({"step":6,"epoch":1,"split":"train","seconds":0.5,"loss":0.5})"}));
}

TEST(MetricsLog, RefusesNamesThatBreakAFile) {
  const test::TemporaryFolder folder;
  MetricsLog log(folder.path());
  for (const char* name : {"", "a,b", "a\nb", "a\"b", "step", "seconds", "a b", "학교"}) {
    MetricsRecord record = loss_at(1, 1.0);
    record.values.emplace_back(name, 1.0);
    EXPECT_THROW(log.add(record), Error) << name;
  }
  MetricsRecord twice = loss_at(1, 1.0);
  twice.values.emplace_back("loss", 2.0);
  EXPECT_THROW(log.add(twice), Error);
  MetricsRecord split = loss_at(1, 1.0);
  split.split = "a,b";
  EXPECT_THROW(log.add(split), Error);
  EXPECT_TRUE(lines_of(folder / "metrics.jsonl").empty()) << "what is refused is in no file";
}

// The system refuses to let files grow, as a full disk does.
TEST(MetricsLog, AFullDiskIsAnErrorAndLeavesWholeRecords) {
  const test::TemporaryFolder folder;
  MetricsLog log(folder.path());
  log.add(loss_at(1, 1.0));
  const std::string before = read_file(folder / "metrics.jsonl");

  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  rlimit small = limit;
  small.rlim_cur = before.size() + 20;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string what, where;
  try {
    log.add(loss_at(2, 1.0));
  } catch (const Error& e) {
    what = e.what(), where = e.where();
  }
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, handler);

  EXPECT_EQ(where, (folder / "metrics.jsonl").string());
  EXPECT_NE(what.find("cannot write: "), std::string::npos) << what;
  EXPECT_EQ(read_file(folder / "metrics.jsonl"), before);
  log.add(loss_at(2, 1.0));
  EXPECT_EQ(lines_of(folder / "metrics.jsonl").size(), 2u);
  EXPECT_EQ(lines_of(folder / "metrics.csv").size(), 3u);
}

TEST(MetricsLog, AFolderThatCannotBeIsAnError) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THROW(MetricsLog(folder / "file"), Error);
  EXPECT_THROW(MetricsLog(folder / "file" / "run"), Error);
  fs::create_directory(folder / "metrics.jsonl");
  EXPECT_THROW(MetricsLog(folder.path()), Error);
}

TEST(MetricsLog, KillLosesNothingThatWasAdded) {
  const test::TemporaryFolder folder;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {  // tells each step after it was added, until it is killed
    MetricsLog log(folder.path());
    for (std::int64_t step = 1;; ++step) {
      log.add(loss_at(step, 1.0));
      if (write(ends[1], &step, sizeof(step)) != sizeof(step)) _exit(1);
    }
  }
  close(ends[1]);
  std::int64_t added = 0, step = 0;
  while (added < 200 && read(ends[0], &step, sizeof(step)) == sizeof(step)) added = step;
  kill(child, SIGKILL);
  while (read(ends[0], &step, sizeof(step)) == sizeof(step)) added = step;
  close(ends[0]);
  waitpid(child, nullptr, 0);
  ASSERT_GE(added, 200);

  const auto in_events = [&] {
    std::set<std::int64_t> steps;
    for (const Event& event : events_of(event_files(folder.path()).at(0)))
      if (!event.values.empty()) steps.insert(event.step);
    return static_cast<std::int64_t>(steps.size());
  };
  EXPECT_GE(in_events(), added);
  MetricsLog log(folder.path(), added);
  EXPECT_EQ(static_cast<std::int64_t>(lines_of(folder / "metrics.jsonl").size()), added);
  EXPECT_EQ(static_cast<std::int64_t>(lines_of(folder / "metrics.csv").size()), added + 1);
}

}  // namespace
}  // namespace transformer
