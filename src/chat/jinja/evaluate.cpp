// The values of expressions.

#include <cmath>

#include "chat/jinja/machine.h"
#include "io/shared/unicode.h"

namespace transformer::jinja {
namespace {

void need_defined(const Value& value) {
  if (const Undefined* u = value.get<Undefined>()) fail("value", "{}", u->what.empty() ? "a value is undefined" : u->what);
}

Value loop_attribute(const LoopState& loop, const std::string& name) {
  const auto index = static_cast<std::int64_t>(loop.index), size = static_cast<std::int64_t>(loop.items->items.size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return size - index;
  if (name == "revindex0") return size - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == size;
  if (name == "length") return size;
  if (name == "depth") return std::int64_t{1};  // of recursive loops, which are refused
  if (name == "depth0") return std::int64_t{0};
  if (name == "previtem") return index == 0 ? Value(Undefined{"there is no item before the first"}) : loop.items->items[loop.index - 1];
  if (name == "nextitem")
    return index + 1 == size ? Value(Undefined{"there is no item after the last"}) : loop.items->items[loop.index + 1];
  if (name == "cycle")
    return Function{name, [index](Machine&, const Arguments& arguments) {
                      if (arguments.positional.empty()) fail("loop", "loop.cycle needs something to go through");
                      return arguments.positional[static_cast<std::size_t>(index) % arguments.positional.size()];
                    }};
  fail("loop", "'loop.{}' is not supported", name);
}

Value floor_division(const Value& a, const Value& b, bool rest) {
  if (b.real() == 0.0) fail("value", "division by zero");
  if (a.is_integer() && b.is_integer()) {
    const std::int64_t x = a.integer(), y = b.integer();
    if (y == -1) {  // the one quotient that does not fit
      std::int64_t negative = 0;
      if (rest) return std::int64_t{0};
      if (__builtin_sub_overflow(std::int64_t{0}, x, &negative)) fail("value", "a number becomes too large");
      return negative;
    }
    const bool down = x % y != 0 && (x < 0) != (y < 0);
    return rest ? x % y + (down ? y : 0) : x / y - (down ? 1 : 0);
  }
  const double quotient = std::floor(a.real() / b.real());
  return rest ? a.real() - quotient * b.real() : quotient;
}

Value power_of(const Value& a, const Value& b) {
  if (!a.is_integer() || !b.is_integer() || b.integer() < 0) return std::pow(a.real(), b.real());
  std::int64_t result = 1, base = a.integer();
  for (std::int64_t n = b.integer(); n > 0; n >>= 1) {
    if ((n & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail("value", "a number becomes too large");
    if (n > 1 && __builtin_mul_overflow(base, base, &base)) fail("value", "a number becomes too large");
  }
  return result;
}

}  // namespace

Value Machine::evaluate(const Expression& e) {
  const Deeper deeper(*this);
  charge(1);
  line_ = e.line;
  switch (e.kind) {
    case Expression::Kind::constant: return e.value;
    case Expression::Kind::name: return lookup(e.name);
    case Expression::Kind::list:
    case Expression::Kind::tuple: {
      List items;
      for (const ExpressionPtr& part : e.parts) items.push_back(evaluate(*part));
      return Value::list(std::move(items), e.kind == Expression::Kind::tuple);
    }
    case Expression::Kind::dict: {
      Items items;
      for (std::size_t i = 0; i < e.parts.size(); i += 2) {
        Value key = evaluate(*e.parts[i]);
        items.emplace_back(std::move(key), evaluate(*e.parts[i + 1]));
        charge(items.size() / 16);
      }
      return Value::dict(std::move(items));
    }
    case Expression::Kind::attribute: {
      const Value of = evaluate(*e.parts[0]);
      line_ = e.line;
      return attribute(of, e.name);
    }
    case Expression::Kind::item: {
      const Value of = evaluate(*e.parts[0]), key = evaluate(*e.parts[1]);
      line_ = e.line;
      return item(of, key);
    }
    case Expression::Kind::slice: return evaluate_slice(e);
    case Expression::Kind::call: return evaluate_call(e);
    case Expression::Kind::filter: return evaluate_filter(e, Value());
    case Expression::Kind::test: {
      const Value input = evaluate(*e.parts[0]);
      const Arguments arguments = arguments_of(e);
      line_ = e.line;
      return apply_test(*this, e.name, input, arguments);
    }
    case Expression::Kind::unary: {
      const Value value = evaluate(*e.parts[0]);
      if (e.name == "not") return !value.truth();
      return binary(e.name, std::int64_t{0}, value);
    }
    case Expression::Kind::binary: {
      const Value a = evaluate(*e.parts[0]), b = evaluate(*e.parts[1]);
      line_ = e.line;
      return binary(e.name, a, b);
    }
    case Expression::Kind::concatenate: {
      std::string made;
      for (const ExpressionPtr& part : e.parts) made = text(made + to_text(evaluate(*part)));
      return made;
    }
    case Expression::Kind::compare: return evaluate_compare(e);
    case Expression::Kind::logic: {
      Value first = evaluate(*e.parts[0]);
      return first.truth() == (e.name == "or") ? first : evaluate(*e.parts[1]);
    }
    case Expression::Kind::choice:
      if (evaluate(*e.parts[1]).truth()) return evaluate(*e.parts[0]);
      return e.parts[2] != nullptr ? evaluate(*e.parts[2]) : Value(Undefined{"an 'if' without 'else' was false"});
  }
  return {};
}

// The filters of a block begin with a nameless variable: what the block wrote.
Value Machine::evaluate_filter(const Expression& e, Value input) {
  if (e.kind == Expression::Kind::name && e.name.empty()) return input;
  if (e.kind != Expression::Kind::filter) return evaluate(e);
  const Deeper deeper(*this);
  const Value filtered = evaluate_filter(*e.parts[0], std::move(input));
  const Arguments arguments = arguments_of(e);
  line_ = e.line;
  return apply_filter(*this, e.name, filtered, arguments);
}

Arguments Machine::arguments_of(const Expression& e) {
  Arguments out;
  for (std::size_t i = 1; i < e.parts.size(); ++i) out.positional.push_back(evaluate(*e.parts[i]));
  for (const auto& [name, part] : e.named) out.named.emplace_back(name, evaluate(*part));
  return out;
}

Value Machine::evaluate_call(const Expression& e) {
  const Expression& callee = *e.parts[0];
  if (callee.kind == Expression::Kind::attribute) {
    const Value of = evaluate(*callee.parts[0]);
    const Arguments arguments = arguments_of(e);
    line_ = e.line;
    if (has_method(of, callee.name)) return call_method(*this, of, callee.name, arguments);
    const Value held = attribute(of, callee.name);
    if (held.is_undefined()) fail("call", "the method '{}' of {} is not supported", callee.name, of.type());
    return call(held, arguments);
  }
  const Value function = evaluate(callee);
  const Arguments arguments = arguments_of(e);
  line_ = e.line;
  return call(function, arguments);
}

Value Machine::call(const Value& function, const Arguments& arguments) {
  need_defined(function);
  if (function.function() == nullptr) fail("call", "a {} cannot be called", function.type());
  return function.function()->call(*this, arguments);
}

// x.name: what Python has by that name comes before a key of a dict.
Value Machine::attribute(const Value& of, const std::string& name) {
  need_defined(of);
  if (of.loop() != nullptr) return loop_attribute(*of.loop(), name);
  if (has_method(of, name))
    return Function{name, [of, name](Machine& machine, const Arguments& arguments) { return call_method(machine, of, name, arguments); }};
  const Items* items = of.mapping() != nullptr ? &of.mapping()->items : of.space() != nullptr ? &of.space()->items : nullptr;
  if (items != nullptr) {
    charge(items->size() / 16);
    for (const auto& [key, value] : *items)
      if (key.string() != nullptr && *key.string() == name) return value;
  }
  return Undefined{fmt::format("'{}' has no attribute '{}'", of.type(), name)};
}

// x[key]: a key of a dict, an index of a list or text, and otherwise an attribute.
Value Machine::item(const Value& of, const Value& key) {
  need_defined(of);
  if (const Mapping* mapping = of.mapping()) {
    charge(mapping->items.size() / 16);
    if (const Value* found = mapping->find(key)) return *found;
  }
  if (key.is_integer() && (of.sequence() != nullptr || of.string() != nullptr)) {
    const auto items = items_of(of);
    const auto size = static_cast<std::int64_t>(items->items.size());
    const std::int64_t index = key.integer() < 0 ? key.integer() + size : key.integer();
    if (index >= 0 && index < size) return items->items[static_cast<std::size_t>(index)];
    return Undefined{fmt::format("a {} of {} items has none at {}", of.type(), size, key.integer())};
  }
  if (key.string() != nullptr) return attribute(of, *key.string());
  return Undefined{fmt::format("'{}' has no item {}", of.type(), to_repr(key))};
}

Value Machine::evaluate_slice(const Expression& e) {
  const Value of = evaluate(*e.parts[0]);
  need_defined(of);
  if (of.sequence() == nullptr && of.string() == nullptr) fail("slice", "a {} has no slices", of.type());
  std::optional<std::int64_t> given[3];
  for (std::size_t i = 0; i < 3; ++i)
    if (e.parts[i + 1] != nullptr)
      if (const Value value = evaluate(*e.parts[i + 1]); !value.is_none()) given[i] = integer_of(value, "the bound of a slice");
  const auto items = items_of(of);
  const auto size = static_cast<std::int64_t>(items->items.size());
  const std::int64_t step = given[2].value_or(1);
  if (step == 0) fail("slice", "the step of a slice is 0");
  // A bound as Python has it: from the end when negative, and not outside.
  auto bound_at = [&](const std::optional<std::int64_t>& value, std::int64_t otherwise) {
    if (!value) return otherwise;
    const std::int64_t least = step > 0 ? 0 : -1, most = step > 0 ? size : size - 1;
    return std::clamp(*value < 0 ? *value + size : *value, least, most);
  };
  const std::int64_t begin = bound_at(given[0], step > 0 ? 0 : size - 1), end = bound_at(given[1], step > 0 ? size : -1);
  List chosen;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    chosen.push_back(items->items[static_cast<std::size_t>(i)]);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  charge(chosen.size());
  if (of.sequence() != nullptr) return Value::list(std::move(chosen), of.sequence()->tuple);
  std::string made;
  for (const Value& c : chosen) made += *c.string();
  return text(std::move(made));
}

bool contains(Machine& machine, const Value& all, const Value& one) {
  if (const std::string* text = all.string()) {
    machine.charge(text->size() / 64);
    return text->find(string_of(one, "what is looked for in a text")) != std::string::npos;
  }
  if (const Mapping* mapping = all.mapping()) {
    machine.charge(mapping->items.size() / 16);
    return mapping->find(one) != nullptr;
  }
  const auto items = machine.items_of(all);
  machine.charge_walk(all);
  return std::any_of(items->items.begin(), items->items.end(), [&](const Value& item) { return equal(item, one); });
}

bool Machine::evaluate_compare(const Expression& e) {
  Value a = evaluate(*e.parts[0]);
  for (std::size_t i = 0; i < e.names.size(); ++i) {
    Value b = evaluate(*e.parts[i + 1]);
    const std::string& how = e.names[i];
    charge_walk(a), charge_walk(b);
    bool holds = false;
    if (how == "==") holds = equal(a, b);
    else if (how == "!=") holds = !equal(a, b);
    else if (how == "<") holds = less(a, b);
    else if (how == "<=") holds = less(a, b) || equal(a, b);
    else if (how == ">") holds = less(b, a);
    else if (how == ">=") holds = less(b, a) || equal(a, b);
    else holds = contains(*this, b, a) == (how == "in");
    if (!holds) return false;
    a = std::move(b);
  }
  return true;
}

Value Machine::binary(const std::string& how, const Value& a, const Value& b) {
  need_defined(a), need_defined(b);
  if (a.is_number() && b.is_number()) {
    if (how == "/") {
      if (b.real() == 0.0) fail("value", "division by zero");
      return a.real() / b.real();
    }
    if (how == "//" || how == "%") return floor_division(a, b, how == "%");
    if (how == "**") return power_of(a, b);
    if (!a.is_integer() || !b.is_integer())
      return how == "+" ? a.real() + b.real() : how == "-" ? a.real() - b.real() : a.real() * b.real();
    const std::int64_t x = a.integer(), y = b.integer();
    std::int64_t result = 0;
    const bool overflow = how == "+" ? __builtin_add_overflow(x, y, &result)
        : how == "-"                 ? __builtin_sub_overflow(x, y, &result)
                                     : __builtin_mul_overflow(x, y, &result);
    if (overflow) fail("value", "a number becomes too large");
    return result;
  }
  if (how == "+" && a.string() != nullptr && b.string() != nullptr) {
    if (a.is_markup() == b.is_markup() && !a.is_markup()) return text(*a.string() + *b.string());
    auto part = [](const Value& v) { return v.is_markup() ? *v.string() : escaped(*v.string()); };
    return Markup{text(part(a) + part(b))};
  }
  if (how == "+" && a.sequence() != nullptr && b.sequence() != nullptr && a.sequence()->tuple == b.sequence()->tuple) {
    charge(a.sequence()->items.size() + b.sequence()->items.size());
    List items = a.sequence()->items;
    items.insert(items.end(), b.sequence()->items.begin(), b.sequence()->items.end());
    return Value::list(std::move(items), a.sequence()->tuple);
  }
  if (how == "*" && (a.is_integer() || b.is_integer())) {
    const Value &of = a.is_integer() ? b : a, &times = a.is_integer() ? a : b;
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(0, times.integer()));
    if (of.string() != nullptr) {
      const std::string& unit = *of.string();
      if (!unit.empty() && count > longest_text / unit.size()) fail("text", "a text becomes longer than {} bytes", longest_text);
      std::string made;
      for (std::size_t i = 0; i < count && !unit.empty(); ++i) made += unit;
      return text(std::move(made));
    }
    if (of.sequence() != nullptr) {
      List items;
      for (std::size_t i = 0; i < count && !of.sequence()->items.empty(); ++i) {
        charge(of.sequence()->items.size());
        items.insert(items.end(), of.sequence()->items.begin(), of.sequence()->items.end());
      }
      return Value::list(std::move(items), of.sequence()->tuple);
    }
  }
  if (how == "%" && a.string() != nullptr) fail("value", "formatting a text with % is not supported");
  fail("value", "'{}' between {} and {} is not possible", how, a.type(), b.type());
}

}  // namespace transformer::jinja
