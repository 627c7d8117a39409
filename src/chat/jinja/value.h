#pragma once
// The values of a template: what Python has, as far as templates see it. Values do not change once made, except namespaces.

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace transformer::jinja {

class Value;
class Machine;
using List = std::vector<Value>;
using Items = std::vector<std::pair<Value, Value>>;  // of a dict, in the order they were put in

// Bounds, so that no walk over a value goes deep or on for long: lists in lists, and items with those inside them (one that
// stands at several places counts at each); 64 bytes of text count as one.
inline constexpr int deepest_value = 100;
inline constexpr std::size_t largest_value = 4'000'000;
inline constexpr std::size_t longest_text = std::size_t{16} << 20;  // bytes

struct Undefined {
  std::string what = {};  // for messages: "'x' is undefined"
};
struct None {};
struct Extent {
  int depth = 1;
  std::size_t size = 1;
  void add(const Value& item);  // Error when it becomes too much
};
// Text that the filters safe and escape gave: what is added to it with + is escaped for HTML, as Python's Markup does.
struct Markup {
  std::string text;
};
struct Sequence {
  List items;
  bool tuple = false;
  Extent extent = {};
};
struct Mapping {
  Items items;
  Extent extent = {};
  const Value* find(const Value& key) const;
};
struct Namespace {
  Items items;
};
// The variable `loop`.
struct LoopState {
  std::shared_ptr<const Sequence> items;
  std::size_t index = 0;
};
struct Arguments;
struct Function {
  std::string name;
  std::function<Value(Machine&, const Arguments&)> call;
};

class Value {
 public:
  Value() : data_(Undefined{}) {}
  Value(Undefined u) : data_(std::move(u)) {}
  Value(None) : data_(None{}) {}
  Value(bool b) : data_(b) {}
  Value(std::int64_t i) : data_(i) {}
  Value(double d) : data_(d) {}
  Value(std::string s) : data_(std::make_shared<const std::string>(std::move(s))) {}
  Value(std::string_view s) : Value(std::string(s)) {}
  Value(const char* s) : Value(std::string(s)) {}
  Value(Markup m) : data_(std::make_shared<const Markup>(std::move(m))) {}
  Value(std::shared_ptr<Namespace> n) : data_(std::move(n)) {}
  Value(std::shared_ptr<const LoopState> l) : data_(std::move(l)) {}
  Value(Function f) : data_(std::make_shared<const Function>(std::move(f))) {}
  // Error when they are too deep or too large, or hold a namespace or a loop (which could then hold themselves).
  static Value list(List items, bool tuple = false);
  static Value dict(Items items);  // of equal keys the last value counts, at the place of the first
  static Value of(const nlohmann::ordered_json& json, int level = 0);

  template <class T>
  const T* get() const {
    return std::get_if<T>(&data_);
  }
  bool is_undefined() const { return get<Undefined>() != nullptr; }
  bool is_none() const { return get<None>() != nullptr; }
  bool is_markup() const { return pointee<const Markup>() != nullptr; }
  const std::string* string() const { return is_markup() ? &pointee<const Markup>()->text : pointee<const std::string>(); }
  const Sequence* sequence() const { return pointee<const Sequence>(); }
  std::shared_ptr<const Sequence> shared_sequence() const { return std::get<std::shared_ptr<const Sequence>>(data_); }
  const Mapping* mapping() const { return pointee<const Mapping>(); }
  Namespace* space() const { return pointee<Namespace>(); }
  const LoopState* loop() const { return pointee<const LoopState>(); }
  const Function* function() const { return pointee<const Function>(); }
  // A bool is an integer too, as in Python.
  bool is_integer() const { return get<bool>() != nullptr || get<std::int64_t>() != nullptr; }
  bool is_number() const { return is_integer() || get<double>() != nullptr; }
  std::int64_t integer() const { return get<bool>() != nullptr ? *get<bool>() : *get<std::int64_t>(); }
  double real() const { return get<double>() != nullptr ? *get<double>() : static_cast<double>(integer()); }

  bool truth() const;
  Extent extent() const;
  std::string_view type() const;  // Python's name of it: "int", "str", "dict"

 private:
  template <class T>
  T* pointee() const {
    const auto* p = std::get_if<std::shared_ptr<T>>(&data_);
    return p == nullptr ? nullptr : p->get();
  }

  std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const std::string>, std::shared_ptr<const Markup>,
               std::shared_ptr<const Sequence>, std::shared_ptr<const Mapping>, std::shared_ptr<Namespace>,
               std::shared_ptr<const LoopState>, std::shared_ptr<const Function>>
      data_;
};

struct Arguments {
  List positional = {};
  std::vector<std::pair<std::string, Value>> named = {};
};

bool equal(const Value& a, const Value& b);
bool less(const Value& a, const Value& b);  // Error when Python has no order between them

std::string to_text(const Value& value);  // str(value); "" for undefined
std::string to_repr(const Value& value);  // repr(value)

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent = {};  // of one level; none: on one line
  std::string between = ", ", after_key = ": ";
};
std::string to_json_text(const Value& value, const JsonStyle& style);  // json.dumps

}  // namespace transformer::jinja
