// Where the time of a step goes, kernel by kernel.
#include "backend/profiled/profile.h"

#include <cstdio>

#include "measure.h"
#include "works.h"

namespace transformer::bench {

void profile_bench(const ProfileOptions& o) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    if (o.precisions.find(name_of(dtype)) == std::string::npos) continue;
    const auto bare = make_work(o.work, dtype, o.threads);
    const double untimed = step_seconds(*bare, 0.3);
    profile_kernels(true);
    const auto work = make_work(o.work, dtype, o.threads);
    profile_kernels(false);
    for (int i = 0; i < 2; ++i) work->step();
    take_profile();
    const double begin = seconds();
    for (int i = 0; i < o.steps; ++i) work->step();
    const double steps = o.steps, step = (seconds() - begin) / steps;
    std::printf("%s, %s, %d threads: %.3f ms a step, %.3f while timed\n", o.work.c_str(), std::string(name_of(dtype)).c_str(), o.threads,
                1e3 * untimed, 1e3 * step);
    std::printf("%-36s %7s %10s %7s %9s %10s %8s %8s\n", "kernel", "calls", "ms/step", "share", "us/call", "GFLOP/s", "GB/s", "threads");
    double inside = 0.0;
    int row = 0;
    for (const KernelProfile& p : take_profile()) {
      inside += p.seconds / steps;
      if (++row > o.rows) continue;
      std::printf("%-36s %7.0f %10.3f %6.1f%% %9.1f %10.0f %8.1f %8.1f\n", p.kernel.c_str(), static_cast<double>(p.calls) / steps,
                  1e3 * p.seconds / steps, 100 * p.seconds / steps / step, 1e6 * p.seconds / static_cast<double>(p.calls),
                  p.flops / p.seconds / 1e9, p.bytes / p.seconds / 1e9,
                  p.regions == 0 ? 1.0 : static_cast<double>(p.threads) / static_cast<double>(p.regions));
    }
    std::printf("%-36s %7s %10.3f %6.1f%%\n\n", "between kernels", "", 1e3 * (step - inside), 100 * (1 - inside / step));
  }
}

}  // namespace transformer::bench
