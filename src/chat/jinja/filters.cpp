// The filters: {{ value | filter(arguments) }}.

#include <charconv>
#include <cmath>
#include <map>

#include "chat/jinja/machine.h"
#include "chat/jinja/sequence_filters.h"
#include "io/shared/unicode.h"

namespace transformer::jinja {
namespace {

Value length_of(Machine&, const Value& in, const Arguments& args) {
  bound("length", args, {});
  if (const std::string* s = in.string()) return code_points_of(*s);
  if (in.sequence() != nullptr) return static_cast<std::int64_t>(in.sequence()->items.size());
  if (in.mapping() != nullptr) return static_cast<std::int64_t>(in.mapping()->items.size());
  if (in.is_undefined()) return std::int64_t{0};
  fail("length", "a {} has no length", in.type());
}

Value default_of(Machine&, const Value& in, const Arguments& args) {
  const List a = bound("default", args, {"default_value", "boolean"});
  if (in.is_undefined() || (a[1].truth() && !in.truth())) return a[0].is_undefined() ? Value("") : a[0];
  return in;
}

Value trim(Machine& m, const Value& in, const Arguments& args) {
  const List a = bound("trim", args, {"chars"});
  return m.text(stripped(to_text(in), a[0].string(), true, true));
}

Value replace(Machine& m, const Value& in, const Arguments& args) {
  const List a = bound("replace", args, {"old", "new", "count"});
  const std::int64_t count = a[2].is_undefined() || a[2].is_none() ? -1 : integer_of(a[2], "the count of replace");
  return replaced(m, to_text(in), to_text(a[0]), to_text(a[1]), count);
}

Value indent(Machine& m, const Value& in, const Arguments& args) {
  const List a = bound("indent", args, {"width", "first", "blank"});
  std::string space(4, ' ');
  if (a[0].string() != nullptr) space = *a[0].string();
  else if (!a[0].is_undefined())
    space.assign(static_cast<std::size_t>(std::clamp<std::int64_t>(integer_of(a[0], "the width of indent"), 0, 1000)), ' ');
  const std::string text = to_text(in);
  std::string made;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (begin == 0 ? a[1].truth() : (end > begin || a[2].truth())) made += space;
    made.append(text, begin, end - begin);
    if (made.size() > longest_text) break;  // refused below
    if (end < text.size()) made += '\n';
    begin = end + 1;
  }
  return m.text(std::move(made));
}

Value tojson(Machine& m, const Value& in, const Arguments& args) {
  const List a = bound("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.ensure_ascii = a[0].truth(), .sort_keys = a[3].truth()};
  if (a[1].string() != nullptr) style.indent = *a[1].string();
  else if (a[1].is_integer()) style.indent = std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(a[1].integer(), 0, 1000)), ' ');
  if (style.indent) style.between = ",";
  if (const Sequence* two = a[2].sequence(); two != nullptr && two->items.size() == 2) {
    style.between = string_of(two->items[0], "the separators of tojson");
    style.after_key = string_of(two->items[1], "the separators of tojson");
  }
  return m.text(to_json_text(in, style));
}

Value to_int(Machine&, const Value& in, const Arguments& args) {
  const List a = bound("int", args, {"default", "base"});
  const Value otherwise = a[0].is_undefined() ? Value(std::int64_t{0}) : a[0];
  if (in.is_integer()) return in.integer();
  double real = 0.0;
  if (in.get<double>() != nullptr) {
    real = in.real();
  } else if (const std::string* s = in.string()) {
    const std::string t = stripped(*s, nullptr, true, true);
    const char *begin = t.data() + (t.starts_with('+') ? 1 : 0), *end = t.data() + t.size();
    std::int64_t number = 0;
    const int base = a[1].is_undefined() ? 10 : static_cast<int>(std::clamp<std::int64_t>(integer_of(a[1], "the base of int"), 2, 36));
    if (const auto [at, error] = std::from_chars(begin, end, number, base); error == std::errc() && at == end) return number;
    if (const auto [at, error] = std::from_chars(begin, end, real); error != std::errc() || at != end) return otherwise;
  } else {
    return otherwise;
  }
  return std::abs(real) < 9e18 ? Value(static_cast<std::int64_t>(real)) : otherwise;
}

