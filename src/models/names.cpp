#include "transformer/models/names.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "transformer/autograd/autograd.h"
#include "transformer/ops/copy.h"

namespace transformer {
namespace {

// Matches `name` against a pattern that is a prefix up to a dot or the end; gives the number {i} stands for and the rest.
struct Match {
  std::string number, rest;
};
std::optional<Match> match(std::string_view pattern, std::string_view name) {
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
  if (!name.empty() && name.front() != '.') return std::nullopt;
  m.rest = name;
  return m;
}

std::string expand(std::string_view pattern, const Match& m) {
  std::string s(pattern);
  if (const auto at = s.find("{i}"); at != std::string::npos) s.replace(at, 3, m.number);
  // A rule that ends in a separator of its own ("…in_proj_") takes the rest without its dot: in_proj_weight.
  return s + (s.ends_with('_') && !m.rest.empty() ? m.rest.substr(1) : m.rest);
}

}  // namespace

Shape Binding::shape() const {
  Shape s = ours.parameter->shape;
  s[0] = rows;
  return s;
}

Tensor Binding::slice(const Tensor& t) const { return t.row_block(row, rows); }

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
      Binding b{expand(rule.theirs, *m), ours, 0, p.shape[0]};
      if (rule.part >= 0) {
        b.row = std::accumulate(p.parts.begin(), p.parts.begin() + rule.part, std::int64_t{0});
        b.rows = p.parts[part];
      }
      covered += b.rows;
      bindings.push_back(std::move(b));
    }
    if (covered != p.shape[0]) fail("names", "the name rules cover {} of the {} rows of {}", covered, p.shape[0], ours.name);
  }
  return bindings;
}

void load(Context& ctx, const std::vector<Binding>& bindings, const SafetensorsFile& file, const std::vector<std::string_view>& ignored) {
  std::string missing, unexpected, misshaped;
  std::map<std::string_view, const Binding*> known;
  for (const Binding& b : bindings) {
    known.emplace(b.theirs, &b);
    if (!file.contains(b.theirs)) missing += "\n  missing: " + b.theirs + " " + b.shape().str();
    else if (const Shape shape = file.tensor(b.theirs).shape(); shape != b.shape())
      misshaped += fmt::format("\n  wrong shape: {} is {}, expected {}", b.theirs, shape, b.shape());
  }
  for (const std::string& name : file.names())
    if (!known.contains(name) && std::none_of(ignored.begin(), ignored.end(), [&](std::string_view p) { return name.starts_with(p); }))
      unexpected += "\n  unexpected: " + name;
  if (!missing.empty() || !unexpected.empty() || !misshaped.empty())
    fail(file.path(), "the tensors do not fit the model:{}{}{}", missing, unexpected, misshaped);

  for (const Binding& b : bindings) {
    Parameter& p = *b.ours.parameter;
    if (!p.tensor.defined()) p.tensor = Tensor::empty(ctx, p.shape), require_grad(p.tensor);
    Tensor to = b.slice(p.tensor);
    copy_into(ctx, file.tensor(b.theirs), to);
  }
}

std::vector<std::pair<std::string, Tensor>> named_tensors(const std::vector<Binding>& bindings) {
  std::vector<std::pair<std::string, Tensor>> out;
  for (const Binding& b : bindings) out.emplace_back(b.theirs, b.slice(b.ours.parameter->tensor));
  return out;
}

}  // namespace transformer
