#include "works.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base_step.h"
#include "decode.h"
#include "measure.h"
#include "task_step.h"
#include "transformer/core/parallel.h"
#include "transformer/models/model.h"
#include "transformer/models/text.h"
#include "translate_step.h"

namespace transformer::bench {
namespace {

class BaseWork final : public Work {
 public:
  BaseWork(DType precision, int threads) : step_(precision, threads) {}
  void step() override { step_.run(); }
  double per_step() const override { return static_cast<double>(step_.source_tokens() + step_.target_tokens()); }

 private:
  BaseStep step_;
};

// What all measurements of one program share: data that are made once.
const std::filesystem::path& shared_folder() {
  static const TemporaryFolder folder;
  return folder.path();
}

std::string data_of(const std::string& task) {
  const TaskKind& kind = kind_of(task);
  const std::filesystem::path folder = shared_folder() / task, path = folder / kind.data;
  if (std::filesystem::create_directories(folder)) kind.make_data(path);
  return path;
}

constexpr std::int64_t task_batches = 16;

class TaskWork final : public Work {
 public:
  TaskWork(const std::string& task, DType precision, int threads)
      : task_({.task = task, .threads = threads}, data_of(task), precision), step_(task_.ctx, *task_.task, {}) {
    for (std::int64_t i = 0; i < std::min(task_.batches, task_batches); ++i) batches_.push_back(task_.task->prepare(i));
  }
  void step() override { step_.run(batches_[next_++ % batches_.size()], 1e-3F); }
  double per_step() const override { return static_cast<double>(batches_.front().tokens); }

 private:
  BenchTask task_;
  TaskStep step_;
  std::vector<Batch> batches_;
  std::size_t next_ = 0;
};

TranslateOptions translate_options(int threads) { return {.batches = 6, .threads = threads}; }
const TranslateData& translate_data() {
  static const TranslateData data = make_data(translate_options(hardware_threads()));
  return data;
}

class TranslateWork final : public Work {
 public:
  TranslateWork(DType precision, int threads) : step_(translate_options(threads), translate_data(), precision) {}
  void step() override {  // all batches: they differ in size
    for (std::size_t i = 0; i < translate_data().batches.size(); ++i) step_.run(i);
  }
  double per_step() const override { return static_cast<double>(translate_data().tokens); }

 private:
  TranslateStep step_;
};

// GPT-2 in its smallest size with random weights, the same for all numbers of threads.
const TextModel& shared_gpt2(DType precision) {
  static std::map<DType, std::unique_ptr<Model>> models;
  std::unique_ptr<Model>& model = models[precision];
  if (!model) {
    Context ctx({.precision = precision});
    model = make_model(gpt2_settings(precision));
    initialize(ctx, model->parameters());
    if (precision != DType::float32)
      for (const NamedParameter& p : model->parameters()) p.parameter->tensor = cast(ctx, p.parameter->tensor.detach(), precision);
  }
  return dynamic_cast<const TextModel&>(*model);
}

Tensor made_tokens(Context& ctx, std::int64_t count) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 7919 % 50000);
  return Tensor::from(ctx, {count}, ids);
}

class PrefillWork final : public Work {
 public:
  PrefillWork(DType precision, int threads) : ctx_({.threads = threads, .precision = precision}), model_(shared_gpt2(precision)) {}
  void step() override {
    const NoGradients no_gradients(ctx_);
    KVCache cache(1);
    const Tensor hidden = model_.hidden(ctx_,
                                        {.ids = made_tokens(ctx_, prompt), .sequences = Sequences::uniform(1, prompt), .cache = &cache});
    model_.logits(ctx_, hidden.row_block(prompt - 1, 1));
  }
  double per_step() const override { return prompt; }

 private:
  static constexpr std::int64_t prompt = 512;
  Context ctx_;
  const TextModel& model_;
};

// A token of each of some sequences, of 64 at most: what is measured is the weights, not the attention.
class DecodeWork final : public Work {
 public:
  DecodeWork(std::int64_t sequences, DType precision, int threads)
      : ctx_({.threads = threads, .precision = precision}), model_(shared_gpt2(precision)), sequences_(sequences) {}
  void step() override {
    const NoGradients no_gradients(ctx_);
    if (length_++ % 64 == 0) cache_ = std::make_unique<KVCache>(sequences_);
    const Tensor hidden = model_.hidden(
        ctx_, {.ids = made_tokens(ctx_, sequences_), .sequences = Sequences::uniform(sequences_, 1), .cache = cache_.get()});
    model_.logits(ctx_, hidden);
  }
  double per_step() const override { return static_cast<double>(sequences_); }

 private:
  Context ctx_;
  const TextModel& model_;
  std::int64_t sequences_, length_ = 0;
  std::unique_ptr<KVCache> cache_;
};

constexpr const char* names[] = {"base", "lm", "mlm", "classify", "image", "forecast", "translate", "prefill", "decode", "decode16"};

}  // namespace

std::unique_ptr<Work> make_work(const std::string& name, DType precision, int threads) {
  if (name == "base") return std::make_unique<BaseWork>(precision, threads);
  if (name == "translate") return std::make_unique<TranslateWork>(precision, threads);
  if (name == "prefill") return std::make_unique<PrefillWork>(precision, threads);
  if (name == "decode") return std::make_unique<DecodeWork>(1, precision, threads);
  if (name == "decode16") return std::make_unique<DecodeWork>(16, precision, threads);
  if (std::find(std::begin(names), std::end(names), name) != std::end(names)) return std::make_unique<TaskWork>(name, precision, threads);
  fail("bench", "'{}' is unknown: expected {}", name, fmt::join(names, ", "));
}

WorkPeer peer_of(const std::string& name, bool brief) {
  const std::string rounds = brief ? " --rounds 1" : "";
  if (name == "base") return {"torch_base_step.py", brief ? "--warmup 2 --steps 5" : "", "tokens_per_s"};
  if (name == "prefill") return {"torch_decode.py", "--prompt 512", "tokens_per_s"};
  if (name == "decode") return {"torch_decode.py", "--sequences 1", "tokens_per_s"};
  if (name == "decode16") return {"torch_decode.py", "--sequences 16", "tokens_per_s"};
  const std::filesystem::path folder = shared_folder() / (name + "_peer");
  std::filesystem::create_directories(folder);
  if (name == "translate") {
    const std::string path = folder / "batches.jsonl";
    write_batches(translate_data(), path);
    return {"torch_translate.py", peer_arguments(translate_options(1), translate_data(), path) + rounds, "tokens_per_s"};
  }
  const TaskOptions options{.task = name, .updates = brief ? task_batches / 2 : task_batches};
  return {"torch_task.py", peer_arguments(options, data_of(name), folder) + rounds, "per_s"};
}

double step_seconds(Work& work, double at_least) {
  work.step();
  std::vector<double> times;
  for (const double begin = seconds(); times.size() < 3 || seconds() - begin < at_least;) {
    const double before = seconds();
    work.step();
    times.push_back(seconds() - before);
  }
  return median(times);
}

}  // namespace transformer::bench