Value to_float(Machine&, const Value& in, const Arguments& args) {
  const List a = bound("float", args, {"default"});
  if (in.is_number()) return in.real();
  if (const std::string* s = in.string()) {
    const std::string t = stripped(*s, nullptr, true, true);
    double real = 0.0;
    const auto [at, error] = std::from_chars(t.data() + (t.starts_with('+') ? 1 : 0), t.data() + t.size(), real);
    if (error == std::errc() && at == t.data() + t.size()) return real;
  }
  return a[0].is_undefined() ? Value(0.0) : a[0];
}

Value round_to(Machine&, const Value& in, const Arguments& args) {
  const List a = bound("round", args, {"precision", "method"});
  if (!in.is_number()) fail("round", "a {} cannot be rounded", in.type());
  const double scale = std::pow(10.0, a[0].is_undefined() ? 0.0 : static_cast<double>(integer_of(a[0], "the precision of round")));
  const std::string method = a[1].is_undefined() ? "common" : string_of(a[1], "the method of round");
  const double scaled = in.real() * scale;
  if (method == "ceil") return std::ceil(scaled) / scale;
  if (method == "floor") return std::floor(scaled) / scale;
  if (method != "common") fail("round", "the method '{}' is not known: expected common, ceil or floor", method);
  return std::nearbyint(scaled) / scale;  // halves to the even side
}

Value absolute(Machine&, const Value& in, const Arguments& args) {
  bound("abs", args, {});
  if (in.is_integer() && in.integer() != std::numeric_limits<std::int64_t>::min()) return std::abs(in.integer());
  if (in.is_number()) return std::abs(in.real());
  fail("abs", "a {} has no absolute value", in.type());
}

Value escape(Machine& m, const Value& in, const Arguments& args) {
  bound("escape", args, {});
  return in.is_markup() ? in : Value(Markup{m.text(escaped(to_text(in)))});
}

Value safe(Machine& m, const Value& in, const Arguments& args) {
  bound("safe", args, {});
  return Markup{m.text(to_text(in))};
}

// Every word with a capital, as Jinja splits words.
Value title(Machine& m, const Value& in, const Arguments& args) {
  bound("title", args, {});
  std::string made, word;
  auto flush = [&] { made += capitalized(word), word.clear(); };
  for (const char c : to_text(in)) {
    if (c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || c == ' ' || (c >= '\t' && c <= '\r')) flush(), made += c;
    else word += c;
  }
  flush();
  return m.text(std::move(made));
}

// A filter of a text without arguments.
template <std::string (*change)(const std::string&)>
Value text_filter(Machine& m, const Value& in, const Arguments& args) {
  bound("the filter", args, {});
  return m.text(change(to_text(in)));
}

std::string same(const std::string& text) { return text; }

using Filter = Value (*)(Machine&, const Value&, const Arguments&);
const std::map<std::string_view, Filter>& filters() {
  static const std::map<std::string_view, Filter> all = [] {
    std::map<std::string_view, Filter> list{{"length", length_of},
                                            {"count", length_of},
                                            {"default", default_of},
                                            {"d", default_of},
                                            {"trim", trim},
                                            {"replace", replace},
                                            {"indent", indent},
                                            {"tojson", tojson},
                                            {"int", to_int},
                                            {"float", to_float},
                                            {"round", round_to},
                                            {"abs", absolute},
                                            {"escape", escape},
                                            {"e", escape},
                                            {"title", title},
                                            {"upper", text_filter<upper>},
                                            {"lower", text_filter<lower>},
                                            {"capitalize", text_filter<capitalized>},
                                            {"string", text_filter<same>},
                                            {"safe", safe}};
    for (const auto& [name, filter] : sequence_filters()) list.emplace(name, filter);
    return list;
  }();
  return all;
}

}  // namespace

Value apply_filter(Machine& machine, const std::string& name, const Value& input, const Arguments& arguments) {
  machine.charge(1 + (input.string() != nullptr ? input.string()->size() / 64 : 0));
  const auto found = filters().find(name);
  if (found == filters().end()) fail("filter", "the filter '{}' is not supported", name);
  return found->second(machine, input, arguments);
}

}  // namespace transformer::jinja
