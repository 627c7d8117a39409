#include "transformer/models/names.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "transformer/autograd/layer_weights.h"
#include "transformer/ops/copy.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

// Matches the beginning of `name` against a pattern; gives the number {i} stands for and the rest.
struct Match {
  std::string number, rest;
};
std::optional<Match> begins_with(std::string_view pattern, std::string_view name) {
  Match m;
  while (!pattern.empty()) {
    if (pattern.starts_with("{i}")) {
      const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
      if (digits == 0) return std::nullopt;
      m.number = name.substr(0, digits);
      name.remove_prefix(digits);
      pattern.remove_prefix(3);
    } else {
      if (name.empty() || name.front() != pattern.front()) return std::nullopt;
      name.remove_prefix(1);
      pattern.remove_prefix(1);
    }
  }
  m.rest = name;
  return m;
}

// The same where the pattern ends at a dot or at the end of the name.
std::optional<Match> match(std::string_view pattern, std::string_view name) {
  auto m = begins_with(pattern, name);
  return m && (m->rest.empty() || m->rest.front() == '.') ? m : std::nullopt;
}

std::string expand(std::string_view pattern, const Match& m) {
  std::string s(pattern);
  if (const auto at = s.find("{i}"); at != std::string::npos) s.replace(at, 3, m.number);
  // A rule that ends in a separator of its own ("…in_proj_") takes the rest without its dot: in_proj_weight.
  return s + (s.ends_with('_') && !m.rest.empty() ? m.rest.substr(1) : m.rest);
}

// Vectors as columns, so that their elements are rows.
Tensor as_rows(const Tensor& t) { return t.rank() == 1 ? t.view({t.dim(0), 1}) : t; }

// Row i of theirs is row result[i] of ours: the parts of each group side by side.
std::vector<std::int64_t> grouped_rows(const std::vector<std::int64_t>& parts, std::int64_t groups) {
  std::vector<std::int64_t> rows;
  for (std::int64_t g = 0; g < groups; ++g) {
    std::int64_t begin = 0;
    for (std::int64_t part : parts) {
      const std::int64_t block = part / groups;
      for (std::int64_t i = 0; i < block; ++i) rows.push_back(begin + g * block + i);
      begin += part;
    }
  }
  return rows;
}

std::vector<std::int64_t> in_order(std::size_t n) {
  std::vector<std::int64_t> rows(n);
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

}  // namespace

Shape Binding::shape() const {
  if (reshaped) return *reshaped;
  Shape s = ours.parameter->shape;
  s[0] = rows;
  if (layout == Layout::transposed && s.rank() == 2) std::swap(s[0], s[1]);
  return s;
}

Tensor Binding::slice(const Tensor& t) const {
  if (layout != Layout::plain) fail("names", "{} is not stored as our {} is: it cannot be a view of it", theirs, ours.name);
  const Tensor mine = t.row_block(row, rows);
  return reshaped ? mine.view(*reshaped) : mine;
}

Tensor Binding::to_theirs(Context& ctx, const Tensor& t) const {
  const NoGradients no_gradients(ctx);
  const Tensor whole = contiguous(ctx, t.detach());
  if (layout == Layout::grouped) {
    Tensor out = Tensor::like(ctx, whole), target = as_rows(out);
    const auto from = grouped_rows(ours.parameter->parts, groups);
    copy_rows(ctx, as_rows(whole), from, target, in_order(from.size()));
    return out;
  }
  if (layout == Layout::transposed && t.rank() == 2) return transpose(ctx, whole.row_block(row, rows), 0, 1);
  const Tensor mine = whole.row_block(row, rows);
  return reshaped ? mine.view(*reshaped) : mine;
}

void Binding::from_theirs(Context& ctx, const Tensor& given, Tensor& t) const {
  const NoGradients no_gradients(ctx);
  const Tensor from = given.to(ctx);
  Tensor to = t.detach().row_block(row, rows);
  if (layout == Layout::grouped) {
    const Tensor source = as_rows(cast(ctx, from, to.dtype()));
    Tensor target = as_rows(to);
    const auto rows_of_ours = grouped_rows(ours.parameter->parts, groups);
    return copy_rows(ctx, source, in_order(rows_of_ours.size()), target, rows_of_ours);
  }
  copy_into(ctx, layout == Layout::transposed && from.rank() == 2 ? transpose(ctx, from, 0, 1) : from, to);
}

