#include "task_data.h"
#include "train/language_text.h"

namespace transformer::bench {

std::unique_ptr<ModelTask> language_model(Context& ctx, const std::string& text, Padded& padded) {
  constexpr std::int64_t context = 64;
  auto task = std::make_unique<LanguageTask>(ctx, LanguageConfig{.text = {text}, .context = context, .batch_size = 12},
                                             LanguageModelConfig{.d_model = 128, .num_heads = 4, .num_layers = 4});
  padded = [&task = *task](std::int64_t i) {
    const Batch batch = task.prepare(i);
    const auto& windows = std::any_cast<const WindowBatch&>(batch.content);
    const std::vector<std::int64_t> ids(windows.ids.begin(), windows.ids.end()), targets(windows.targets.begin(), windows.targets.end());
    return HostTensors{{"input_ids", {{std::ssize(windows.lengths), context}, ids}}, {"targets", {{std::ssize(targets)}, targets}}};
  };
  return task;
}

}  // namespace transformer::bench
