#pragma once
// Between the names of a checkpoint's tensors and ours: a family is a table of these rules.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transformer/io/checkpoint.h"
#include "transformer/nn/parameter.h"

namespace transformer {

// How a checkpoint's tensor lies in ours.
enum class Layout : std::uint8_t {
  plain,       // as it is, or, with NameRule::shape, the same elements under other sizes: [d, c, p, p] for our [d, c·p·p]
  transposed,  // theirs is [in, out] (GPT-2's Conv1D), ours [out, in]
  grouped,     // of a fused matrix: theirs has part 0, 1, 2 … of group 0, then those of group 1 … (Falcon's Q, K, V)
};

// "encoder.layers.{i}.mha.q_linear" ↔ part 0 of "encoder.stack.layers.{i}.attention.qkv". Names are prefixes up to a
// dot or the end, so that one rule serves weight and bias; {i} stands for any number, the same on both sides.
struct NameRule {
  std::string theirs, ours;
  int part = -1;  // which part of a fused matrix (Parameter::parts); -1: all of it
  Layout layout = Layout::plain;
  std::int64_t groups = 0;           // of Layout::grouped: each part has as many equal blocks of rows
  std::optional<Shape> shape = {};   // their sizes, where they differ from ours
  std::optional<DType> stored = {};  // the type it is saved in, where that is not the checkpoint's: counters are int64
  bool tied = false;                 // a second name of a tensor that another rule binds. It may be in the file and must
                                     // then be equal to the first; it is not written
};

// One tensor of the checkpoint and where its rows lie in one of ours.
struct Binding {
  std::string theirs;
  NamedParameter ours;
  std::int64_t row = 0, rows = 0;  // of ours
  Layout layout = Layout::plain;
  std::int64_t groups = 0;
  std::optional<Shape> reshaped = {};
  std::optional<DType> stored = {};
  bool tied = false;

  Shape shape() const;                                    // of their tensor
  Tensor to_theirs(Context& ctx, const Tensor& t) const;  // of ours (the weight, its gradient, …): a view where that can be
  void from_theirs(Context& ctx, const Tensor& theirs, Tensor& t) const;  // their values into ours
  Tensor slice(const Tensor& t) const;                                    // to_theirs for what can be a view; Error otherwise
};

// Applies the rules to all parameters; Error if a parameter is covered by no rule, or only partly.
std::vector<Binding> bind_names(const std::vector<NamedParameter>& parameters, const std::vector<NameRule>& rules);

// What a file may have that the bindings do not say.
struct LoadRules {
  // "bert.": the prefix of the base model's tensors. A file of the base model alone leaves it out, one of another head has it:
  // both are read, whether the bindings have it or not.
  std::string base = {};
  // Beginnings of names ({i} stands for a number) that may be there and are not used: computed tables, other heads.
  std::vector<std::string> ignored = {};
  // For another head on the same body. What does not begin with `base`, or with "head." in our own names, is the head: its tensors
  // that are not in the file, or of another size, are initialised, and those of other heads are not used.
  bool fresh_head = false;
  DType dtype = DType::float32;  // of matrices and tables in memory; vectors stay float32. What is not float32 is not trained
  // Large tensors that are in the file as they are wanted stay there, mapped: nothing is copied, and processes share them.
  bool mapped = false;
};

// Copies the checkpoint into the parameters (taking memory for those that have none, as leaves of the tape where they are
// trained). All missing, unexpected and mis-shaped tensors are reported in one Error, and then nothing was changed. Returns those of a
// fresh head that were initialised.
std::vector<NamedParameter> load(Context& ctx, const std::vector<Binding>& bindings, const Checkpoint& files, const LoadRules& rules = {});
void load(Context& ctx, const std::vector<Binding>& bindings, const SafetensorsFile& file,
          const std::vector<std::string_view>& ignored = {});

// The parameters under the checkpoint's names, without the second names of tied ones.
std::vector<TensorToSave> tensors_to_save(Context& ctx, const std::vector<Binding>& bindings, DType dtype);  // bindings must stay
std::vector<std::pair<std::string, Tensor>> named_tensors(Context& ctx, const std::vector<Binding>& bindings);
std::vector<std::pair<std::string, Tensor>> named_tensors(const std::vector<Binding>& bindings);  // as views; all must be plain

}  // namespace transformer
