// The methods of texts, lists and dicts that templates call.

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <map>

#include "chat/jinja/machine.h"
#include "io/shared/unicode.h"

namespace transformer::jinja {
namespace {

using Method = Value (*)(Machine&, const Value&, const Arguments&);
using Methods = std::map<std::string_view, Method>;

// Code points before byte i; -1 for npos.
std::int64_t place_of(const std::string& text, std::size_t i) {
  return i == std::string::npos ? -1 : code_points_of(std::string_view(text).substr(0, i));
}

template <bool left, bool right>
Value strip(Machine& m, const Value& self, const Arguments& args) {
  const List a = bound("strip", args, {"chars"});
  return m.text(
      stripped(*self.string(), a[0].is_undefined() || a[0].is_none() ? nullptr : &string_of(a[0], "the characters of strip"), left, right));
}

template <bool at_end>
Value begins(Machine&, const Value& self, const Arguments& args) {
  const List a = bound(at_end ? "endswith" : "startswith", args, {"prefix"});
  auto one = [&](const Value& v) {
    const std::string& part = string_of(v, "what a text begins or ends with");
    return at_end ? self.string()->ends_with(part) : self.string()->starts_with(part);
  };
  if (const Sequence* several = a[0].sequence()) return std::any_of(several->items.begin(), several->items.end(), one);
  return one(a[0]);
}

template <bool at_end>
Value without(Machine& m, const Value& self, const Arguments& args) {
  const List a = bound(at_end ? "removesuffix" : "removeprefix", args, {"part"});
  const std::string &text = *self.string(), &part = string_of(a[0], "what is removed");
  if (at_end ? !text.ends_with(part) : !text.starts_with(part)) return self;
  return m.text(at_end ? text.substr(0, text.size() - part.size()) : text.substr(part.size()));
}

// str.split and str.rsplit: at white space without a separator.
template <bool from_right>
Value split(Machine& m, const Value& self, const Arguments& args) {
  const List a = bound("split", args, {"sep", "maxsplit"});
  const std::int64_t most = a[1].is_undefined() ? -1 : integer_of(a[1], "the maxsplit of split");
  const std::string& text = *self.string();
  m.charge(text.size() / 16);
  List parts;
  if (a[0].is_undefined() || a[0].is_none()) {
    if (most >= 0 && from_right) fail("rsplit", "rsplit at white space with a limit is not supported");
    const std::u32string points = to_code_points(text);
    const auto words = split_words(points);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (most >= 0 && parts.size() == static_cast<std::size_t>(most)) {  // the rest as it stands
        const auto begin = static_cast<std::size_t>(words[i].data() - points.data());
        parts.emplace_back(to_utf8(without_trailing_space(std::u32string_view(points).substr(begin))));
        break;
      }
      parts.emplace_back(to_utf8(words[i]));
    }
    m.charge(parts.size());
    return Value::list(std::move(parts));
  }
  const std::string& sep = string_of(a[0], "the separator of split");
  if (sep.empty()) fail("split", "the separator of split is empty");
  std::vector<std::size_t> cuts;
  if (from_right) {
    for (std::size_t end = text.size(); end >= sep.size() && (most < 0 || cuts.size() < static_cast<std::size_t>(most));) {
      const std::size_t at = text.rfind(sep, end - sep.size());
      if (at == std::string::npos) break;
      cuts.push_back(at);
      end = at;
    }
    std::reverse(cuts.begin(), cuts.end());
  } else {
    for (std::size_t at = text.find(sep); at != std::string::npos && (most < 0 || cuts.size() < static_cast<std::size_t>(most));
         at = text.find(sep, at + sep.size()))
      cuts.push_back(at);
  }
  m.charge(cuts.size());
  std::size_t begin = 0;
  for (std::size_t cut : cuts) parts.emplace_back(text.substr(begin, cut - begin)), begin = cut + sep.size();
  parts.emplace_back(text.substr(begin));
  return Value::list(std::move(parts));
}

Value splitlines(Machine& m, const Value& self, const Arguments& args) {
  const List a = bound("splitlines", args, {"keepends"});
  const std::u32string text = to_code_points(*self.string());
  m.charge(text.size() / 16);
  List lines;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find_first_of(U"\n\r\v\f\x1c\x1d\x1e\x85\x2028\x2029", begin);
    std::size_t next = end == std::u32string::npos ? text.size() : end + 1;
    if (end == std::u32string::npos) end = text.size();
    else if (text[end] == U'\r' && next < text.size() && text[next] == U'\n') ++next;
    lines.emplace_back(to_utf8(std::u32string_view(text).substr(begin, (a[0].truth() ? next : end) - begin)));
    begin = next;
  }
  m.charge(lines.size());
  return Value::list(std::move(lines));
}

