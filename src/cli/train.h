#pragma once
// What the tasks of `transformer train` share. Each task is one file, train_TASK.cpp.

#include <functional>
#include <string>
#include <vector>

#include "cli/compute.h"
#include "cli/flags.h"
#include "cli/processes.h"
#include "transformer/models/lora.h"
#include "transformer/train/trainer.h"

namespace transformer::cli {

// What every task has beside its own settings.
struct SeedConfig {
  std::int64_t seed = 1;
  std::int64_t devices = 1;
  static void visit(auto& self, auto&& field) {
    field("seed", self.seed, "of all random choices: weights, order of the data, dropout");
    field("devices", self.devices,
          "processes of this machine that train together, with a GPU each where --device is cuda; mpirun starts them");
  }
};

// Where and how a training computes; where --devices asks for several processes, the command begins anew in each of them.
ContextOptions context_of(const ComputeConfig& compute, const SeedConfig& seed);

// Trains until the end, or until the user stops it, and says how it ended. lora: of a task that trains a ready model further. then: what
// is to be done with the model at the end, by all processes, which may still have it in pieces.
TrainResult train(Context& ctx, Task& task, const TrainConfig& config, const LoraConfig& lora = {}, const std::function<void()>& then = {});
// Error (of usage) when settings of an adapter are given, but no model that it could be put on.
void check_lora(const std::string& from, const LoraConfig& lora);

// "--d-model" for d_model.
std::string flag_of(std::string name);
// Whether the user wrote this flag.
bool flag_given(const CLI::App& verb, const std::string& flag);

// The fields of a configuration that the user has set: by a flag, or in a file, which has all settings when --dump-config wrote it,
// so that there those count that differ from the defaults.
template <Configuration C>
std::vector<std::string> fields_given(const CLI::App& verb, const C& config, const C& defaults = {}) {
  std::vector<std::string> out;
  const nlohmann::json settings = to_json(config), usual = to_json(defaults);
  for (const auto& [name, value] : settings.items())
    if (flag_given(verb, flag_of(name)) || value != usual.at(name)) out.push_back(name);
  return out;
}

// With --from the model is the folder's. A setting of it that may be changed is taken out of those that were given (fields_given):
//   std::vector<std::string> given = fields_given(verb, model);
//   take(given, "dropout", model.dropout, start.dropout);
//   refuse_with_from(verb, start.from, given, {"vocab_size"});
template <class From, class To>
void take(std::vector<std::string>& given, const char* name, const From& value, To& to) {
  if (std::erase(given, name) > 0) to = value;
}
// Error (of usage) when any are left, or one of `others` has been given by a flag: the folder has them already.
void refuse_with_from(const CLI::App& verb, const std::string& from, std::vector<std::string> given,
                      const std::vector<std::string>& others = {});

void add_train_classify(CLI::App& verb);
void add_train_forecast(CLI::App& verb);
void add_train_lm(CLI::App& verb);
void add_train_image(CLI::App& verb);
void add_train_mlm(CLI::App& verb);
void add_train_tag(CLI::App& verb);
void add_train_translate(CLI::App& verb);

}  // namespace transformer::cli
