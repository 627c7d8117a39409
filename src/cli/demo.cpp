// transformer demo: trains a small translator from nothing and shows what it can do.
#include <memory>

#include "cli/compute.h"
#include "cli/flags.h"
#include "cli/stop.h"
#include "cli/verbs.h"
#include "toys/shared/demo.h"
#include "transformer/core/fast_precision.h"

namespace transformer::cli {

void add_demo(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("demo", "learn to translate English into Korean in three minutes, without any data");
  auto options = std::make_shared<DemoOptions>();
  const bool low = fast_precision(Device::usual()) == DType::bfloat16;
  auto compute = std::make_shared<ComputeConfig>(ComputeConfig{.precision = low ? Precision::bfloat16 : Precision::float32});
  add_settings(*verb, *options, *compute);
  verb->callback([=] {
    Context ctx(compute->context(1));
    run_demo(ctx, *options, stop_on_signals());
  });
}

}  // namespace transformer::cli
