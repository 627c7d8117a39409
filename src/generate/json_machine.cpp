#include "generate/json_machine.h"

#include <algorithm>
#include <tuple>

namespace transformer {
namespace {

constexpr std::uint8_t most_space = 16;  // characters of white space in a row
constexpr std::uint8_t most_digits = 20;

// Phases of a frame.
enum Phase : std::uint8_t {
  text_body,     // literal: count bytes were there; string: between characters
  text_escape,   // behind a backslash
  text_hex,      // extra digits of \u are to come
  text_more,     // extra continuation bytes are to come
  number_begin,  // nothing yet
  number_minus,
  number_zero,
  number_whole,
  number_point,
  number_fraction,
  number_e,
  number_sign,
  number_exponent,
  value_begin,  // a value comes: white space, then it
  container_open,
  container_value,  // a value was there: a comma or the end
  container_comma,  // behind a comma
  object_colon,     // behind a key
};

bool is_space(std::uint8_t b) { return b == ' ' || b == '\n' || b == '\t' || b == '\r'; }
bool is_digit(std::uint8_t b) { return b >= '0' && b <= '9'; }
bool is_hex(std::uint8_t b) { return is_digit(b) || (b >= 'a' && b <= 'f') || (b >= 'A' && b <= 'F'); }

}  // namespace

JsonMachine::States JsonMachine::begin() const { return {{{.form = forms_.root, .phase = value_begin}}}; }

// The state with the value that begins here open, nothing of it read: one for each choice.
void JsonMachine::open(State state, std::int32_t which, States& out) const {
  const JsonForm& form = forms_.all[static_cast<std::size_t>(which)];
  if (form.kind == JsonForm::Kind::any_of) {
    for (const std::int32_t choice : form.choices) open(state, choice, out);
    return;
  }
  const bool number = form.kind == JsonForm::Kind::number || form.kind == JsonForm::Kind::integer;
  state.push_back({.form = which, .phase = number ? std::uint8_t{number_begin} : std::uint8_t{text_body}, .count = -1});
  out.push_back(std::move(state));
}

JsonMachine::States JsonMachine::next(const States& states, std::uint8_t byte) const {
  States out;
  for (const State& state : states) feed(state, byte, out);
  // Choices that have read the same are one.
  std::sort(out.begin(), out.end(), [](const State& a, const State& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](const Frame& x, const Frame& y) {
      return std::tie(x.form, x.phase, x.extra, x.detail, x.count) < std::tie(y.form, y.phase, y.extra, y.detail, y.count);
    });
  });
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void JsonMachine::feed(const State& state, std::uint8_t byte, States& out) const {
  if (state.empty()) return;  // complete: nothing comes behind it
  State s = state;
  Frame& top = s.back();
  if (top.phase == value_begin) {
    if (is_space(byte)) {
      if (top.extra < most_space) ++top.extra, out.push_back(std::move(s));
      return;
    }
    const std::int32_t which = top.form;
    s.pop_back();
    States opened;
    open(std::move(s), which, opened);
    for (const State& o : opened) feed(o, byte, out);
    return;
  }
  const JsonForm& form = this->form(top);
  switch (form.kind) {
    case JsonForm::Kind::literal: {
      const auto at = static_cast<std::size_t>(top.count + 1);
      if (static_cast<std::uint8_t>(form.text[at]) != byte) return;
      if (at + 1 == form.text.size()) s.pop_back();
      else ++top.count;
      out.push_back(std::move(s));
      return;
    }
    case JsonForm::Kind::string: {
      if (top.count < 0) {  // the quote that it begins with
        if (byte == '"') top.count = 0, out.push_back(std::move(s));
        return;
      }
      bool ends = false;
      if (!feed_string(top, byte, ends)) return;
      if (ends && top.count < form.least) return;
      const bool within = top.phase != text_body;  // a character that will count
      if (!ends && form.most >= 0 && top.count + (within ? 1 : 0) > form.most) return;
      if (ends) s.pop_back();
      out.push_back(std::move(s));
      return;
    }
    case JsonForm::Kind::number:
    case JsonForm::Kind::integer: {
      const bool may_end = top.phase == number_zero || top.phase == number_whole || top.phase == number_fraction ||
          top.phase == number_exponent;
      Frame more = top;
      if (feed_number(more, byte, form.kind == JsonForm::Kind::integer)) {
        top = more;
        out.push_back(std::move(s));
      } else if (may_end) {
        s.pop_back();
        feed(s, byte, out);
      }
      return;
    }
    case JsonForm::Kind::object: return feed_object(std::move(s), byte, out);
    case JsonForm::Kind::array: return feed_array(std::move(s), byte, out);
    case JsonForm::Kind::any_of: return;
  }
}

