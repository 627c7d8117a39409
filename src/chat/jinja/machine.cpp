#include "chat/jinja/machine.h"

#include "io/shared/unicode.h"

namespace transformer::jinja {

Machine::Machine(std::string_view where, Items variables, std::tm now)
    : where_(where), now_(now), globals_(globals()), frames_{std::move(variables)} {}

std::string Machine::render(const Body& body) {
  std::string out;
  out_ = &out;
  try {
    run(body);
  } catch (const Error& error) {
    if (error.where() == where_) throw;
    const std::string_view what = error.what();
    fail(where_, "line {}: {}", line_, what.substr(std::min(what.size(), error.where().size() + 2)));
  }
  return out;
}

void Machine::charge(std::size_t steps) {
  steps_ += steps;
  if (steps_ > most_steps) fail("steps", "the template takes more than {} steps", most_steps);
}

std::string Machine::text(std::string made) {
  if (made.size() > longest_text) fail("text", "a text becomes longer than {} bytes", longest_text);
  charge(made.size() / 64);
  return made;
}

void Machine::write(std::string_view made) {
  if (out_->size() + made.size() > longest_text) fail("text", "the text becomes longer than {} bytes", longest_text);
  charge(made.size() / 64);
  *out_ += made;
}

Value Machine::lookup(const std::string& name) const {
  auto in = [&](const Frame& frame) -> const Value* {
    for (const auto& [key, value] : frame)
      if (*key.string() == name) return &value;
    return nullptr;
  };
  for (std::size_t i = frames_.size(); i-- > base_;)
    if (const Value* found = in(frames_[i])) return *found;
  if (const Value* found = in(frames_.front())) return *found;
  if (const Value* found = in(globals_)) return *found;
  return Undefined{fmt::format("'{}' is undefined", name)};
}

void Machine::assign(const std::string& name, Value value) {
  Frame& frame = frames_.back();
  for (auto& [key, old] : frame)
    if (*key.string() == name) return void(old = std::move(value));
  frame.emplace_back(Value(name), std::move(value));
}

void Machine::unpack(const std::vector<std::string>& names, const Value& value) {
  if (names.size() == 1) return assign(names[0], value);
  const auto items = items_of(value);
  if (items->items.size() != names.size()) fail("unpack", "{} values given for {} names", items->items.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) assign(names[i], items->items[i]);
}

std::string Machine::captured(const Body& body) {
  std::string made;
  std::string* const before = std::exchange(out_, &made);
  frames_.emplace_back();
  run(body);
  frames_.pop_back();
  out_ = before;
  return made;
}

Machine::Flow Machine::run(const Body& body) {
  const Deeper deeper(*this);
  for (const Statement& statement : body)
    if (const Flow flow = run(statement); flow != Flow::on) return flow;
  return Flow::on;
}

Machine::Flow Machine::run(const Statement& s) {
  charge(1);
  line_ = s.line;
  switch (s.kind) {
    case Statement::Kind::data: write(s.text); break;
    case Statement::Kind::output: write(to_text(evaluate(*s.expression))); break;
    case Statement::Kind::choose:
      for (const Branch& branch : s.branches)
        if (branch.condition == nullptr || evaluate(*branch.condition).truth()) return run(branch.body);
      break;
    case Statement::Kind::loop: return run_loop(s);
    case Statement::Kind::set: run_set(s, evaluate(*s.expression)); break;
    case Statement::Kind::set_text: {
      Value made = text(captured(s.body));
      run_set(s, s.expression != nullptr ? evaluate_filter(*s.expression, std::move(made)) : std::move(made));
      break;
    }
    case Statement::Kind::macro: define_macro(s); break;
    case Statement::Kind::scope: {
      Frame frame;
      for (std::size_t i = 0; i < s.targets.size(); ++i) frame.emplace_back(Value(s.targets[i]), evaluate(*s.defaults[i]));
      frames_.push_back(std::move(frame));
      const Flow flow = run(s.body);
      frames_.pop_back();
      return flow;
    }
    case Statement::Kind::filter: write(to_text(evaluate_filter(*s.expression, text(captured(s.body))))); break;
    case Statement::Kind::leave: return Flow::leave;
    case Statement::Kind::again: return Flow::again;
  }
  return Flow::on;
}

Machine::Flow Machine::run_loop(const Statement& s) {
  auto items = items_of(evaluate(*s.expression));
  if (s.condition != nullptr) {
    List kept;
    frames_.emplace_back();
    for (const Value& item : items->items) {
      unpack(s.targets, item);
      if (evaluate(*s.condition).truth()) kept.push_back(item);
    }
    frames_.pop_back();
    items = Value::list(std::move(kept)).shared_sequence();
  }
  if (items->items.empty()) return run(s.otherwise);
  Flow flow = Flow::on;
  for (std::size_t i = 0; i < items->items.size() && flow != Flow::leave; ++i) {
    charge(1);
    frames_.emplace_back();
    unpack(s.targets, items->items[i]);
    assign("loop", std::make_shared<const LoopState>(LoopState{items, i}));
    flow = run(s.body);
    frames_.pop_back();
  }
  return Flow::on;
}

void Machine::run_set(const Statement& s, Value value) {
  const std::size_t dot = s.targets[0].find('.');
  if (dot == std::string::npos) return unpack(s.targets, value);
  const std::string name = s.targets[0].substr(0, dot);
  const Value holder = lookup(name);
  Namespace* const space = holder.space();
  if (space == nullptr) fail("set", "'{}' is {}: only attributes of a namespace can be set", name, holder.type());
  // A check that it can be held, for nothing else.
  Value::list({value});
  const Value key = s.targets[0].substr(dot + 1);
  for (auto& [k, old] : space->items)
    if (equal(k, key)) return void(old = std::move(value));
  space->items.emplace_back(key, std::move(value));
}

void Machine::define_macro(const Statement& s) {
  // The tree lives as long as the machine runs.
  assign(s.text, Function{s.text, [&s](Machine& machine, const Arguments& arguments) { return machine.call_macro(s, arguments); }});
}

Value Machine::call_macro(const Statement& s, const Arguments& arguments) {
  const Deeper deeper(*this);
  if (arguments.positional.size() > s.targets.size())
    fail("macro", "the macro '{}' takes {} arguments, {} were given", s.text, s.targets.size(), arguments.positional.size());
  for (const auto& [name, value] : arguments.named)
    if (std::find(s.targets.begin(), s.targets.end(), name) == s.targets.end())
      fail("macro", "the macro '{}' has no parameter '{}'", s.text, name);
  const std::size_t base = std::exchange(base_, frames_.size());
  frames_.emplace_back();
  for (std::size_t i = 0; i < s.targets.size(); ++i) {
    Value value = Undefined{fmt::format("the parameter '{}' was not given", s.targets[i])};
    const auto named = std::find_if(arguments.named.begin(), arguments.named.end(), [&](const auto& a) { return a.first == s.targets[i]; });
    if (i < arguments.positional.size()) value = arguments.positional[i];
    else if (named != arguments.named.end()) value = named->second;
    else if (s.defaults[i] != nullptr) value = evaluate(*s.defaults[i]);
    assign(s.targets[i], std::move(value));
  }
  std::string made = captured(s.body);
  frames_.pop_back();
  base_ = base;
  return text(std::move(made));
}

std::shared_ptr<const Sequence> Machine::items_of(const Value& value) {
  if (value.sequence() != nullptr) return value.shared_sequence();
  List items;
  if (const Mapping* mapping = value.mapping()) {
    for (const auto& [key, held] : mapping->items) items.push_back(key);
  } else if (const std::string* string = value.string()) {
    charge(string->size());
    for (const char32_t c : to_code_points(*string)) items.emplace_back(to_utf8({&c, 1}));
  } else if (!value.is_undefined()) {
    fail("items", "a {} has no items to go over", value.type());
  }
  charge(items.size());
  return Value::list(std::move(items)).shared_sequence();
}

}  // namespace transformer::jinja
