#pragma once
// A checkpoint of any family, opened from its Hugging Face folder.
//
//   Context ctx;
//   auto model = load_model(ctx, "bert-base-uncased");
//   NamedTensors out = model->run(ctx, {{"input_ids", ids}, {"attention_mask", mask}}, {.hidden_states = true});
//   out.at("logits");
//   for (const auto& [name, p] : parameters(*model)) use(name, p->tensor);
//   save_model(ctx, *model, "copy");   // with its tokenizer
//
// A family is one file in src/models: it reads config.json through Settings (models/settings.h), builds the model, and gives
// the table of its tensors' names (models/names.h). Its row stands in src/models/registry.cpp.

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transformer/models/lora_config.h"
#include "transformer/models/names.h"
#include "transformer/models/settings.h"
#include "transformer/nn/linear.h"

namespace transformer {

// "input_ids", "logits" …: padded, as Hugging Face has them.
using NamedTensors = std::map<std::string, Tensor, std::less<>>;

struct RunOptions {
  bool logits = true;          // false: only the loss is wanted, so that the logits of a large vocabulary never exist as a whole
  bool hidden_states = false;  // hidden_states.N: what goes into each layer, and what comes out of the last
  bool attentions = false;     // attentions.N: the weights of each layer [batch, heads, queries, keys]
};

// What a model gives. There is no default: a new family must say it.
enum class Purpose : std::uint8_t {
  text_vectors,    // of a text and its tokens
  next_words,      // a text that goes on
  masked_words,    // the words behind a mask
  text_labels,     // classes of a text, or numbers
  token_labels,    // a class for each token of a text
  another_text,    // a translation, a summary …
  image_vectors,   //
  image_labels,    //
  forecast,        // the next values of a series
  series_vectors,  // of the patches of a series
  series_labels,   // classes of a series, or numbers
};

class Model {
 public:
  virtual ~Model() = default;

  virtual Purpose purpose() const = 0;

  // Takes Hugging Face's input names (padded ids [batch, length], attention_mask, pixel_values, past_values, labels …) and gives
  // its output names: logits, last_hidden_state, pooler_output …; `loss` when there are labels. Outputs are on the tape, so
  // backward(ctx, out.at("loss")) gives every gradient. An input the model does not know is an Error. Values at padded
  // positions are zero. Inputs may be in the host's memory.
  NamedTensors run(Context& ctx, const NamedTensors& inputs, const RunOptions& options = {}) const;

  // Everything that is saved, buffers (Parameter::trained is false) among it.
  virtual std::vector<NamedParameter> parameters() = 0;
  // The same under the checkpoint's names.
  virtual std::vector<Binding> bindings() = 0;
  // The layers that an adapter can be put on (models/lora.h), by our names.
  virtual std::vector<NamedLinear> linears() = 0;
  // What else its files may hold.
  virtual LoadRules load_rules() const { return {}; }
  // Called before its files are read: what they have and config.json does not tell, such as a head that may be tied or not.
  virtual void adapt(const Checkpoint& files) { static_cast<void>(files); }

  const nlohmann::json& config() const { return config_; }  // config.json as it was read

  // The folder it was loaded from, and the files there that belong to it beside config.json and the weights: those of its tokenizer,
  // of generation, of preprocessing. save_model copies them.
  struct Origin {
    std::filesystem::path folder = {};
    std::vector<std::string> files = {};
  };
  const Origin& origin() const { return origin_; }
  std::optional<LoraConfig> lora = {};  // of the adapter it has

 protected:
  // What run does, with inputs on the context's device.
  virtual NamedTensors compute(Context& ctx, const NamedTensors& inputs, const RunOptions& options) const = 0;

 private:
  friend std::unique_ptr<Model> make_model(const nlohmann::json& config);
  friend std::unique_ptr<Model> load_model(Context& ctx, const std::filesystem::path& folder, const struct LoadOptions& options);
  nlohmann::json config_;
  Origin origin_;
};

// All parameters of a model, as of any module (nn/parameter.h).
inline std::vector<NamedParameter> parameters(Model& model) { return model.parameters(); }

// The keys of config.json for a family's dropouts; none where it has no such setting.
struct DropoutKeys {
  std::vector<std::string> all = {}, attention = {}, feed_forward = {};
};

// One row of the registry: what is to be known of a family beside its code.
struct Family {
  std::string_view model_type;
  std::unique_ptr<Model> (*make)(Settings& settings);
  std::vector<std::string> classes = {};       // of Hugging Face Transformers; the first one where config.json names none
  DropoutKeys dropout = {};                    //
  std::vector<std::string> lora_targets = {};  // modules that an adapter is put on unless others are named: PEFT's choice

  // Its class with this head, as in "ForMaskedLM"; "" when it has none.
  std::string class_with(std::string_view head) const;
};
std::vector<std::string> family_names();
std::string model_type_of(const nlohmann::json& config);                // "transformer" where config.json does not say it
const Family* find_family(const nlohmann::json& config);                // that config.json is of; null: it is not known
const Family& family_named(std::string_view model_type);                // Error lists those that are known
nlohmann::json config_of(const Family& family, std::string_view head);  // how the config.json of a model with that head begins
std::vector<std::string> usual_lora_targets(const Model& model);

// A model of that config.json; shapes only, no memory is taken.
std::unique_ptr<Model> make_model(const nlohmann::json& config);

struct LoadOptions {
  // Of matrices and tables in memory. With bfloat16 there is no float32 copy of them: for inference, in a Context of that
  // precision.
  DType dtype = DType::float32;
  // For inference: large weights are used where they are in the file instead of being copied, so that a model opens at once. The file must
  // not be written to meanwhile; one that is replaced by another, as save_model does it, is no matter.
  bool mapped = false;
  // Settings of config.json that are to be others, for a model that is trained further: another head and its classes, dropout …
  //   {.changes = {{"architectures", {"BertForSequenceClassification"}}, {"id2label", {{"0", "bad"}, {"1", "good"}}}}}
  // With another head or other classes, tensors of the head that the files do not have are initialised.
  nlohmann::json changes = nlohmann::json::object();
  // An adapter's folder (models/lora.h); it may have a config.json of its own, for a head that the base does not have.
  std::filesystem::path adapter = {};
  // Instead: a fresh adapter, if its rank is not 0.
  LoraConfig lora = {};
};
// config.json and the weights of a folder (one safetensors file, or several with an index). A folder that holds an adapter alone opens
// with the base it names. With an adapter, its parameters are the ones that are trained: all others stay as they are.
std::unique_ptr<Model> load_model(Context& ctx, const std::filesystem::path& folder, const LoadOptions& options = {});

struct SaveOptions {
  bool files = true;                // copy what belongs to it from the folder it was loaded from (Model::origin)
  std::optional<DType> dtype = {};  // of the tensors in the file; default: what config.json says (dtype, torch_dtype), or float32
};
// Writes config.json, with the values it was read with, model.safetensors, and for a model that was loaded the files that opening it
// for its use needs, such as its tokenizer; each appears as a whole or not at all. Error when one of those is gone.
void save_model(Context& ctx, Model& model, const std::filesystem::path& folder, const SaveOptions& options = {});

// Copies of inputs: `name` must be there, and is checked to have `rank` dimensions. Error lists what was given.
const Tensor& input(const NamedTensors& inputs, std::string_view name, int rank);
const Tensor* optional_input(const NamedTensors& inputs, std::string_view name, int rank);
// Refuses inputs of any other name.
void check_inputs(const NamedTensors& inputs, const std::vector<std::string>& known);

}  // namespace transformer
