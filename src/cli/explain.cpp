// transformer explain: a look inside a model. For models of images: which parts of an image the answer comes from.
#include <memory>

#include "cli/compute.h"
#include "cli/files.h"
#include "cli/flags.h"
#include "cli/verbs.h"
#include "io/shared/atomic_file.h"
#include "transformer/explain/rollout.h"
#include "transformer/predict/classifier.h"

namespace transformer::cli {
namespace {

struct ExplainConfig {
  std::string model = {}, adapter = {}, image = {}, out = {};

  static void visit(auto& self, auto&& field) {
    field("adapter", self.adapter, adapter_help);
    field("image", self.image, "a PNG or JPEG file, for models of images: attention roll-out");
    field("out", self.out, "where the picture is written: a name that ends in .svg or .png");
  }
};

void explain(const ExplainConfig& config, const ComputeConfig& compute) {
  if (config.model.empty()) throw CLI::RequiredError("MODEL");
  if (config.image.empty()) throw CLI::RequiredError("--image");
  if (!config.out.ends_with(".svg") && !config.out.ends_with(".png"))
    throw CLI::ValidationError("--out: expected a name that ends in .svg or .png");
  keep_apart({{"--image", config.image}}, {{"--out", config.out}});
  Context ctx(compute.context());
  const Image image = read_image(config.image);
  const Classifier classifier = Classifier::load(ctx, config.model, config.adapter);
  const Label label = classifier.images(ctx, std::span(&image, 1)).front().front();
  const Rollout rollout = image_rollout(ctx, classifier.model(), classifier.processor()(ctx, {image}));
  const Image seen = classifier.processor().shape(image);
  const std::string caption = fmt::format("{}, {:.3f}", label.name, label.score);
  AtomicFile file(config.out);
  file.write(config.out.ends_with(".svg") ? rollout_svg(seen, rollout, caption) : encode_png(rollout_picture(seen, rollout)));
  file.commit();
  fmt::print("{}\t{:.6f}\n", label.name, label.score);
}

}  // namespace

void add_explain(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("explain", "which parts of an image the answer of a classifier comes from, as a picture");
  auto config = std::make_shared<ExplainConfig>();
  auto compute = std::make_shared<ComputeConfig>();
  verb->add_option("MODEL", config->model, "a model's folder");
  add_settings(*verb, *config, *compute);
  verb->callback([=] { explain(*config, *compute); });
}

}  // namespace transformer::cli
