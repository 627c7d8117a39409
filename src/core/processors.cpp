#include "core/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "transformer/core/parallel.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<double> number(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text->c_str(), &end);
  if (end == text->c_str()) return std::nullopt;
  return value;
}

// Processors that one control group's folder allows: "MAX PERIOD" (version 2) or two files (version 1). Nothing: no limit.
std::optional<double> quota_of(const fs::path& folder) {
  if (const auto line = first_line(folder / "cpu.max")) {
    const std::size_t space = line->find(' ');
    const auto most = number(line), period = number(space == std::string::npos ? std::nullopt : std::optional(line->substr(space)));
    return most && period && *period > 0 ? std::optional(*most / *period) : std::nullopt;  // "max 100000": no number, no limit
  }
  const auto most = number(first_line(folder / "cpu.cfs_quota_us")), period = number(first_line(folder / "cpu.cfs_period_us"));
  return most && period && *most > 0 && *period > 0 ? std::optional(*most / *period) : std::nullopt;
}

// The smallest quota of this process's groups and of the groups above them. Inside a container the group is often the root.
double smallest_quota(const fs::path& root) {
  double smallest = HUGE_VAL;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/user.slice" or "4:cpu,cpuacct:/docker/1234"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool version2 = controllers.empty(), cpu = ("," + controllers + ",").find(",cpu,") != std::string::npos;
    if (!version2 && !cpu) continue;
    const fs::path group = fs::path(line.substr(second + 1)).relative_path();
    for (const fs::path& mount :
         {root / "sys/fs/cgroup", root / "sys/fs/cgroup/unified", root / "sys/fs/cgroup" / controllers, root / "sys/fs/cgroup/cpu"}) {
      fs::path at = group;
      while (true) {
        if (const auto quota = quota_of(mount / at)) smallest = std::min(smallest, *quota);
        if (at.empty()) break;
        at = at.parent_path();
      }
    }
  }
  return smallest;
}

std::vector<int> allowed_processors() {
  std::vector<int> allowed;
  for (int size = 1024; size <= 1 << 20; size *= 2) {  // larger machines need a larger set
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(size));
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(size));
    CPU_ZERO_S(bytes, set);
    const bool got = sched_getaffinity(0, bytes, set) == 0;
    for (int i = 0; got && i < size; ++i)
      if (CPU_ISSET_S(static_cast<std::size_t>(i), bytes, set)) allowed.push_back(i);
    CPU_FREE(set);
    if (got) break;
  }
  if (allowed.empty())
    for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) allowed.push_back(static_cast<int>(i));
  return allowed;
}

}  // namespace

int usable_processors(std::span<const int> allowed, const fs::path& root) {
  std::set<std::string> cores;  // by the list of a core's processors
  for (const int i : allowed) {
    const auto siblings = first_line(root / "sys/devices/system/cpu" / ("cpu" + std::to_string(i)) / "topology/thread_siblings_list");
    cores.insert(siblings.value_or("cpu" + std::to_string(i)));
  }
  const double most = std::min(static_cast<double>(cores.size()), std::ceil(smallest_quota(root)));
  return std::max(1, static_cast<int>(most));
}

int hardware_threads() {
  static const int threads = [] {
    if (const char* set = std::getenv("OMP_NUM_THREADS"); set != nullptr)
      if (const int given = std::atoi(set); given > 0) return given;
    return usable_processors(allowed_processors(), "/");
  }();
  return threads;
}

}  // namespace transformer
