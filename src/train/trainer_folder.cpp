// The folder of a training: its checkpoints, the best model, the average, and how a run goes on from there.
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "io/shared/atomic_file.h"
#include "io/shared/read_file.h"
#include "train/trainer_state.h"
#include "transformer/core/setting_error.h"
#include "transformer/io/safetensors.h"
#include "transformer/ops/copy.h"

namespace transformer {

namespace fs = std::filesystem;
using nlohmann::json;

std::optional<fs::path> latest_checkpoint(const fs::path& folder) {
  const Checkpoints checkpoints(folder);
  const auto step = checkpoints.latest();
  return step ? std::optional(checkpoints.at(*step)) : std::nullopt;
}

// The first process writes the model; of layers in pieces the others give it theirs, and go on when it has all.
void Trainer::State::save_model(const fs::path& at) {
  if (processes.first()) task.save(at);
  if (adam.pieces() != nullptr) processes.barrier();
}

void Trainer::State::save_best() {
  if (!processes.first() && adam.pieces() == nullptr) return;
  if (ema.empty()) save_model(folder);
  else with_weights(ctx, averaged, ema.weights, [&] { save_model(folder); });
}

// The optimizer's state and the average; what belongs to layers in pieces is put together when it is written.
std::vector<TensorToSave> Trainer::State::optimizer_tensors(const std::vector<Adam::State>& states) const {
  std::vector<TensorToSave> out;
  const auto add = [&](const std::string& name, const Tensor& leaf, LayerPieces::Block block, const Tensor& whole) {
    out.push_back({name, leaf.shape(), leaf.dtype(),
                   [this, leaf, block, whole] { return whole.defined() ? whole : adam.pieces()->whole(ctx, leaf, block); }});
  };
  for (const Adam::State& state : states) {  // not one a parameter: tied ones have one
    add("m." + state.parameter.name, state.parameter.tensor, LayerPieces::m, state.m);
    add("v." + state.parameter.name, state.parameter.tensor, LayerPieces::v, state.v);
  }
  if (ema.empty()) return out;
  auto average = ema.weights.begin();
  for (const NamedParameter& p : all_weights())
    add("ema." + p.name, p.parameter->tensor, LayerPieces::average, in_pieces(p) ? Tensor() : *average++);
  return out;
}

void Trainer::State::begin_average() {
  ema = Average(ctx, averaged, adam.arena());
  if (adam.pieces() != nullptr) adam.pieces()->set_average(ema.weights.back());
}

SavedRun Trainer::State::saved_run() const {
  SavedRun run{.position = *this, .identity = identity(), .settings = settings()};
  run.position.adam_steps = adam.steps();
  run.position.seconds = seconds();
  return run;
}

void Trainer::State::save() {
  if (saved_at == step) return;
  const std::vector<Adam::State> states = adam.whole_state(ctx);
  if (processes.first())
    checkpoints.write(step, [&](const fs::path& at) {
      task.save(at);
      write_safetensors(at / "optimizer.safetensors", optimizer_tensors(states));
      write_run(at / "trainer.json", saved_run());
    });
  if (adam.pieces() != nullptr) processes.barrier();  // it has read what the others keep
  saved_at = step;
  if (best_step == step) save_best();  // after the checkpoint that says so: a resumed run repeats this, it cannot miss it
  keep_checkpoints();
}

void Trainer::State::keep_checkpoints() const {
  if (processes.first()) checkpoints.keep_last(std::max(config.keep_last, config.average));
}

json Trainer::State::identity() const {
  json out = task.identity();
  out["training"] = {{"seed", ctx.random().seed()}, {"update_freq", config.update_freq}};
  return out;
}

json Trainer::State::settings() const {
  json out = to_json(config);
  for (const char* free : {"save_dir", "quiet", "max_epoch", "max_update", "log_interval", "batch_parts"}) out.erase(free);
  out["precision"] = name_of(ctx.precision());
  out["threads"] = ctx.threads();
  if (parts != 1) out["batch_parts"] = parts;
  if (processes.size() != 1) out["processes"] = processes.size();
  return out;
}

// All are the same program with the same data and settings, and see the same folder; what the first writes, all may read.
void Trainer::State::join() {
  if (processes.alone()) return;
  json mine{{"program", program_fingerprint()}, {"identity", identity()}, {"evaluation", task.evaluation()}, {"settings", settings()}};
  mine["settings"].erase("threads");
  mine["settings"]["max_update"] = config.max_update, mine["settings"]["max_epoch"] = config.max_epoch;
  mine["settings"]["batch_parts"] = config.batch_parts.value_or(0);
  const auto latest = checkpoints.latest();
  mine["save_dir"] = {{"checkpoint", latest.value_or(0)}};
  mine["device"] = ctx.device().str().substr(0, ctx.device().str().find(':'));  // not which card
  compare(*direct, std::move(mine));
}

// saved: of the run that this one goes on from, 0: there is none.
void Trainer::State::decide_parts(std::int64_t saved) {
  const std::int64_t usual = usual_parts(processes.size(), config.update_freq);
  parts = config.batch_parts.value_or(saved * config.update_freq >= processes.size() ? saved : usual);
  if (parts * config.update_freq < processes.size())
    wrong_setting("train", "batch_parts", "is {}: {} processes would have {} parts to compute, and some nothing to do; expected {} or more",
                  parts, processes.size(), parts * config.update_freq, usual);
  if (saved > 0 && saved != parts)
    progress.note(
        fmt::format("note: batches are cut into {} parts, not {} as before: other elements are dropped from here on", parts, saved));
}

// Before a new training: nothing that it writes in the end may be there already, and be lost then. A file that it would write as it is
// there, such as the tokenizer that was given, is not lost.
void Trainer::State::refuse_others_files() const {
  struct Scratch {
    fs::path path;
    explicit Scratch(fs::path at) : path(std::move(at)) { fs::remove_all(path), fs::create_directory(path); }
    ~Scratch() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } const scratch(folder / ".files-beside");
  task.write_beside(scratch.path);
  std::set<fs::path> names = {"generation_config.json", "test.json", "valid_report.json", "test_report.json"};
  for (const auto& entry : fs::recursive_directory_iterator(scratch.path))
    if (!entry.is_directory()) names.insert(fs::relative(entry.path(), scratch.path));
  const auto refuse = [&](const fs::path& name, const fs::path& as) {
    const fs::path there = folder / name, ours = scratch.path / as;
    if (!fs::exists(there) || (fs::is_regular_file(there) && fs::exists(ours) && read_file(there) == read_file(ours))) return;
    fail(there.string(), "a training in this folder would write over it; choose another folder, so that it is not lost");
  };
  check_folder(folder / "checkpoints");
  for (const fs::path& name : names) refuse(name, name);
  for (const char* inner : {"average", "merged"}) {
    for (const fs::path& name : names) refuse(fs::path(inner) / name, name);
    for (const char* name : {"config.json", "model.safetensors"}) refuse(fs::path(inner) / name, name);
  }
}

void Trainer::State::resume() {
  if (processes.first())
    for (const fs::path& at : {folder, folder / "average"}) remove_temporary_files(at);  // of a run that was killed
  const auto latest = checkpoints.latest();
  if (!latest) {
    for (const char* name :
         {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "adapter_model.safetensors", "config.json"})
      if (fs::exists(folder / name))
        fail(folder.string(),
             "this folder holds a model ({}) but no state of training to go on from; choose another folder, so that it is not lost", name);
    if (processes.first()) refuse_others_files();
    decide_parts(0);
    if (config.ema_decay > 0.0F) begin_average();
    if (processes.first()) log.emplace(folder);
    return;
  }
  const fs::path at = checkpoints.at(*latest);
  try {
    const SavedRun saved = read_run(at / "trainer.json");
    if (const auto changed = differences(saved.identity, identity()); !changed.empty())
      fail("train", "this is not the run that was stopped:\n  {}\nUndo the change, or choose another save_dir", fmt::join(changed, "\n  "));
    decide_parts(saved.settings.value("batch_parts", std::int64_t{1}));
    for (const std::string& change : differences(saved.settings, settings())) progress.note("note: " + change);

    task.load(ctx, at);
    const SafetensorsFile optimizer(at / "optimizer.safetensors");
    for (std::size_t i = 0; i < adam.state().size(); ++i) {
      const std::string& name = adam.state()[i].parameter.name;
      adam.set_state(ctx, i, optimizer.tensor("m." + name), optimizer.tensor("v." + name));
    }
    adam.set_steps(saved.position.adam_steps);
    if (config.ema_decay > 0.0F) {
      begin_average();
      auto average = ema.weights.begin();
      for (const NamedParameter& p : all_weights()) {
        Tensor* whole = in_pieces(p) ? nullptr : &*average++;
        const std::string name = "ema." + p.name;
        if (!optimizer.contains(name)) continue;
        if (whole != nullptr) copy_into(ctx, optimizer.tensor(name), *whole);
        else adam.pieces()->set(ctx, p.parameter->tensor, LayerPieces::average, optimizer.tensor(name));
      }
    }
    static_cast<Position&>(*this) = saved.position;
    if (!is_sound(best)) best.clear(), best_step = 0;
    seconds_before = saved.position.seconds;
  } catch (const std::exception& e) {
    fail(at.string(), "cannot go on from this checkpoint: {}", e.what());
  }
  saved_at = step;
  if (best_step == step) save_best();
  keep_checkpoints();  // the run may have been killed before it did
  if (processes.first()) log.emplace(folder, step);
  if (!done()) progress.note(fmt::format("going on from step {} (epoch {}, {} trained so far)", step, epoch + 1, duration(seconds_before)));
}

// The mean of the last checkpoints' weights: often better than any one of them.
void Trainer::State::average(TrainResult& result) {
  processes.barrier();  // the first has written the last one
  std::vector<std::int64_t> steps = checkpoints.steps();
  if (const auto wanted = static_cast<std::size_t>(config.average); steps.size() > wanted)
    steps.erase(steps.begin(), steps.end() - static_cast<std::ptrdiff_t>(wanted));
  with_weights(ctx, averaged, copy_of(ctx, averaged), [&] {
    Weights mean;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      task.load(ctx, checkpoints.at(steps[i]));
      if (i == 0) mean = copy_of(ctx, averaged);
      else blend(ctx, mean, static_cast<float>(i) / static_cast<float>(i + 1), averaged);
    }
    assign(ctx, averaged, mean);
    const NoGradients no_gradients(ctx);
    result.average = task.validate(ctx);
    if (!is_sound(result.average) || !weights_are_finite())
      fail("train", "the average of the last {} checkpoints is not finite ({}) and was not saved; the best model, of step {}, is in {}",
           steps.size(), describe(result.average), best_step, folder.string());
    save_model(processes.first() ? make_folder(folder / "average") : folder / "average");
  });
  progress.note(fmt::format("average of the last {} checkpoints: {}", steps.size(), describe(result.average)));
}

}  // namespace transformer
