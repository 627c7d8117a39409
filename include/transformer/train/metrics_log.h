#pragma once
// The numbers of a training run, in three files of one folder that any tool can read while the run goes on:
//
//   metrics.jsonl             one object per line: {"step":100,"epoch":1,"split":"train","seconds":12.5,"loss":4.2}
//   metrics.csv               step,epoch,split,seconds,loss,…   a name that comes later gets a column of its own
//   events.out.tfevents.*     for TensorBoard, under the tags "train/loss", "valid/bleu", …
//
//   MetricsLog log(folder);                    // a new run
//   MetricsLog log(folder, checkpoint.step);   // one that goes on from a checkpoint
//   log.add({.step = 100, .epoch = 1, .split = "train", .seconds = 12.5, .values = {{"loss", 4.2}, {"lr", 3e-4}}});

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace transformer {

struct MetricsRecord {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::string split = "train";  // what was measured: "train", "valid", …
  double seconds = 0.0;         // since the run began, as the caller counts it
  // Names of letters, digits and _ - . / only. A value that is not finite is null in JSON, "nan", "inf" or "-inf" in CSV
  // and itself in TensorBoard.
  std::vector<std::pair<std::string, double>> values;
};

class MetricsLog {
 public:
  static constexpr std::int64_t new_run = -1;

  // Opens the files in `folder`, which is made if it is not there. What a killed run has left about steps after
  // `resume_step` is dropped, and so is a line that is only half there; with new_run nothing is kept. TensorBoard gets a new
  // file that tells it to forget those steps too.
  explicit MetricsLog(const std::filesystem::path& folder, std::int64_t resume_step = new_run);
  ~MetricsLog();
  MetricsLog(MetricsLog&&) noexcept;
  MetricsLog& operator=(MetricsLog&&) noexcept;

  // Writes the record to all three files and hands it to the system before it returns: killing the process loses nothing.
  // Add the records of a step before saving its checkpoint; then the files of a resumed run have no gap. An Error names the
  // file that could not be written; the file then ends with the record before.
  void add(const MetricsRecord& record);

 private:
  struct Files;
  std::unique_ptr<Files> files_;
};

}  // namespace transformer