std::vector<Binding> bind_names(const std::vector<NamedParameter>& parameters, const std::vector<NameRule>& rules) {
  std::vector<Binding> bindings;
  for (const NamedParameter& ours : parameters) {
    const Parameter& p = *ours.parameter;
    std::int64_t covered = 0;
    for (const NameRule& rule : rules) {
      const auto m = match(rule.ours, ours.name);
      if (!m) continue;
      const auto part = static_cast<std::size_t>(std::max(rule.part, 0));
      if (rule.part >= 0 && part >= p.parts.size()) fail("names", "{} has no part {}", ours.name, rule.part);
      Binding b{.theirs = expand(rule.theirs, *m),
                .ours = ours,
                .rows = p.shape[0],
                .layout = rule.layout,
                .groups = rule.groups,
                .reshaped = rule.shape,
                .stored = rule.stored,
                .tied = rule.tied};
      if (rule.part >= 0) {
        b.row = std::accumulate(p.parts.begin(), p.parts.begin() + rule.part, std::int64_t{0});
        b.rows = p.parts[part];
      }
      if (b.shape().numel() != p.shape.numel() / std::max<std::int64_t>(p.shape[0], 1) * b.rows)
        fail("names", "{} {} cannot hold the {} rows of {} {}", b.theirs, b.shape(), b.rows, ours.name, p.shape);
      if (b.layout == Layout::grouped &&
          (b.groups < 1 || p.parts.empty() || std::any_of(p.parts.begin(), p.parts.end(), [&](auto n) { return n % b.groups != 0; })))
        fail("names", "the parts of {} do not divide into {} groups", ours.name, b.groups);
      if (!b.tied) covered += b.rows;
      bindings.push_back(std::move(b));
    }
    if (covered != p.shape[0]) fail("names", "the name rules cover {} of the {} rows of {}", covered, p.shape[0], ours.name);
  }
  return bindings;
}

namespace {

// The name in the files of a tensor that the bindings call `theirs`: with or without the base model's prefix, and with the
// oldest checkpoints' words for the weight and bias of a norm. Empty when there is none.
std::string find_name(const Checkpoint& files, const std::string& theirs, const std::string& base) {
  std::vector<std::string> spellings{theirs};
  if (!base.empty()) spellings.push_back(theirs.starts_with(base) ? theirs.substr(base.size()) : base + theirs);
  for (const std::string& name : spellings) {
    if (files.contains(name)) return name;
    for (const auto& [now, once] : {std::pair{"LayerNorm.weight", "LayerNorm.gamma"}, std::pair{"LayerNorm.bias", "LayerNorm.beta"}})
      if (name.ends_with(now))
        if (std::string old = name.substr(0, name.size() - std::strlen(now)) + once; files.contains(old)) return old;
  }
  return {};
}

bool is_ignored(const std::string& name, const LoadRules& rules) {
  auto listed = [&](std::string_view n) {
    return std::any_of(rules.ignored.begin(), rules.ignored.end(), [&](const std::string& p) { return begins_with(p, n).has_value(); });
  };
  return listed(name) || (!rules.base.empty() && name.starts_with(rules.base) && listed(std::string_view(name).substr(rules.base.size())));
}

bool same_values(const Checkpoint& files, const std::string& a, const std::string& b) {
  if (files.dtype(a) != files.dtype(b) || files.shape(a) != files.shape(b)) return false;
  const Tensor x = files.tensor(a), y = files.tensor(b);
  return std::memcmp(x.raw(), y.raw(), static_cast<std::size_t>(x.numel() * size_of(x.dtype()))) == 0;
}

// Where each binding's values are, and everything that does not fit.
struct Plan {
  std::vector<std::pair<const Binding*, std::string>> reads;
  std::vector<NamedParameter> fresh;  // of a head that the files do not have
  std::string missing, unexpected, misshaped;
};

// What belongs to the body and what to a head, where a fresh head is allowed.
struct Anatomy {
  const LoadRules& rules;
  std::string base;            // prefix of the body's bindings; none for the base model itself
  std::set<std::string> body;  // the first words of their names after it

  Anatomy(const std::vector<Binding>& bindings, const LoadRules& load_rules) : rules(load_rules) {
    for (const Binding& b : bindings)
      if (b.theirs.starts_with(rules.base)) base = rules.base;
    for (const Binding& b : bindings)
      if (b.theirs.starts_with(base)) body.insert(first_word(b.theirs));
  }
  bool is_head(const Binding& b) const { return rules.fresh_head && (b.ours.name.starts_with("head.") || !b.theirs.starts_with(base)); }
  bool is_other_head(const std::string& name) const { return rules.fresh_head && !body.contains(first_word(name)); }

