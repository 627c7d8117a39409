#include "chat/jinja/sequence_filters.h"

namespace transformer::jinja {
namespace {

// item.a.b for "a.b"; undefined stays undefined.
Value attribute_of(Machine& m, Value value, const Value& path) {
  if (path.is_integer()) return m.item(value, path);
  const std::string& names = string_of(path, "an attribute");
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('.', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    if (!name.empty() && name.size() < 18 && name.find_first_not_of("0123456789") == std::string::npos)
      value = m.item(value, static_cast<std::int64_t>(std::stoll(name)));
    else value = m.item(value, name);
    begin = end + 1;
  }
  return value;
}

// What an item is ordered or told apart by: its attribute, texts in lower case unless case counts.
Value key_of(Machine& m, const Value& item, const Value& attribute, bool case_sensitive) {
  Value key = attribute.is_undefined() || attribute.is_none() ? item : attribute_of(m, item, attribute);
  return key.string() != nullptr && !case_sensitive ? Value(m.text(lower(*key.string()))) : key;
}

// Indices of items in the order of their keys.
std::vector<std::size_t> order_of(Machine& m, const List& keys, bool reverse) {
  std::vector<std::size_t> order(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) order[i] = i;
  for (const Value& key : keys) m.charge(8 + key.extent().size);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return reverse ? less(keys[b], keys[a]) : less(keys[a], keys[b]); });
  return order;
}

Value first(Machine& m, const Value& in, const Arguments& args) {
  bound("first", args, {});
  const auto items = m.items_of(in);
  return items->items.empty() ? Value(Undefined{"an empty list has no first item"}) : items->items.front();
}

Value last(Machine& m, const Value& in, const Arguments& args) {
  bound("last", args, {});
  const auto items = m.items_of(in);
  return items->items.empty() ? Value(Undefined{"an empty list has no last item"}) : items->items.back();
}

Value list(Machine& m, const Value& in, const Arguments& args) {
  bound("list", args, {});
  return Value::list(m.items_of(in)->items);
}

Value reverse(Machine& m, const Value& in, const Arguments& args) {
  bound("reverse", args, {});
  List items = m.items_of(in)->items;
  m.charge(items.size());
  std::reverse(items.begin(), items.end());
  if (in.string() == nullptr) return Value::list(std::move(items));
  std::string made;
  for (const Value& c : items) made += *c.string();
  return m.text(std::move(made));
}

Value join(Machine& m, const Value& in, const Arguments& args) {
  const List a = bound("join", args, {"d", "attribute"});
  const std::string between = to_text(a[0]);
  std::string made;
  const auto items = m.items_of(in);
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    const Value& item = items->items[i];
    made += (i > 0 ? between : "") + to_text(a[1].is_undefined() || a[1].is_none() ? item : attribute_of(m, item, a[1]));
    m.charge(1);
    if (made.size() > longest_text) break;  // refused below
  }
  return m.text(std::move(made));
}

Value items(Machine& m, const Value& in, const Arguments& args) {
  bound("items", args, {});
  if (in.is_undefined()) return Value::list({});
  if (in.mapping() == nullptr) fail("items", "a {} is not a dict", in.type());
  return call_method(m, in, "items", {});
}

Value sort(Machine& m, const Value& in, const Arguments& args) {
  const List a = bound("sort", args, {"reverse", "case_sensitive", "attribute"});
  const auto all = m.items_of(in);
  List keys, sorted;
  for (const Value& item : all->items) keys.push_back(key_of(m, item, a[2], a[1].truth()));
  for (std::size_t i : order_of(m, keys, a[0].truth())) sorted.push_back(all->items[i]);
  return Value::list(std::move(sorted));
}

Value dictsort(Machine& m, const Value& in, const Arguments& args) {
  const List a = bound("dictsort", args, {"case_sensitive", "by", "reverse"});
  if (in.mapping() == nullptr) fail("dictsort", "a {} is not a dict", in.type());
  const bool by_value = a[1].string() != nullptr && *a[1].string() == "value";
  List keys, sorted;
  const Items& all = in.mapping()->items;
  for (const auto& [key, value] : all) keys.push_back(key_of(m, by_value ? value : key, {}, a[0].truth()));
  for (std::size_t i : order_of(m, keys, a[2].truth())) sorted.push_back(Value::list({all[i].first, all[i].second}, true));
  return Value::list(std::move(sorted));
}

