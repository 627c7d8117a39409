// Values as text: str, repr and json.dumps of Python.

#include <fmt/format.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <cmath>

#include "chat/jinja/value.h"
#include "io/shared/unicode.h"
#include "transformer/core/error.h"

namespace transformer::jinja {
namespace {

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);  // the shortest that gives it back
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

bool is_printable(char32_t c) {
  if (c == U' ') return true;
  const std::uint32_t mask = U_GET_GC_MASK(static_cast<UChar32>(c));
  return (mask & (U_GC_C_MASK | U_GC_Z_MASK)) == 0;
}

std::string quoted(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char32_t c : to_code_points(text)) {
    if (c == static_cast<char32_t>(quote) || c == U'\\') out += '\\', out += static_cast<char>(c);
    else if (c == U'\n') out += "\\n";
    else if (c == U'\r') out += "\\r";
    else if (c == U'\t') out += "\\t";
    else if (is_printable(c)) out += to_utf8({&c, 1});
    else if (c < 0x100) out += fmt::format("\\x{:02x}", static_cast<std::uint32_t>(c));
    else if (c < 0x10000) out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
    else out += fmt::format("\\U{:08x}", static_cast<std::uint32_t>(c));
  }
  return out + quote;
}

std::string json_string(const std::string& text, bool ensure_ascii) {
  std::string out = "\"";
  for (const char32_t c : to_code_points(text)) {
    const auto code = static_cast<std::uint32_t>(c);
    if (c == U'"' || c == U'\\') out += '\\', out += static_cast<char>(c);
    else if (c == U'\n') out += "\\n";
    else if (c == U'\r') out += "\\r";
    else if (c == U'\t') out += "\\t";
    else if (c == U'\b') out += "\\b";
    else if (c == U'\f') out += "\\f";
    else if (code < 0x20 || (ensure_ascii && code > 0x7E && code < 0x10000)) out += fmt::format("\\u{:04x}", code);
    else if (ensure_ascii && code >= 0x10000)
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10U), 0xDC00 + ((code - 0x10000) & 0x3FFU));
    else out += to_utf8({&c, 1});
  }
  return out + '"';
}

void check_length(const std::string& text) {
  if (text.size() > longest_text) fail("text", "a text becomes longer than {} bytes", longest_text);
}

void append_repr(const Value& value, std::string& out) {
  check_length(out);
  if (value.string() != nullptr) out += quoted(*value.string());
  else if (value.is_undefined()) out += "Undefined";
  else if (value.is_none()) out += "None";
  else if (const bool* b = value.get<bool>()) out += *b ? "True" : "False";
  else if (const double* d = value.get<double>()) out += float_text(*d);
  else if (value.is_integer()) out += fmt::format("{}", value.integer());
  else if (const Sequence* s = value.sequence()) {
    out += s->tuple ? "(" : "[";
    for (std::size_t i = 0; i < s->items.size(); ++i) out += i > 0 ? ", " : "", append_repr(s->items[i], out);
    if (s->tuple && s->items.size() == 1) out += ',';
    out += s->tuple ? ")" : "]";
  } else if (const Mapping* m = value.mapping()) {
    out += "{";
    for (std::size_t i = 0; i < m->items.size(); ++i) {
      out += i > 0 ? ", " : "";
      append_repr(m->items[i].first, out);
      out += ": ";
      append_repr(m->items[i].second, out);
    }
    out += "}";
  } else {
    fail("value", "a {} cannot be shown as text", value.type());
  }
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  void write(const Value& value) {
    check_length(out_);
    if (value.is_none()) out_ += "null";
    else if (const bool* b = value.get<bool>()) out_ += *b ? "true" : "false";
    else if (const double* d = value.get<double>()) out_ += number(*d);
    else if (value.is_integer()) out_ += fmt::format("{}", value.integer());
    else if (value.string() != nullptr) out_ += json_string(*value.string(), style_.ensure_ascii);
    else if (value.sequence() != nullptr) write_all('[', value.sequence()->items, ']', [&](const Value& item) { write(item); });
    else if (value.mapping() != nullptr) write_mapping(*value.mapping());
    else fail("tojson", "a {} cannot be written as JSON", value.type());
  }
  std::string take() { return std::move(out_); }

 private:
  static std::string number(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d > 0 ? "Infinity" : "-Infinity";
    return float_text(d);
  }

  void write_mapping(const Mapping& mapping) {
    Items items = mapping.items;
    if (style_.sort_keys) std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) { return less(a.first, b.first); });
    write_all('{', items, '}', [&](const auto& item) {
      const auto& [key, value] = item;
      std::string name;
      if (key.string() != nullptr) name = *key.string();
      else JsonWriter(style_).write_key(key, name);
      out_ += json_string(name, style_.ensure_ascii) + style_.after_key;
      write(value);
    });
  }

  void write_key(const Value& key, std::string& name) {
    write(key);
    name = take();
  }

  template <class All, class Write>
  void write_all(char open, const All& all, char close, Write&& write_one) {
    out_ += open;
    if (!all.empty()) {
      ++level_;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (i > 0) out_ += style_.between;
        line();
        write_one(all[i]);
      }
      --level_;
      line();
    }
    out_ += close;
  }

  void line() {
    if (!style_.indent) return;
    out_ += '\n';
    for (int i = 0; i < level_; ++i) out_ += *style_.indent;
  }

  const JsonStyle& style_;
  std::string out_;
  int level_ = 0;
};

}  // namespace

std::string to_repr(const Value& value) {
  std::string out;
  append_repr(value, out);
  return out;
}

std::string to_text(const Value& value) {
  if (value.string() != nullptr) return *value.string();
  return value.is_undefined() ? std::string() : to_repr(value);
}

std::string to_json_text(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.write(value);
  return writer.take();
}

}  // namespace transformer::jinja
