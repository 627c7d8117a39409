#include "cli/evaluate_images.h"

#include <CLI/CLI.hpp>
#include <numeric>

#include "cli/left_out.h"
#include "transformer/predict/classifier.h"
#include "transformer/train/image.h"

namespace transformer::cli {

void evaluate_images(const std::string& model, const std::string& adapter, const EvaluateImages& config, const ComputeConfig& compute) {
  if (model.empty()) throw CLI::RequiredError("MODEL");
  if (config.batch < 1) throw CLI::ValidationError("--image-batch: expected 1 or more");
  Context ctx(compute.context());
  const std::shared_ptr<const ImageDataset> data = open_images(config.source, config.split);
  if (data == nullptr)
    fail("evaluate", "there are no {} images: choose others with --image-split",
         transformer::detail::write_value(config.split, "image_split").get<std::string>());
  const Classifier classifier = Classifier::load(ctx, model, adapter);
  if (classifier.kind() != Classifier::Kind::images) fail(model, "it does not classify images");
  const ImageSet images(data, classifier.processor(),
                        {.skip_broken = config.skip_broken,
                         .threads = ctx.threads(),
                         .classes = classifier.names(),
                         .known_from = "the classes of the model"});
  tell_left_out({&images});
  std::vector<std::int64_t> all(static_cast<std::size_t>(images.size()));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  const ImageScores s = score_images(ctx, classifier.model(), classifier.processor(), images, all, config.batch);
  fmt::print("images {}, loss {:.4f}, accuracy {:.4f}", s.images, s.loss, s.accuracy);
  if (classifier.names().size() > 10) fmt::print(", top5 {:.4f}", s.top5);
  fmt::print("\n");
}

}  // namespace transformer::cli