Value text_join(Machine& m, const Value& self, const Arguments& args) {
  const List a = bound("join", args, {"items"});
  std::string made;
  const auto items = m.items_of(a[0]);
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    made += (i > 0 ? *self.string() : "") + string_of(items->items[i], "an item of join");
    if (made.size() > longest_text) break;  // refused below
  }
  return m.text(std::move(made));
}

Value text_replace(Machine& m, const Value& self, const Arguments& args) {
  const List a = bound("replace", args, {"old", "new", "count"});
  const std::int64_t count = a[2].is_undefined() ? -1 : integer_of(a[2], "the count of replace");
  return replaced(m, *self.string(), string_of(a[0], "what is replaced"), string_of(a[1], "the replacement"), count);
}

// str.format with {}, {0} and {name}.
Value format(Machine& m, const Value& self, const Arguments& args) {
  const std::string& text = *self.string();
  std::string made;
  std::size_t next = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{' && text[i] != '}') {
      made += text[i];
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == text[i]) {
      made += text[i++];
      continue;
    }
    const std::size_t end = text[i] == '{' ? text.find('}', i) : std::string::npos;
    if (end == std::string::npos) fail("format", "a '{}' stands alone in the text that is formatted", text[i]);
    const std::string field = text.substr(i + 1, end - i - 1);
    if (field.find_first_of(".[:!{") != std::string::npos) fail("format", "the field '{{{}}}' of format is not supported", field);
    const auto named = std::find_if(args.named.begin(), args.named.end(), [&](const auto& a) { return a.first == field; });
    if (named != args.named.end()) {
      made += to_text(named->second);
    } else {
      const bool number = field.find_first_not_of("0123456789") == std::string::npos && field.size() < 6;
      const std::size_t at = field.empty() ? next++ : number ? static_cast<std::size_t>(std::stoul(field)) : args.positional.size();
      if (at >= args.positional.size()) fail("format", "there is nothing for the field '{{{}}}' of format", field);
      made += to_text(args.positional[at]);
    }
    if (made.size() > longest_text) break;  // refused below
    i = end;
  }
  return m.text(std::move(made));
}

template <bool from_right, bool must>
Value find(Machine&, const Value& self, const Arguments& args) {
  const List a = bound("find", args, {"part"});
  const std::string &text = *self.string(), &part = string_of(a[0], "what is looked for");
  const std::int64_t place = place_of(text, from_right ? text.rfind(part) : text.find(part));
  if (must && place < 0) fail("index", "the text has no '{}'", part);
  return place;
}

