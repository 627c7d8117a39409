#pragma once
// A Task that trains one of the registry's models (models/model.h): its weights, fresh or another folder's; its loss; its folder.
// What is left to a task is its data, and what it measures.
//
//   class MyTask final : public ModelTask {
//     MyTask(Context& ctx, const MyConfig& config) : ModelTask(ctx, "train mine") { build_model(gpt2_config(…)); }
//     nlohmann::json identity() const override { nlohmann::json out = model_identity(); out["data"] = …; return out; }
//     std::int64_t plan(std::int64_t epoch) override { order_ = shuffled(samples_, seed(), epoch); … }
//     Batch prepare(std::int64_t index, const Share& share) const override { return {.content = HostTensors{{"input_ids", {…}}, {"labels",
//     {…}}}, …}; } Metrics validate(Context& ctx) override { … evaluate(ctx, inputs).at("loss").item() … } void save_beside(const
//     std::filesystem::path& folder) const override { tokenizer_->save(folder / "tokenizer.json"); }
//   };

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "transformer/models/lora.h"
#include "transformer/train/task.h"

namespace transformer {

// A tensor before it is one: made by prepare(), off the training thread.
struct HostTensor {
  Shape shape = {};
  std::variant<std::vector<float>, std::vector<std::int64_t>> values = {};
};
using HostTensors = std::map<std::string, HostTensor, std::less<>>;

Tensor to_tensor(Context& ctx, const HostTensor& host);
NamedTensors to_tensors(Context& ctx, const HostTensors& host);

struct StartingFolder;

class ModelTask : public Task {
 public:
  Model& model() const { return *model_; }
  // The folder whose model is trained further; empty: the weights were fresh.
  const std::string& started_from() const { return from_; }
  // "124439808 parameters", and how many of them an adapter trains.
  std::string size() const;

  std::vector<NamedParameter> parameters() override;  // those that are trained
  std::vector<NamedParameter> statistics() override;
  // The model's own loss of the batch's HostTensors, which have Hugging Face's names.
  Tensor loss(Context& ctx, const Batch& batch) const override;
  void save(const std::filesystem::path& folder) override;
  void load(Context& ctx, const std::filesystem::path& folder) override;
  void write_beside(const std::filesystem::path& folder) const override;

 protected:
  // name: as the user calls the task, "train lm"; it stands in front of errors.
  ModelTask(Context& ctx, std::string name);

  // A model of that config.json with fresh weights.
  void build_model(const nlohmann::json& config);
  // That folder's model. changes: settings of its config.json that are to be others, given that config (LoadOptions::changes);
  // why_not: what is wrong with this kind of model, "" when nothing is; asked before memory is taken for it. lora: an adapter is trained,
  // and saved, instead of the model; its weights are in memory in the precision that is computed with.
  void open_model(const std::string& folder, const std::function<nlohmann::json(const nlohmann::json& config)>& changes,
                  const std::function<std::string(const Model& model)>& why_not, const LoraConfig& lora = {});
  // Error when `resumed`, the checkpoint a run will go on from, began with another model's weights: for tasks that are about to
  // build a fresh one.
  void check_fresh(const std::optional<std::filesystem::path>& resumed) const;

  // {"architecture": config.json, "start": the weights it began with}: what identity() begins with.
  nlohmann::json model_identity() const;
  // The model's outputs without recording anything.
  NamedTensors evaluate(Context& ctx, const HostTensors& inputs, const RunOptions& options = {}) const;

  // Files beside config.json and the weights, such as the tokenizer's. A folder that is trained further keeps its own, so this is
  // called for fresh models only.
  virtual void save_beside(const std::filesystem::path& folder) const = 0;

  const std::shared_ptr<Model>& shared_model() const { return model_; }
  Context& context() const { return ctx_; }
  std::uint64_t seed() const;
  const std::string& name() const { return name_; }

 private:
  Context& ctx_;
  std::string name_, from_;
  std::shared_ptr<Model> model_;
  std::shared_ptr<const StartingFolder> start_;  // null: the model began with fresh weights
};

// A fingerprint as identity() shows it.
std::string hex(std::uint64_t value);

}  // namespace transformer
