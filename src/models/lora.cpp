#include "transformer/models/lora.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "io/shared/json.h"
#include "models/lora_files.h"
#include "transformer/autograd/layer_weights.h"
#include "transformer/ops/copy.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

const std::string all_linear = "all-linear";

// "h.0.attn.c_attn" of "h.0.attn.c_attn.weight"; "classifier" of "classifier.out_proj.weight"
std::string module_of(const std::string& tensor) { return tensor.substr(0, std::min(tensor.rfind('.'), tensor.size())); }
std::string first_word(const std::string& name) { return name.substr(0, name.find('.')); }
std::string last_word(const std::string& name) { return name.substr(name.rfind('.') + 1); }

// A matrix of the checkpoint that can be adapted, and where it is: a layer of ours, or a part of one.
struct Site {
  NamedLinear ours;
  Binding weight;
  std::vector<std::string> names;  // of its module; the last one is that of Hugging Face's classes of today

  const std::string& name() const { return names.back(); }
  bool is_one_of(const std::vector<std::string>& targets) const {
    return std::any_of(targets.begin(), targets.end(), [&](const std::string& target) { return is_called(target); });
  }
  bool is_called(const std::string& target) const {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return name == target || name.ends_with("." + target); });
  }
  LowRank* adapter() const {
    for (LowRank& a : ours.linear->adapters)
      if (a.row == weight.row && a.b.shape[0] == weight.rows) return &a;
    return nullptr;
  }
  void add(std::int64_t rank) const {
    LowRank& a = ours.linear->adapters.emplace_back(ours.linear->weight.shape[1], weight.row, weight.rows, rank);
    if (weight.layout == Layout::grouped) a.b.parts = ours.linear->weight.parts;
  }
  // B's rows are those of the matrix, in the checkpoint's order.
  std::vector<Binding> bindings(const std::string& module) const {
    LowRank& a = *adapter();
    const std::string named = fmt::format("{}.lora.{}.", ours.name, &a - ours.linear->adapters.data());
    Binding down{.theirs = module + lora_a, .ours = {named + "a", &a.a}, .rows = a.a.shape[0]};
    Binding up{.theirs = module + lora_b, .ours = {named + "b", &a.b}, .rows = a.b.shape[0]};
    if (weight.layout == Layout::grouped) up.layout = weight.layout, up.groups = weight.groups;
    return {down, up};
  }
};

std::vector<Site> sites_of(Model& model) {
  std::map<std::string, NamedLinear> layers;
  for (NamedLinear& l : model.linears()) layers.emplace(l.name + ".weight", l);
  std::vector<Site> sites;
  std::map<std::pair<std::string, std::int64_t>, std::size_t> known;
  for (const Binding& b : model.bindings()) {
    const auto layer = layers.find(b.ours.name);
    if (layer == layers.end() || b.reshaped) continue;  // a convolution's kernel is not a matrix there
    const auto [at, first] = known.emplace(std::pair{b.ours.name, b.row}, sites.size());
    if (first) sites.push_back({.ours = layer->second, .weight = b, .names = {}});
    sites[at->second].names.push_back(module_of(b.theirs));
  }
  return sites;
}

// As PEFT: a module is saved when its name, or that of one around it, ends with one of these.
bool is_saved(const std::string& tensor, const std::vector<std::string>& saved) {
  for (std::size_t dot = tensor.find('.'); dot != std::string::npos; dot = tensor.find('.', dot + 1))
    for (const std::string& name : saved)
      if (tensor.substr(0, dot).ends_with(name)) return true;
  return false;
}

std::vector<Binding> saved_bindings(Model& model) {
  std::vector<Binding> out;
  for (Binding& b : model.bindings())
    if (!b.tied && is_saved(b.theirs, model.lora->saved)) out.push_back(std::move(b));
  return out;
}

// Classifiers, as PEFT saves them; what the base did not have; norms whose statistics training changes.
std::vector<std::string> modules_to_save(Model& model, const std::vector<NamedParameter>& fresh) {
  const std::string base = model.load_rules().base;
  std::set<const Parameter*> is_fresh;
  for (const NamedParameter& p : fresh) is_fresh.insert(p.parameter);
  std::set<std::string> names;
  for (const Binding& b : model.bindings()) {
    if (b.tied) continue;
    const bool in_body = !base.empty() && b.theirs.starts_with(base);
    const std::string word = first_word(b.theirs);
    const bool classifier = !in_body && (word.ends_with("classifier") || word == "score");
    if (!classifier && !is_fresh.contains(b.ours.parameter) && !b.ours.name.ends_with(".running_mean")) continue;
    if (classifier) names.insert(word);
    else names.insert(in_body ? module_of(b.theirs.substr(base.size())) : module_of(b.theirs));
  }
  return {names.begin(), names.end()};
}