// The inside of a string. count: its characters.
bool JsonMachine::feed_string(Frame& f, std::uint8_t byte, bool& ends) const {
  switch (f.phase) {
    case text_escape:
      if (byte == 'u') return f.phase = text_hex, f.extra = 4, true;
      if (std::string_view("\"\\/bfnrt").find(static_cast<char>(byte)) == std::string_view::npos) return false;
      ++f.count;
      return f.phase = text_body, true;
    case text_hex:
      // No halves of surrogate pairs, which are D8 to DF: they would be no character.
      if (!is_hex(byte) || (f.extra == 3 && f.detail == 1 && !(is_digit(byte) && byte < '8'))) return false;
      f.detail = f.extra == 4 && (byte == 'd' || byte == 'D') ? 1 : 0;
      if (--f.extra == 0) f.phase = text_body, ++f.count;
      return true;
    case text_more:
      if (byte < (f.detail >> 8U) || byte > (f.detail & 0xFFU)) return false;
      f.detail = 0x80BF;
      if (--f.extra == 0) f.phase = text_body, f.detail = 0, ++f.count;
      return true;
    default: break;
  }
  if (byte == '"') return ends = true;
  if (byte == '\\') return f.phase = text_escape, true;
  if (byte < 0x20) return false;
  if (byte < 0x80) return ++f.count, true;
  // Well-formed UTF-8: what the second byte may be depends on the first.
  if (byte < 0xC2 || byte > 0xF4) return false;
  f.phase = text_more;
  f.extra = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  f.detail = byte == 0xE0 ? 0xA0BF : byte == 0xED ? 0x809F : byte == 0xF0 ? 0x90BF : byte == 0xF4 ? 0x808F : 0x80BF;
  return true;
}

bool JsonMachine::feed_number(Frame& f, std::uint8_t byte, bool integer) const {
  const auto go = [&](std::uint8_t phase) {
    if (is_digit(byte) && ++f.extra > most_digits) return false;
    f.phase = phase;
    return true;
  };
  switch (f.phase) {
    case number_begin:
      if (byte == '-') return go(number_minus);
      [[fallthrough]];
    case number_minus: return byte == '0' ? go(number_zero) : is_digit(byte) && go(number_whole);
    case number_whole:
      if (is_digit(byte)) return go(number_whole);
      [[fallthrough]];
    case number_zero:
      if (integer) return false;
      return byte == '.' ? go(number_point) : (byte == 'e' || byte == 'E') && go(number_e);
    case number_point: return is_digit(byte) && go(number_fraction);
    case number_fraction: return is_digit(byte) ? go(number_fraction) : (byte == 'e' || byte == 'E') && go(number_e);
    case number_e:
      if (byte == '+' || byte == '-') return go(number_sign);
      [[fallthrough]];
    case number_sign:
      f.extra = std::max<std::uint8_t>(f.extra, most_digits - 2);  // e+99 at most
      return is_digit(byte) && go(number_exponent);
    case number_exponent: return is_digit(byte) && go(number_exponent);
    default: return false;
  }
}

