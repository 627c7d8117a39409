#pragma once
// Runs a template. What a hostile template can use is bounded: steps, the size of texts and lists, and depth.

#include <algorithm>
#include <ctime>
#include <initializer_list>

#include "chat/jinja/syntax.h"
#include "transformer/core/error.h"

namespace transformer::jinja {

inline constexpr std::size_t most_steps = 4'000'000;  // an operation, an item, 64 bytes of text are one
inline constexpr int deepest_call = 400;              // blocks, expressions and macros inside each other

class Machine {
 public:
  Machine(std::string_view where, Items variables, std::tm now);
  std::string render(const Body& body);

  // --- for filters, tests and methods ----------------------------------------------------------------------------------
  void charge(std::size_t steps);
  void charge_walk(const Value& value) { charge(value.extent().size / 16); }  // before it is compared
  // The same text, counted. Error when it is too long.
  std::string text(std::string made);
  // What a for loop goes over: the items of a list, the keys of a dict, the characters of a text.
  std::shared_ptr<const Sequence> items_of(const Value& value);
  Value attribute(const Value& of, const std::string& name);
  Value item(const Value& of, const Value& key);
  Value call(const Value& function, const Arguments& arguments);
  const std::tm& now() const { return now_; }

 private:
  enum class Flow : std::uint8_t { on, leave, again };
  using Frame = Items;

  struct Deeper {
    Machine& machine;
    explicit Deeper(Machine& m) : machine(m) {
      if (++m.depth_ > deepest_call) fail("depth", "blocks, expressions and macros are more than {} levels deep", deepest_call);
    }
    ~Deeper() { --machine.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
  };

  Flow run(const Body& body);
  Flow run(const Statement& statement);
  Flow run_loop(const Statement& statement);
  void run_set(const Statement& statement, Value value);
  void define_macro(const Statement& statement);
  Value call_macro(const Statement& macro, const Arguments& arguments);
  std::string captured(const Body& body);  // what it writes, with variables of its own
  void write(std::string_view made);

  Value evaluate(const Expression& e);
  Value evaluate_call(const Expression& e);
  Value evaluate_slice(const Expression& e);
  Value evaluate_filter(const Expression& e, Value input);
  bool evaluate_compare(const Expression& e);
  Value binary(const std::string& how, const Value& a, const Value& b);
  Arguments arguments_of(const Expression& e);

  Value lookup(const std::string& name) const;
  void assign(const std::string& name, Value value);
  void unpack(const std::vector<std::string>& names, const Value& value);

  std::string where_;
  std::tm now_;
  Frame globals_;
  std::vector<Frame> frames_;  // the first is the template's
  std::size_t base_ = 0;       // of the macro that runs: it sees its own frames and the template's
  std::string* out_ = nullptr;
  std::size_t steps_ = 0;
  int line_ = 1, depth_ = 0;
};

Value apply_filter(Machine& machine, const std::string& name, const Value& input, const Arguments& arguments);
bool apply_test(Machine& machine, const std::string& name, const Value& input, const Arguments& arguments);
bool has_method(const Value& of, const std::string& name);
Value call_method(Machine& machine, const Value& of, const std::string& name, const Arguments& arguments);
Items globals();  // range, namespace, dict, raise_exception, strftime_now

// The arguments in the order of their names, undefined where one was not given.
List bound(std::string_view what, const Arguments& arguments, std::initializer_list<std::string_view> names);
// Value as a list index or count; Error says what it was needed for.
std::int64_t integer_of(const Value& value, std::string_view what);
const std::string& string_of(const Value& value, std::string_view what);

bool contains(Machine& machine, const Value& all, const Value& one);  // the operator in

std::int64_t code_points_of(std::string_view text);  // how many
std::string escaped(const std::string& text);        // for HTML
std::string upper(const std::string& text);
std::string lower(const std::string& text);
std::string capitalized(const std::string& text);
// Without the characters of `which` (white space if null) at its ends.
std::string stripped(const std::string& text, const std::string* which, bool left, bool right);
std::string replaced(Machine& machine, const std::string& text, const std::string& from, const std::string& to, std::int64_t count);

}  // namespace transformer::jinja
