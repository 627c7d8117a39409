#include "chat/jinja/value.h"

#include <algorithm>
#include <limits>

#include "transformer/core/error.h"

namespace transformer::jinja {

void Extent::add(const Value& item) {
  if (item.space() != nullptr || item.loop() != nullptr)
    fail("value", "a {} inside a list, a dict or a namespace is not supported", item.type());
  const Extent inner = item.extent();
  depth = std::max(depth, inner.depth + 1);
  size += inner.size;
  if (depth > deepest_value) fail("value", "lists and dicts are more than {} levels deep", deepest_value);
  if (size > largest_value) fail("value", "a list or a dict becomes larger than {} items", largest_value);
}

const Value* Mapping::find(const Value& key) const {
  for (const auto& [k, v] : items)
    if (equal(k, key)) return &v;
  return nullptr;
}

Value Value::list(List items, bool tuple) {
  Extent extent;
  for (const Value& item : items) extent.add(item);
  Value out;
  out.data_ = std::make_shared<const Sequence>(Sequence{std::move(items), tuple, extent});
  return out;
}

Value Value::dict(Items items) {
  Extent extent;
  Items distinct;
  for (auto& [key, value] : items) {
    if (key.sequence() != nullptr || key.mapping() != nullptr || key.is_undefined())
      fail("value", "a key of a dict is {}: expected text or a number", key.type());
    extent.add(key), extent.add(value);
    const auto same = std::find_if(distinct.begin(), distinct.end(), [&k = key](const auto& item) { return equal(item.first, k); });
    if (same == distinct.end()) distinct.emplace_back(std::move(key), std::move(value));
    else same->second = std::move(value);
  }
  Value out;
  out.data_ = std::make_shared<const Mapping>(Mapping{std::move(distinct), extent});
  return out;
}

Value Value::of(const nlohmann::ordered_json& json, int level) {
  if (level > deepest_value) fail("value", "lists and objects are more than {} levels deep", deepest_value);
  switch (json.type()) {
    case nlohmann::json::value_t::null: return None{};
    case nlohmann::json::value_t::boolean: return json.get<bool>();
    case nlohmann::json::value_t::number_integer: return json.get<std::int64_t>();
    case nlohmann::json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return json.get<double>();
      return json.get<std::int64_t>();
    case nlohmann::json::value_t::number_float: return json.get<double>();
    case nlohmann::json::value_t::string: return json.get_ref<const std::string&>();
    case nlohmann::json::value_t::array: {
      List items;
      for (const auto& item : json) items.push_back(of(item, level + 1));
      return list(std::move(items));
    }
    case nlohmann::json::value_t::object: {
      // Its keys are distinct: no search for equal ones.
      auto mapping = std::make_shared<Mapping>();
      for (const auto& [key, value] : json.items()) {
        const auto& [k, v] = mapping->items.emplace_back(Value(key), of(value, level + 1));
        mapping->extent.add(k), mapping->extent.add(v);
      }
      Value out;
      out.data_ = std::shared_ptr<const Mapping>(std::move(mapping));
      return out;
    }
    default: fail("value", "binary data cannot be shown to a template");
  }
}

bool Value::truth() const {
  if (const bool* b = get<bool>()) return *b;
  if (const std::int64_t* i = get<std::int64_t>()) return *i != 0;
  if (const double* d = get<double>()) return *d != 0.0;
  if (string() != nullptr) return !string()->empty();
  if (sequence() != nullptr) return !sequence()->items.empty();
  if (mapping() != nullptr) return !mapping()->items.empty();
  return !is_undefined() && !is_none();
}

Extent Value::extent() const {
  if (sequence() != nullptr) return sequence()->extent;
  if (mapping() != nullptr) return mapping()->extent;
  return {.depth = 0, .size = 1 + (string() != nullptr ? string()->size() / 64 : 0)};
}

std::string_view Value::type() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "None";
  if (get<bool>() != nullptr) return "bool";
  if (get<std::int64_t>() != nullptr) return "int";
  if (get<double>() != nullptr) return "float";
  if (string() != nullptr) return "str";
  if (sequence() != nullptr) return sequence()->tuple ? "tuple" : "list";
  if (mapping() != nullptr) return "dict";
  if (space() != nullptr) return "namespace";
  return loop() != nullptr ? "loop" : "function";
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return a.is_integer() && b.is_integer() ? a.integer() == b.integer() : a.real() == b.real();
  if (a.string() != nullptr && b.string() != nullptr) return *a.string() == *b.string();
  if (a.sequence() != nullptr && b.sequence() != nullptr) {
    const Sequence &x = *a.sequence(), &y = *b.sequence();
    return x.tuple == y.tuple && std::equal(x.items.begin(), x.items.end(), y.items.begin(), y.items.end(), equal);
  }
  if (a.mapping() != nullptr && b.mapping() != nullptr) {
    if (a.mapping()->items.size() != b.mapping()->items.size()) return false;
    for (const auto& [key, value] : a.mapping()->items) {
      const Value* other = b.mapping()->find(key);
      if (other == nullptr || !equal(value, *other)) return false;
    }
    return true;
  }
  if (a.space() != nullptr || a.function() != nullptr) return a.space() == b.space() && a.function() == b.function();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

bool less(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return a.is_integer() && b.is_integer() ? a.integer() < b.integer() : a.real() < b.real();
  if (a.string() != nullptr && b.string() != nullptr) return *a.string() < *b.string();  // UTF-8 keeps the order of code points
  if (a.sequence() != nullptr && b.sequence() != nullptr && a.sequence()->tuple == b.sequence()->tuple) {
    const List &x = a.sequence()->items, &y = b.sequence()->items;
    for (std::size_t i = 0; i < x.size() && i < y.size(); ++i)
      if (!equal(x[i], y[i])) return less(x[i], y[i]);
    return x.size() < y.size();
  }
  fail("value", "there is no order between {} and {}", a.type(), b.type());
}

}  // namespace transformer::jinja