Value unique(Machine& m, const Value& in, const Arguments& args) {
  const List a = bound("unique", args, {"case_sensitive", "attribute"});
  List keys, kept;
  const auto all = m.items_of(in);
  for (const Value& item : all->items) {
    Value key = key_of(m, item, a[1], a[0].truth());
    m.charge(1 + keys.size() / 16 * key.extent().size);
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return equal(k, key); })) continue;
    keys.push_back(std::move(key));
    kept.push_back(item);
  }
  return Value::list(std::move(kept));
}

template <bool largest>
Value extreme(Machine& m, const Value& in, const Arguments& args) {
  const List a = bound(largest ? "max" : "min", args, {"case_sensitive", "attribute"});
  Value best = Undefined{"an empty list has no largest or smallest item"}, best_key;
  const auto all = m.items_of(in);
  for (std::size_t i = 0; i < all->items.size(); ++i) {
    Value key = key_of(m, all->items[i], a[1], a[0].truth());
    m.charge(1), m.charge_walk(key);
    if (i > 0 && !(largest ? less(best_key, key) : less(key, best_key))) continue;
    best = all->items[i], best_key = std::move(key);
  }
  return best;
}

Value sum(Machine& m, const Value& in, const Arguments& args) {
  const List a = bound("sum", args, {"attribute", "start"});
  std::int64_t whole = 0;
  double real = 0.0;
  bool exact = true;
  auto add = [&](const Value& v) {
    if (!v.is_number()) fail("sum", "a {} cannot be added", v.type());
    real += v.real();
    exact = exact && v.is_integer();
    if (exact && __builtin_add_overflow(whole, v.integer(), &whole)) fail("sum", "a number becomes too large");
  };
  if (!a[1].is_undefined()) add(a[1]);
  const auto all = m.items_of(in);
  for (const Value& item : all->items) add(a[0].is_undefined() || a[0].is_none() ? item : attribute_of(m, item, a[0]));
  return exact ? Value(whole) : Value(real);
}

// map('filter', …) or map(attribute='name', default=…). Nothing has no items here: none, 0 and the like too.
Value map(Machine& m, const Value& in, const Arguments& args) {
  List made;
  if (!in.truth()) return Value::list({});
  const auto all = m.items_of(in);
  if (!args.positional.empty()) {
    Arguments rest = args;
    const std::string name = string_of(rest.positional.front(), "the filter of map");
    rest.positional.erase(rest.positional.begin());
    for (const Value& item : all->items) made.push_back(apply_filter(m, name, item, rest));
    return Value::list(std::move(made));
  }
  const List a = bound("map", args, {"attribute", "default"});
  if (a[0].is_undefined()) fail("map", "map needs a filter or an attribute");
  for (const Value& item : all->items) {
    Value value = attribute_of(m, item, a[0]);
    made.push_back(value.is_undefined() && !a[1].is_undefined() ? a[1] : std::move(value));
  }
  return Value::list(std::move(made));
}

// select('test', …), selectattr('name', 'test', …) and their opposites.
template <bool wanted, bool by_attribute>
Value choose(Machine& m, const Value& in, const Arguments& args) {
  if (!in.truth()) return Value::list({});
  Arguments rest = args;
  auto take = [&] {
    Value v = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
    return v;
  };
  if (by_attribute && rest.positional.empty()) fail("selectattr", "selectattr and rejectattr need the name of an attribute");
  const Value attribute = by_attribute ? take() : Value();
  const std::string test = rest.positional.empty() ? "" : string_of(take(), "the test of select");
  List kept;
  const auto all = m.items_of(in);
  for (const Value& item : all->items) {
    m.charge(1);
    const Value value = by_attribute ? attribute_of(m, item, attribute) : item;
    if ((test.empty() ? value.truth() : apply_test(m, test, value, rest)) == wanted) kept.push_back(item);
  }
  return Value::list(std::move(kept));
}

}  // namespace

std::vector<std::pair<std::string_view, Value (*)(Machine&, const Value&, const Arguments&)>> sequence_filters() {
  return {{"first", first},
          {"last", last},
          {"list", list},
          {"reverse", reverse},
          {"join", join},
          {"items", items},
          {"sort", sort},
          {"dictsort", dictsort},
          {"unique", unique},
          {"max", extreme<true>},
          {"min", extreme<false>},
          {"sum", sum},
          {"map", map},
          {"select", choose<true, false>},
          {"reject", choose<false, false>},
          {"selectattr", choose<true, true>},
          {"rejectattr", choose<false, true>}};
}

}  // namespace transformer::jinja
