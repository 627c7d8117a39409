#pragma once
// What the benchmarks share: a clock, the middle of several figures, a place for files.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace transformer::bench {

double seconds();  // a steady clock

double mean(const std::vector<double>& values);  // 0 of none
double median(std::vector<double> values);       // 0 of none

double resident_bytes();  // of memory that this process holds

// The figures of a benchmark: one line at the end of what it printed, and a file where `path` names one.
void print_report(const nlohmann::json& report, const std::string& path);

// A folder among the system's temporary ones, gone with this object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace transformer::bench
