#include "measure.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string>
#include <system_error>

#include "transformer/core/error.h"

namespace transformer::bench {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double mean(const std::vector<double>& values) {
  return values.empty() ? 0.0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0.0 : values[values.size() / 2];
}

double resident_bytes() {
  std::ifstream in("/proc/self/statm");
  double pages = 0.0;
  in >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

void print_report(const nlohmann::json& report, const std::string& path) {
  std::printf("\n%s\n", report.dump().c_str());
  if (!path.empty()) std::ofstream(path) << report.dump(2) << '\n';
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "transformer-bench-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) fail("bench", "cannot make the folder {}: {}", name, std::strerror(errno));
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace transformer::bench
