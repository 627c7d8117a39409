// transformer train image: a classifier of images.
#include <memory>

#include "cli/left_out.h"
#include "cli/train.h"
#include "cli/train_batch.h"
#include "transformer/train/image.h"

namespace transformer::cli {
namespace {

struct TrainImage {
  static constexpr BatchSetting batches{ImageConfig::usual_batch_size, "/images/batch_size", "images", "--batch-size"};

  ImageFineTuning start;
  ImageSettings settings;
  ImageModelConfig model;
  // What ViTs are trained with.
  TrainConfig training{.lr = 1e-3F,
                       .lr_scheduler = Schedule::Kind::cosine,
                       .usual_warmup = 100,
                       .adam_beta2 = 0.999F,
                       .adam_eps = 1e-8F,
                       .weight_decay = 0.05F,
                       .best_metric = "accuracy"};
  ComputeConfig compute;
  SeedConfig seed;

  // With --from: what the user has set of the model, and nothing that would make another one of the folder's.
  ImageFineTuning fine_tuning(const CLI::App& verb) const {
    ImageFineTuning out = start;
    std::vector<std::string> given = fields_given(verb, model);
    take(given, "dropout", model.dropout, out.dropout);
    take(given, "attention_dropout", model.attention_dropout, out.attention_dropout);
    take(given, "stochastic_depth", model.stochastic_depth, out.stochastic_depth);
    refuse_with_from(verb, start.from, given);
    return out;
  }

  void run(const CLI::App& verb) {
    const ImageFineTuning further = start.from.empty() ? start : fine_tuning(verb);
    check_lora(start.from, start.lora);
    check(training, first_process());
    settings.images.batch_size = batches.of(settings.images.batch_size, training);
    Context ctx(context_of(compute, seed));
    auto task = start.from.empty() ? std::make_unique<ImageTask>(ctx, settings, model, latest_checkpoint(training.save_dir))
                                   : std::make_unique<ImageTask>(ctx, settings, further);
    fmt::print(stderr, "images: {} for training, {} for validation, {} for the test; {} classes\n", task->training_images(),
               task->validation_images(), task->test_images(), task->classes().size());
    tell_left_out(task->sets());
    fmt::print(stderr, "model: {}, {}{}\n", task->size(), model_type_of(task->model().config()),
               start.from.empty() ? "" : ", from " + start.from);
    batches.say(settings.images.batch_size, *task);
    train(ctx, *task, training, start.lora, [&] {
      if (task->test_images() == 0) return;
      test(ctx, *task, training.save_dir);
      if (training.average > 0) test(ctx, *task, training.save_dir + "/average");
    });
  }

  static void test(Context& ctx, ImageTask& task, const std::string& folder) {
    if (!std::filesystem::exists(std::filesystem::path(folder) / "config.json")) return;
    task.load(ctx, folder);
    fmt::print(stderr, "test images: {} ({})\n", describe(task.test(ctx)), folder);
  }
};

}  // namespace

void add_train_image(CLI::App& verb) {
  CLI::App* image = verb.add_subcommand(
      "image", "a classifier of images, from folders by class, IDX or CIFAR files; with --from, a ready one further");
  auto settings = std::make_shared<TrainImage>();
  settings->settings.images.batch_size = 0;  // as suits the data
  add_settings(*image, settings->start, settings->settings.source, settings->settings.images, settings->settings.augmentation,
               settings->model, settings->training, settings->compute, settings->seed);
  image->callback([settings, image] { settings->run(*image); });
}

}  // namespace transformer::cli
