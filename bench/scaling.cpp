// Each work with 1, 2, 4 … threads, beside PyTorch with the same numbers in the same run.
#include <cstdio>
#include <map>
#include <sstream>

#include "core/shared/pool.h"
#include "measure.h"
#include "peers.h"
#include "works.h"

namespace transformer::bench {
namespace {

using nlohmann::json;

std::vector<int> thread_counts(const ScalingOptions& o) {
  std::vector<int> counts;
  std::istringstream given(o.counts);
  for (int n = 0; given >> n;) counts.push_back(n);
  if (!given.eof()) fail("bench", "--counts: '{}' are not numbers of threads", o.counts);
  if (!counts.empty()) return counts;
  for (int n = 1; n < o.threads; n *= 2) counts.push_back(n);
  counts.push_back(o.threads);
  return counts;
}

// What the peer does in a second, by precision and number of threads.
std::map<std::pair<std::string, int>, double> peer_rates(const std::string& work, const std::vector<int>& counts,
                                                         const std::string& precisions, bool brief) {
  std::map<std::pair<std::string, int>, double> rates;
  if (!peers_enabled()) return rates;
  const WorkPeer peer = peer_of(work, brief);
  std::string threads;
  for (const int n : counts) threads += fmt::format(" {}", n);
  for (const json& line :
       run_peer(peer.script, fmt::format("{} --modes eager --dtypes {} --threads{}", peer.arguments, precisions, threads)))
    rates[{line.at("dtype"), line.at("threads")}] = line.at(peer.figure);
  return rates;
}

}  // namespace

void scaling_bench(const ScalingOptions& o) {
  const std::vector<int> counts = thread_counts(o);
  json report{{"build", TRANSFORMER_BUILD_TYPE}, {"rows", json::array()}};
  std::printf(
      "A step of each work; 'regions' are the parallel calls of a step, 'mean' the threads they were worth; memory is resident\n\n");
  std::printf("%-10s %-9s %7s %10s %9s %8s %8s %6s %8s %12s %8s\n", "work", "precision", "threads", "ms/step", "per s", "of one", "regions",
              "mean", "MB", "PyTorch/s", "faster");
  std::istringstream works(o.works);
  for (std::string work; works >> work;) {
    const auto theirs = peer_rates(work, counts, o.precisions, o.brief);
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      const std::string precision(name_of(dtype));
      if (o.precisions.find(precision) == std::string::npos) continue;
      double one = 0.0;
      for (const int threads : counts) {
        const auto made = make_work(work, dtype, threads);
        const double taken = step_seconds(*made, o.seconds), rate = made->per_step() / taken;
        if (threads == 1) one = taken;
        const ParallelStats before = parallel_stats();
        made->step();
        const ParallelStats after = parallel_stats();
        const auto regions = static_cast<double>(after.regions - before.regions);
        const double mean_threads = regions > 0 ? static_cast<double>(after.threads - before.threads) / regions : 1.0;
        const double resident = resident_bytes();
        std::printf("%-10s %-9s %7d %10.2f %9.0f %7.2fx %8.0f %6.1f %8.0f", work.c_str(), precision.c_str(), threads, 1e3 * taken, rate,
                    one / taken, regions, mean_threads, resident / 1e6);
        json row{{"work", work},  {"precision", precision}, {"threads", threads},   {"ms", 1e3 * taken},
                 {"per_s", rate}, {"regions", regions},     {"mean", mean_threads}, {"resident", resident}};
        if (const auto found = theirs.find({precision, threads}); found != theirs.end()) {
          std::printf(" %12.0f %7.2fx", found->second, rate / found->second);
          row["peer_per_s"] = found->second;
        }
        std::printf("\n");
        report["rows"].push_back(row);
      }
    }
  }
  print_peers_hint();
  print_report(report, o.json);
}

}  // namespace transformer::bench