// count: properties that were there or passed over, or -1 before the brace; a key is matched by a frame of its own, a literal.
void JsonMachine::feed_object(State s, std::uint8_t byte, States& out) const {
  Frame& top = s.back();
  const JsonForm& form = this->form(top);
  if (top.count < 0) {
    if (byte == '{') top.count = 0, top.phase = container_open, out.push_back(std::move(s));
    return;
  }
  if (is_space(byte) && top.phase != text_body) {
    if (top.extra < most_space) ++top.extra, out.push_back(std::move(s));
    return;
  }
  const std::int32_t size = static_cast<std::int32_t>(form.properties.size());
  const auto all_required_were = [&] {
    for (std::int32_t i = top.count; i < size; ++i)
      if (form.properties[static_cast<std::size_t>(i)].required) return false;
    return true;
  };
  switch (top.phase) {
    case container_open:
    case container_value:
      if (byte == '}') {
        if (!all_required_were()) return;
        s.pop_back();
        out.push_back(std::move(s));
        return;
      }
      if (top.phase == container_value) {
        if (byte == ',' && (top.count < size || form.other >= 0)) top.phase = container_comma, top.extra = 0, out.push_back(std::move(s));
        return;
      }
      [[fallthrough]];
    case container_comma:
      if (byte != '"') return;
      // The keys that may come: the next properties up to one that must. detail: bytes of the key that were there.
      if (form.other >= 0) {
        top.phase = object_colon, top.extra = 0;
        s.push_back({.form = forms_.key, .phase = text_body, .count = 0});
        out.push_back(std::move(s));
        return;
      }
      for (std::int32_t i = top.count; i < size; ++i) {
        State keyed = s;
        keyed.back().phase = text_body, keyed.back().extra = 0, keyed.back().count = i, keyed.back().detail = 1;
        out.push_back(std::move(keyed));
        if (form.properties[static_cast<std::size_t>(i)].required) break;
      }
      return;
    case text_body: {  // within the key of property `count`
      const std::string& key = form.properties[static_cast<std::size_t>(top.count)].key;
      if (static_cast<std::uint8_t>(key[top.detail]) != byte) return;
      if (++top.detail == key.size()) top.phase = object_colon, top.detail = 0;
      out.push_back(std::move(s));
      return;
    }
    case object_colon: {
      if (byte != ':') return;
      const std::int32_t value = form.other >= 0 ? form.other : form.properties[static_cast<std::size_t>(top.count)].form;
      if (form.other < 0) ++top.count;
      top.phase = container_value, top.extra = 0;
      s.push_back({.form = value, .phase = value_begin});
      out.push_back(std::move(s));
      return;
    }
    default: return;
  }
}

// count: items, or -1 before the bracket.
void JsonMachine::feed_array(State s, std::uint8_t byte, States& out) const {
  Frame& top = s.back();
  const JsonForm& form = this->form(top);
  if (top.count < 0) {
    if (byte == '[') top.count = 0, top.phase = container_open, out.push_back(std::move(s));
    return;
  }
  if (is_space(byte)) {
    if (top.extra < most_space) ++top.extra, out.push_back(std::move(s));
    return;
  }
  if (byte == ']' && top.count >= form.least) {
    s.pop_back();
    out.push_back(std::move(s));
    return;
  }
  const bool more = form.most < 0 || top.count < form.most;
  if (!more) return;
  if (top.phase == container_value) {
    if (byte != ',') return;
    ++top.count, top.extra = 0;
    s.push_back({.form = form.other, .phase = value_begin});
    out.push_back(std::move(s));
    return;
  }
  ++top.count, top.extra = 0, top.phase = container_value;
  s.push_back({.form = form.other, .phase = value_begin});
  feed(s, byte, out);
}

bool JsonMachine::is_complete(const States& states) const {
  for (const State& s : states) {
    if (s.empty()) return true;
    const Frame& top = s.back();
    const JsonForm::Kind kind = form(top).kind;
    const bool number = kind == JsonForm::Kind::number || kind == JsonForm::Kind::integer;
    if (s.size() == 1 && number &&
        (top.phase == number_zero || top.phase == number_whole || top.phase == number_fraction || top.phase == number_exponent))
      return true;
  }
  return false;
}

}  // namespace transformer
