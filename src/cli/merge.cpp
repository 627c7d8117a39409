// transformer merge: a model and its adapter as one plain model.
#include <memory>

#include "cli/compute.h"
#include "cli/flags.h"
#include "cli/verbs.h"
#include "train/shared/starting_folder.h"

namespace transformer::cli {
namespace {

struct MergeConfig {
  std::string model = {}, adapter = {}, out = {};
  int threads = 0;

  static void visit(auto& self, auto&& field) {
    field("adapter", self.adapter, adapter_help);
    field("out", self.out, "a new folder for the merged model, which opens as any other");
    field("threads", self.threads, "threads to compute with (0: all that the machine offers)");
  }
};

void merge(const MergeConfig& config) {
  if (config.model.empty()) throw CLI::RequiredError("MODEL");
  if (config.out.empty()) throw CLI::RequiredError("--out");
  const ModelFolder at = model_folder(config.model, config.adapter);
  if (at.adapter.empty()) throw CLI::ValidationError("there is nothing to merge: give --adapter, or an adapter's folder as MODEL");
  if (std::filesystem::exists(config.out)) fail(config.out, "exists already: choose another folder, so that nothing is lost");
  Context ctx({.threads = config.threads});
  write_merged(ctx, at, config.out);
}

}  // namespace

void add_merge(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("merge", "a model and its adapter (LoRA) as one plain model");
  auto config = std::make_shared<MergeConfig>();
  verb->add_option("MODEL", config->model, "the base model's folder, or an adapter's that names it");
  add_settings(*verb, *config);
  verb->callback([=] { merge(*config); });
}

}  // namespace transformer::cli