// From now on only the adapter and the modules that are trained whole have gradients.
void freeze(Context& ctx, Model& model) {
  std::set<const Parameter*> whole;
  for (const Binding& b : saved_bindings(model)) whole.insert(b.ours.parameter);
  for (const auto& [name, p] : model.parameters()) {
    p->tensor = p->tensor.detach();
    if (!whole.contains(p)) p->trained = false;
    if (!p->trained) continue;
    const NoGradients no_gradients(ctx);
    p->tensor = cast(ctx, p->tensor, DType::float32);
    require_grad(p->tensor);
  }
}

void set_scale(const Site& site, const LoraConfig& config) {
  LowRank& a = *site.adapter();
  const auto rank = static_cast<float>(a.a.shape[0]);
  a.scale = config.alpha / (config.rslora ? std::sqrt(rank) : rank);
  a.dropout = config.dropout;
}

std::vector<NamedParameter> adapter_parameters(Model& model) {
  std::vector<NamedParameter> out;
  for (const NamedLinear& l : model.linears())
    for (NamedParameter& p : parameters(l.linear->adapters)) out.push_back({l.name + ".lora" + p.name, p.parameter});
  return out;
}

void check(const LoraConfig& c) {
  if (c.rank < 1) fail("lora", "lora_rank is {}: expected 1 or more", c.rank);
  if (!(c.alpha > 0.0F) || !std::isfinite(c.alpha)) fail("lora", "lora_alpha is {}: expected more than 0", c.alpha);
  if (!(c.dropout >= 0.0F && c.dropout < 1.0F)) fail("lora", "lora_dropout is {}: expected a value in [0, 1)", c.dropout);
}

}  // namespace

void add_lora(Context& ctx, Model& model, LoraConfig config, const std::vector<NamedParameter>& fresh) {
  check(config);
  config.saved = modules_to_save(model, fresh);
  if (config.targets.empty()) config.targets = usual_lora_targets(model);
  const bool all = config.targets == std::vector{all_linear};
  const std::vector<Site> sites = sites_of(model);
  std::set<std::string> found, possible;
  for (const Site& site : sites) {
    if (is_saved(site.name() + ".", config.saved)) continue;  // trained whole already
    possible.insert(last_word(site.name()));
    for (const std::string& target : config.targets)
      if (site.is_called(target)) found.insert(target);
    if (!all && !site.is_one_of(config.targets)) continue;
    if (config.rank > std::min(site.weight.rows, site.ours.linear->weight.shape[1]))
      fail("lora", "lora_rank is {}, but {} is {}: expected less", config.rank, site.name(), site.weight.shape());
    site.add(config.rank);
    if (all) found.insert(site.name());
  }
  for (const std::string& target : config.targets)
    if (!all && !found.contains(target))
      fail("lora", "lora_targets: no matrix of this model is called '{}'; there are {}, and all-linear for all of them", target,
           fmt::join(possible, ", "));
  if (found.empty()) fail("lora", "lora_targets: name the modules to adapt; there are {}", fmt::join(possible, ", "));
  if (all) config.targets.assign(found.begin(), found.end());
  model.lora = config;
  for (const Site& site : sites)
    if (site.adapter() != nullptr) set_scale(site, config);
  initialize(ctx, adapter_parameters(model));
  freeze(ctx, model);
}

