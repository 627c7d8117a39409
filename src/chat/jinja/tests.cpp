// The tests: {{ value is test }}; and the functions that every template has.

#include <map>

#include "chat/jinja/machine.h"

namespace transformer::jinja {
namespace {

const Value& other(const Arguments& args) {
  if (args.positional.size() != 1 || !args.named.empty()) fail("test", "the test needs one argument");
  return args.positional.front();
}

std::int64_t whole(const Value& v) { return integer_of(v, "a test of divisibility"); }

bool divides(const Value& v, std::int64_t by) {
  if (by == 0) fail("test", "division by zero");
  return by == -1 || whole(v) % by == 0;
}

bool is_iterable(const Value& v) { return v.string() != nullptr || v.sequence() != nullptr || v.mapping() != nullptr || v.is_undefined(); }

using Test = bool (*)(Machine&, const Value&, const Arguments&);
const std::map<std::string_view, Test>& tests() {
  using M = Machine&;
  using V = const Value&;
  using A = const Arguments&;
  static const std::map<std::string_view, Test> all{{"defined",
                                                     [](M, V v, A) {
    return !v.is_undefined();
                                                     }},
                                                    {"undefined",
                                                     [](M, V v, A) {
    return v.is_undefined();
                                                     }},
      {"none", [](M, V v, A) { return v.is_none(); }}, {"string", [](M, V v, A) { return v.string() != nullptr; }},
      {"mapping", [](M, V v, A) { return v.mapping() != nullptr; }}, {"sequence", [](M, V v, A) { return is_iterable(v); }},
      {"iterable", [](M, V v, A) { return is_iterable(v); }}, {"number", [](M, V v, A) { return v.is_number(); }},
      {"integer", [](M, V v, A) { return v.get<std::int64_t>() != nullptr; }},
      {"float", [](M, V v, A) { return v.get<double>() != nullptr; }}, {"boolean", [](M, V v, A) { return v.get<bool>() != nullptr; }},
      {"true", [](M, V v, A) { return v.get<bool>() != nullptr && *v.get<bool>(); }},
      {"false", [](M, V v, A) { return v.get<bool>() != nullptr && !*v.get<bool>(); }},
      {"callable", [](M, V v, A) { return v.function() != nullptr; }}, {"odd", [](M, V v, A) { return whole(v) % 2 != 0; }},
      {"even", [](M, V v, A) { return whole(v) % 2 == 0; }}, {"divisibleby", [](M, V v, A a) { return divides(v, whole(other(a))); }},
      {"lower", [](M, V v, A) { return to_text(v) == lower(to_text(v)) && to_text(v) != upper(to_text(v)); }},
      {"upper", [](M, V v, A) { return to_text(v) == upper(to_text(v)) && to_text(v) != lower(to_text(v)); }},
      {"in", [](M m, V v, A a) { return contains(m, other(a), v); }}, {"equalto", [](M, V v, A a) { return equal(v, other(a)); }},
      {"eq", [](M, V v, A a) { return equal(v, other(a)); }}, {"==", [](M, V v, A a) { return equal(v, other(a)); }},
      {"ne", [](M, V v, A a) { return !equal(v, other(a)); }}, {"!=", [](M, V v, A a) { return !equal(v, other(a)); }},
      {"lt", [](M, V v, A a) { return less(v, other(a)); }}, {"lessthan", [](M, V v, A a) { return less(v, other(a)); }},
      {"<", [](M, V v, A a) { return less(v, other(a)); }}, {"gt", [](M, V v, A a) { return less(other(a), v); }},
      {"greaterthan", [](M, V v, A a) { return less(other(a), v); }}, {">", [](M, V v, A a) { return less(other(a), v); }},
      {"le", [](M, V v, A a) { return !less(other(a), v); }}, {"<=", [](M, V v, A a) { return !less(other(a), v); }},
      {"ge", [](M, V v, A a) { return !less(v, other(a)); }}, {">=", [](M, V v, A a) { return !less(v, other(a)); }},
      {"sameas", [](M, V v, A a) { return v.type() == other(a).type() && equal(v, other(a)); }}};
  return all;
}

Value range(Machine& m, const Arguments& args) {
  if (!args.named.empty() || args.positional.empty() || args.positional.size() > 3) fail("range", "range takes one to three numbers");
  std::int64_t numbers[3] = {0, 0, 1};
  if (args.positional.size() == 1) numbers[1] = integer_of(args.positional[0], "range");
  else
    for (std::size_t i = 0; i < args.positional.size(); ++i) numbers[i] = integer_of(args.positional[i], "range");
  const auto [begin, end, step] = numbers;
  if (step == 0) fail("range", "the step of range is 0");
  List items;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (items.size() == 100000) fail("range", "a range has more than 100000 numbers");
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  m.charge(items.size());
  return Value::list(std::move(items));
}

// dict(a=1) and namespace(a=1), also with a dict to begin with.
Items named_items(std::string_view what, const Arguments& args) {
  Items items;
  if (args.positional.size() > 1) fail(what, "{} takes one dict at most", what);
  if (!args.positional.empty()) {
    if (args.positional[0].mapping() == nullptr) fail(what, "{} takes a dict, got {}", what, args.positional[0].type());
    items = args.positional[0].mapping()->items;
  }
  for (const auto& [name, value] : args.named) items.emplace_back(Value(name), value);
  return Value::dict(std::move(items)).mapping()->items;
}

Value strftime_now(Machine& m, const Arguments& args) {
  const List a = bound("strftime_now", args, {"format"});
  const std::string& format = string_of(a[0], "the format of strftime_now");
  if (format.size() > 200) fail("strftime_now", "the format has {} characters: expected 200 at most", format.size());
  // A mark at the end tells an empty result from one that did not fit.
  char made[4096];
  const std::size_t size = std::strftime(made, sizeof made, (format + "|").c_str(), &m.now());
  if (size == 0) fail("strftime_now", "the time in the format '{}' is too long", format);
  return std::string(made, size - 1);
}

}  // namespace

bool apply_test(Machine& machine, const std::string& name, const Value& input, const Arguments& arguments) {
  machine.charge(1), machine.charge_walk(input);
  const auto found = tests().find(name);
  if (found == tests().end()) fail("test", "the test '{}' is not supported", name);
  return found->second(machine, input, arguments);
}

Items globals() {
  Items all;
  auto add = [&](const char* name, auto&& function) { all.emplace_back(Value(name), Function{name, function}); };
  add("range", range);
  add("dict", [](Machine&, const Arguments& args) { return Value::dict(named_items("dict", args)); });
  add("namespace", [](Machine&, const Arguments& args) -> Value {
    auto space = std::make_shared<Namespace>();
    space->items = named_items("namespace", args);
    return space;
  });
  add("raise_exception", [](Machine&, const Arguments& args) -> Value {
    const List a = bound("raise_exception", args, {"message"});
    fail("refused", "the template refuses this: {}", to_text(a[0]));
  });
  add("strftime_now", strftime_now);
  return all;
}

List bound(std::string_view what, const Arguments& arguments, std::initializer_list<std::string_view> names) {
  List out(names.size());
  if (arguments.positional.size() > names.size())
    fail("arguments", "{} takes at most {} arguments, {} were given", what, names.size(), arguments.positional.size());
  std::copy(arguments.positional.begin(), arguments.positional.end(), out.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) fail("arguments", "{} has no argument '{}'", what, name);
    out[static_cast<std::size_t>(at - names.begin())] = value;
  }
  return out;
}

std::int64_t integer_of(const Value& value, std::string_view what) {
  if (!value.is_integer()) fail("value", "{} is {}: expected an integer", what, value.type());
  return value.integer();
}

const std::string& string_of(const Value& value, std::string_view what) {
  if (value.string() == nullptr) fail("value", "{} is {}: expected text", what, value.type());
  return *value.string();
}

}  // namespace transformer::jinja