 private:
  std::string first_word(std::string_view name) const {
    if (name.starts_with(rules.base)) name.remove_prefix(rules.base.size());
    return std::string(name.substr(0, name.find('.')));
  }
};

Plan plan_load(const std::vector<Binding>& bindings, const Checkpoint& files, const LoadRules& rules) {
  Plan plan;
  const Anatomy anatomy(bindings, rules);
  std::set<std::string> used;
  std::map<std::pair<const Parameter*, std::int64_t>, std::string> source;  // of the rows from that one on
  auto check = [&](const Binding& b, const std::string& name) {
    used.insert(name);
    const SafetensorsFile& file = files.file(name);
    if (const Shape shape = file.shape(name); shape != b.shape())
      plan.misshaped += fmt::format("\n  wrong shape: {} is {}, expected {}", name, shape, b.shape());
    else if (!b.stored && !file.stored_type(name).starts_with('F') && !file.stored_type(name).starts_with("BF"))
      plan.misshaped += fmt::format("\n  wrong type: {} is {}, expected F32, F16 or BF16", name, file.stored_type(name));
    else if (!b.stored) static_cast<void>(file.dtype(name));  // refuses the types that are not supported
  };
  for (const Binding& b : bindings) {
    if (b.tied) continue;
    const std::string name = find_name(files, b.theirs, rules.base);
    if (anatomy.is_head(b) && (name.empty() || files.shape(name) != b.shape())) {
      used.insert(name);
      source.emplace(std::pair{b.ours.parameter, b.row}, "");
      plan.fresh.push_back(b.ours);
      continue;
    }
    if (name.empty()) continue;
    check(b, name);
    source.emplace(std::pair{b.ours.parameter, b.row}, name);
    plan.reads.emplace_back(&b, name);
  }
  for (const Binding& b : bindings) {
    if (!b.tied) continue;
    const std::string name = find_name(files, b.theirs, rules.base);
    if (name.empty()) continue;
    check(b, name);
    const auto [first, only] = source.emplace(std::pair{b.ours.parameter, b.row}, name);
    if (only) plan.reads.emplace_back(&b, name);
    else if (!first->second.empty() && files.shape(name) == b.shape() && !same_values(files, first->second, name))
      plan.misshaped += fmt::format(
          "\n  not tied: {} differs from {}; if the model does not tie them, config.json should say "
          "\"tie_word_embeddings\": false",
          name, first->second);
  }
  for (const Binding& b : bindings)
    if (!b.tied && !source.contains({b.ours.parameter, b.row})) plan.missing += "\n  missing: " + b.theirs + " " + b.shape().str();
  for (const std::string& name : files.names())
    if (!used.contains(name) && !is_ignored(name, rules) && !anatomy.is_other_head(name)) plan.unexpected += "\n  unexpected: " + name;
  return plan;
}

// Can a parameter be their tensor itself? Small ones are copied: that costs nothing, and they then lie well in memory.
bool stays_in_file(const Context& ctx, const Binding& b, const SafetensorsFile& file, const std::string& name, DType dtype) {
  constexpr std::int64_t small = 1 << 18;
  return ctx.device() == Device::cpu() && b.layout == Layout::plain && !b.reshaped && b.shape() == b.ours.parameter->shape &&
      file.dtype(name) == dtype && b.shape().numel() >= small;
}

}  // namespace

std::vector<NamedParameter> load(Context& ctx, const std::vector<Binding>& bindings, const Checkpoint& files, const LoadRules& rules) {
  const Plan plan = plan_load(bindings, files, rules);
  if (!plan.missing.empty() || !plan.unexpected.empty() || !plan.misshaped.empty())
    fail(files.path(), "the tensors do not fit the model:{}{}{}", plan.missing, plan.unexpected, plan.misshaped);

  for (const auto& [binding, name] : plan.reads) {
    Parameter& p = *binding->ours.parameter;
    if (!p.tensor.defined()) {
      const DType dtype = p.shape.rank() > 1 && p.trained ? rules.dtype : DType::float32;
      if (rules.mapped && stays_in_file(ctx, *binding, files.file(name), name, dtype)) {
        p.tensor = files.tensor(name);
        continue;
      }
      p.tensor = Tensor::empty(ctx, p.shape, dtype);
      if (p.trained && rules.dtype == DType::float32) require_grad(p.tensor);
    }
    write_weight(ctx, p.tensor, [&] { binding->from_theirs(ctx, files.tensor(name), p.tensor); });
    files.file(name).drop(name);
  }
  initialize(ctx, plan.fresh);
  return plan.fresh;
}

void load(Context& ctx, const std::vector<Binding>& bindings, const SafetensorsFile& file, const std::vector<std::string_view>& ignored) {
  load(ctx, bindings, Checkpoint(file), {.ignored = {ignored.begin(), ignored.end()}});
}

std::vector<TensorToSave> tensors_to_save(Context& ctx, const std::vector<Binding>& bindings, DType dtype) {
  std::vector<TensorToSave> out;
  for (const Binding& b : bindings) {
    if (b.tied) continue;
    const Parameter& p = *b.ours.parameter;
    if (!p.tensor.defined()) fail("save", "{} has no values: initialise or load the model first", b.ours.name);
    const DType stored = b.stored.value_or(dtype);
    out.push_back({b.theirs, b.shape(), stored, [&ctx, &b, &p, stored] {
                     const NoGradients no_gradients(ctx);
                     read_layer(ctx, p.layer);
                     return cast(ctx, b.to_theirs(ctx, p.tensor), stored);
                   }});
  }
  return out;
}

std::vector<std::pair<std::string, Tensor>> named_tensors(Context& ctx, const std::vector<Binding>& bindings) {
  std::vector<std::pair<std::string, Tensor>> out;
  for (const Binding& b : bindings)
    if (!b.tied) out.emplace_back(b.theirs, b.to_theirs(ctx, b.ours.parameter->tensor));
  return out;
}

std::vector<std::pair<std::string, Tensor>> named_tensors(const std::vector<Binding>& bindings) {
  std::vector<std::pair<std::string, Tensor>> out;
  for (const Binding& b : bindings)
    if (!b.tied) out.emplace_back(b.theirs, b.slice(b.ours.parameter->tensor));
  return out;
}

}  // namespace transformer