Value count(Machine&, const Value& self, const Arguments& args) {
  const List a = bound("count", args, {"part"});
  const std::string &text = *self.string(), &part = string_of(a[0], "what is counted");
  if (part.empty()) return place_of(text, text.size()) + 1;
  std::int64_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

template <std::string (*change)(const std::string&)>
Value changed(Machine& m, const Value& self, const Arguments& args) {
  bound("the method", args, {});
  return m.text(change(*self.string()));
}

// str.title: a capital after everything that is not a letter.
std::string titled(const std::string& text) {
  std::string made, word;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (u >= 0x80 || (u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z')) word += c;
    else made += capitalized(word) + c, word.clear();
  }
  return made + capitalized(word);
}

// Whether all characters, of at least one, are so.
template <bool (*is)(char32_t)>
Value all_are(Machine&, const Value& self, const Arguments& args) {
  bound("the method", args, {});
  const std::u32string text = to_code_points(*self.string());
  return !text.empty() && std::all_of(text.begin(), text.end(), is);
}
bool is_any_digit(char32_t c) { return u_isdigit(static_cast<UChar32>(c)) != 0; }
bool is_letter(char32_t c) { return u_isalpha(static_cast<UChar32>(c)) != 0; }
bool is_letter_or_number(char32_t c) { return is_letter(c) || is_number(c); }

const Methods text_methods{{"strip", strip<true, true>},
                           {"lstrip", strip<true, false>},
                           {"rstrip", strip<false, true>},
                           {"startswith", begins<false>},
                           {"endswith", begins<true>},
                           {"removeprefix", without<false>},
                           {"removesuffix", without<true>},
                           {"split", split<false>},
                           {"rsplit", split<true>},
                           {"splitlines", splitlines},
                           {"join", text_join},
                           {"replace", text_replace},
                           {"format", format},
                           {"find", find<false, false>},
                           {"rfind", find<true, false>},
                           {"index", find<false, true>},
                           {"rindex", find<true, true>},
                           {"count", count},
                           {"upper", changed<upper>},
                           {"lower", changed<lower>},
                           {"capitalize", changed<capitalized>},
                           {"title", changed<titled>},
                           {"isdigit", all_are<is_any_digit>},
                           {"isalpha", all_are<is_letter>},
                           {"isalnum", all_are<is_letter_or_number>},
                           {"isspace", all_are<is_space>}};

Value dict_get(Machine& m, const Value& self, const Arguments& args) {
  const List a = bound("get", args, {"key", "default"});
  m.charge(self.mapping()->items.size() / 16);
  const Value* found = self.mapping()->find(a[0]);
  return found != nullptr ? *found : a[1].is_undefined() ? Value(None{}) : a[1];
}

// Pairs (0), keys (1) or values (2).
template <int which>
Value dict_part(Machine& m, const Value& self, const Arguments& args) {
  bound("the method", args, {});
  List items;
  for (const auto& [key, value] : self.mapping()->items)
    items.push_back(which == 0 ? Value::list({key, value}, true) : which == 1 ? key : value);
  m.charge(items.size());
  return Value::list(std::move(items));
}

const Methods dict_methods{{"get", dict_get},
                           {"items", dict_part<0>},
                           {"keys", dict_part<1>},
                           {"values", dict_part<2>},
                           {"copy", [](Machine&, const Value& self, const Arguments&) { return self; }}};

Value list_index(Machine& m, const Value& self, const Arguments& args) {
  const List a = bound("index", args, {"value"}), &items = self.sequence()->items;
  m.charge_walk(self);
  for (std::size_t i = 0; i < items.size(); ++i)
    if (equal(items[i], a[0])) return static_cast<std::int64_t>(i);
  fail("index", "the list has no such item");
}

Value list_count(Machine& m, const Value& self, const Arguments& args) {
  const List a = bound("count", args, {"value"}), &items = self.sequence()->items;
  m.charge_walk(self);
  return static_cast<std::int64_t>(std::count_if(items.begin(), items.end(), [&](const Value& v) { return equal(v, a[0]); }));
}

const Methods list_methods{{"index", list_index}, {"count", list_count}};

const Methods& methods_of(const Value& of) {
  static const Methods none;
  if (of.string() != nullptr) return text_methods;
  if (of.mapping() != nullptr) return dict_methods;
  return of.sequence() != nullptr ? list_methods : none;
}

}  // namespace

bool has_method(const Value& of, const std::string& name) { return methods_of(of).count(name) > 0; }

Value call_method(Machine& machine, const Value& of, const std::string& name, const Arguments& arguments) {
  machine.charge(1 + (of.string() != nullptr ? of.string()->size() / 64 : 0));
  return methods_of(of).at(name)(machine, of, arguments);
}

std::int64_t code_points_of(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

std::string escaped(const std::string& text) {
  std::string made;
  for (const char c : text) {
    if (c == '&') made += "&amp;";
    else if (c == '<') made += "&lt;";
    else if (c == '>') made += "&gt;";
    else if (c == '"') made += "&#34;";
    else if (c == '\'') made += "&#39;";
    else made += c;
  }
  return made;
}

std::string upper(const std::string& text) {
  std::string out;
  icu::UnicodeString::fromUTF8(text).toUpper(icu::Locale::getRoot()).toUTF8String(out);
  return out;
}

std::string lower(const std::string& text) { return to_utf8(to_lower(to_code_points(text))); }

std::string capitalized(const std::string& text) {
  const std::u32string points = to_code_points(text);
  if (points.empty()) return {};
  return upper(to_utf8(std::u32string_view(points).substr(0, 1))) + to_utf8(to_lower(std::u32string_view(points).substr(1)));
}

std::string stripped(const std::string& text, const std::string* which, bool left, bool right) {
  const std::u32string points = to_code_points(text), set = which != nullptr ? to_code_points(*which) : std::u32string();
  auto drop = [&](char32_t c) { return which != nullptr ? set.find(c) != std::u32string::npos : is_space(c); };
  std::u32string_view view = points;
  while (left && !view.empty() && drop(view.front())) view.remove_prefix(1);
  while (right && !view.empty() && drop(view.back())) view.remove_suffix(1);
  return to_utf8(view);
}

std::string replaced(Machine& machine, const std::string& text, const std::string& from, const std::string& to, std::int64_t count) {
  if (from.empty()) fail("replace", "replacing an empty text is not supported");
  std::string made;
  std::size_t begin = 0;
  for (std::size_t at = text.find(from); at != std::string::npos && count != 0; at = text.find(from, begin), --count) {
    made.append(text, begin, at - begin);
    made += to;
    begin = at + from.size();
    if (made.size() > longest_text) break;  // refused below
  }
  made.append(text, begin);
  return machine.text(std::move(made));
}

}  // namespace transformer::jinja