void open_adapter(Context& ctx, Model& model, const std::filesystem::path& folder, const std::vector<NamedParameter>& fresh) {
  const AdapterFiles files(folder);
  model.lora = files.config;
  const std::string base = model.load_rules().base;
  // As PEFT names a module of the same model, or of its body alone.
  const auto spelled = [&](const std::string& name) {
    std::vector<std::string> out{peft_prefix + name};
    if (!base.empty()) out.push_back(peft_prefix + (name.starts_with(base) ? name.substr(base.size()) : base + name));
    return out;
  };
  std::vector<std::pair<const Site*, std::string>> adapted;
  const std::vector<Site> sites = sites_of(model);
  for (const Site& site : sites) {
    std::string module;
    for (const std::string& name : site.names)
      for (const std::string& spelling : spelled(name))
        if (files.weights.contains(spelling + lora_a)) module = spelling;
    if (module.empty()) continue;
    if (const Shape a = files.weights.shape(module + lora_a); a.rank() == 2 && a[0] > 0) site.add(a[0]);
    else fail(files.weights.path(), "{} is {}: expected [rank, {}]", module + lora_a, a, site.ours.linear->weight.shape[1]);
    set_scale(site, files.config);
    adapted.emplace_back(&site, module);
  }
  // A pattern, or a choice of layers: the modules themselves tell the same.
  if (std::any_of(sites.begin(), sites.end(),
                  [&](const Site& s) { return s.is_one_of(model.lora->targets) != (s.adapter() != nullptr); })) {
    model.lora->targets.clear();
    for (const auto& [site, module] : adapted) model.lora->targets.push_back(site->name());
  }
  std::vector<Binding> bindings;
  for (const auto& [site, module] : adapted)
    for (Binding& b : site->bindings(module)) bindings.push_back(std::move(b));
  for (Binding& b : saved_bindings(model)) {
    for (const std::string& spelling : spelled(b.theirs))
      if (files.weights.contains(spelling)) b.theirs = spelling;
    if (!b.theirs.starts_with(peft_prefix)) b.theirs = peft_prefix + b.theirs;
    bindings.push_back(std::move(b));
  }
  for (const NamedParameter& p : fresh)
    if (std::none_of(bindings.begin(), bindings.end(), [&](const Binding& b) { return b.ours.parameter == p.parameter; }))
      fail(folder.string(), "neither the base model nor the adapter has {}: is it the adapter of another model?", p.name);
  freeze(ctx, model);
  load(ctx, bindings, Checkpoint(files.weights));
}

std::vector<NamedParameter> trained_parameters(Model& model) {
  std::vector<NamedParameter> out = model.parameters();
  std::erase_if(out, [](const NamedParameter& p) { return !p.parameter->trained; });
  for (NamedParameter& p : adapter_parameters(model)) out.push_back(std::move(p));
  return out;
}

std::vector<Binding> adapter_bindings(Model& model) {
  std::vector<Binding> out;
  if (!model.lora) return out;
  for (const Site& site : sites_of(model))
    if (site.adapter() != nullptr)
      for (Binding& b : site.bindings(peft_prefix + site.name())) out.push_back(std::move(b));
  for (Binding& b : saved_bindings(model)) {
    b.theirs = peft_prefix + b.theirs;
    out.push_back(std::move(b));
  }
  return out;
}

void save_adapter(Context& ctx, Model& model, const std::filesystem::path& folder, const std::filesystem::path& base) {
  if (!model.lora) fail("save_adapter", "the model has no adapter");
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);  // writing says what is wrong
  const std::vector<Binding> bindings = adapter_bindings(model);
  write_safetensors(folder / adapter_weights_file, tensors_to_save(ctx, bindings, DType::float32), {{"format", "pt"}});
  read_layer(ctx, nullptr);
  nlohmann::json ranks = nlohmann::json::object();
  bool transposed = false;
  for (const Site& site : sites_of(model)) {
    const LowRank* a = site.adapter();
    if (a == nullptr) continue;
    if (a->a.shape[0] != model.lora->rank) ranks[site.name()] = a->a.shape[0];
    transposed |= site.weight.layout == Layout::transposed;
  }
  write_json(folder / "config.json", model.config());
  write_json(folder / adapter_config_file, adapter_json(*model.lora, model.config(), base, ranks, transposed));
}

void load_adapter(Context& ctx, Model& model, const std::filesystem::path& folder) {
  load(ctx, adapter_bindings(model), Checkpoint(SafetensorsFile(folder / adapter_weights_file)));
}

void merge_lora(Context& ctx, Model& model) {
  const NoGradients no_gradients(ctx);
  for (const NamedLinear& l : model.linears()) {
    Tensor& weight = l.linear->weight.tensor;
    for (const LowRank& a : l.linear->adapters) {
      if (weight.dtype() != DType::float32) fail("merge_lora", "{} is {}: load the model in float32 first", l.name, weight.dtype());
      Tensor part = weight.detach().row_block(a.row, a.b.shape[0]);
      copy_into(ctx, add_linear(ctx, part, a.b.tensor.detach(), transpose(ctx, a.a.tensor.detach(), 0, 1), a.scale), part);
    }
    l.linear->adapters.clear();
  }
  model.lora.reset();
}

}  // namespace transformer
