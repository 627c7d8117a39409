#include "toys/hangul.h"

#include "io/shared/unicode.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

// Vowels and finals by their numbers in a syllable.
enum Vowel : std::uint32_t { a = 0, ae = 1, ya = 2, eo = 4, e = 5, yeo = 6, o = 8, wa = 9, u = 13, wo = 14, eu = 18, i = 20 };
enum Final : std::uint32_t { no_final = 0, final_n = 4, final_l = 8, final_ss = 20 };

struct Syllable {
  std::uint32_t initial = 0, vowel = 0, final = no_final;
  explicit Syllable(char32_t c) : initial((c - 0xAC00) / 588), vowel((c - 0xAC00) % 588 / 28), final((c - 0xAC00) % 28) {}
  operator char32_t() const { return 0xAC00 + (initial * 21 + vowel) * 28 + final; }
};

bool is_hangul(char32_t c) { return c >= 0xAC00 && c <= 0xD7A3; }

std::u32string hangul(std::string_view word) {
  std::u32string text = to_code_points(word);
  if (text.empty() || !is_hangul(text.back())) fail("hangul", "'{}' does not end in a Hangul syllable", word);
  return text;
}

std::string with_particle(std::string_view word, std::string_view sound, const char* after_final, const char* after_vowel) {
  return std::string(word) + (has_final(sound.empty() ? word : sound) ? after_final : after_vowel);
}

// With the last syllable's final consonant replaced.
std::u32string ending_in(std::u32string text, Final final) {
  Syllable last(text.back());
  last.final = final;
  text.back() = last;
  return text;
}

bool is_bright(std::uint32_t vowel) { return vowel == a || vowel == ya || vowel == o; }  // takes 아 rather than 어

// stem + 았/었 with its contractions: 갔, 먹었, 했, 왔, 마셨, 썼.
std::u32string past_stem(const Stem& stem) {
  std::u32string text = hangul(stem.text);
  const Syllable last(text.back());
  if (stem.kind == StemKind::reu) {
    text.pop_back();
    const bool bright = is_bright(Syllable(text.back()).vowel);
    return ending_in(text, final_l) + (bright ? U"랐" : U"렀");
  }
  if (stem.kind == StemKind::d) return ending_in(text, final_l) + (is_bright(last.vowel) ? U"았" : U"었");
  if (stem.kind == StemKind::b) return ending_in(text, no_final) + (stem.text == "돕" ? U"왔" : U"웠");
  if (stem.kind == StemKind::s) return ending_in(text, no_final) + (is_bright(last.vowel) ? U"았" : U"었");
  if (last.final != no_final) return text + (is_bright(last.vowel) ? U"았" : U"었");

  Syllable joined = last;
  joined.final = final_ss;
  if (text.back() == U'하') joined.vowel = ae;
  else if (last.vowel == o) joined.vowel = wa;
  else if (last.vowel == u) joined.vowel = wo;
  else if (last.vowel == i) joined.vowel = yeo;
  else if (last.vowel == eu) joined.vowel = text.size() > 1 && is_bright(Syllable(text[text.size() - 2]).vowel) ? a : eo;
  else if (last.vowel != a && last.vowel != ae && last.vowel != eo && last.vowel != e && last.vowel != yeo) return text + U"었";
  text.back() = joined;
  return text;
}

// stem + (으)ㄹ or (으)ㄴ: the consonant joins a vowel; ㄹ before it falls; otherwise 을, 은 is added.
std::u32string with_consonant(const Stem& stem, Final consonant) {
  const std::u32string text = hangul(stem.text);
  const Syllable last(text.back());
  const char32_t* added = consonant == final_l ? U"을" : U"은";
  switch (stem.kind) {
    case StemKind::d: return ending_in(text, final_l) + added;
    case StemKind::b: return ending_in(ending_in(text, no_final) + U'우', consonant);
    case StemKind::s: return ending_in(text, no_final) + added;
    case StemKind::regular:
    case StemKind::reu: break;
  }
  return last.final == no_final || last.final == final_l ? ending_in(text, consonant) : text + added;
}

}  // namespace

bool has_final(std::string_view word) { return Syllable(hangul(word).back()).final != no_final; }

std::string with_topic(std::string_view word, std::string_view sound) { return with_particle(word, sound, "은", "는"); }
std::string with_subject(std::string_view word, std::string_view sound) { return with_particle(word, sound, "이", "가"); }
std::string with_object(std::string_view word, std::string_view sound) { return with_particle(word, sound, "을", "를"); }

std::string present(const Stem& verb) {
  const std::u32string text = hangul(verb.text);
  const Syllable last(text.back());
  return to_utf8(last.final == no_final || last.final == final_l ? ending_in(text, final_n) + U"다" : text + U"는다");
}

std::string past(const Stem& stem) { return to_utf8(past_stem(stem) + U"다"); }
std::string future(const Stem& stem) { return to_utf8(with_consonant(stem, final_l) + U" 것이다"); }

std::string attributive(const Stem& adjective) {
  if (adjective.text.ends_with("있")) return std::string(adjective.text) + "는";
  return to_utf8(with_consonant(adjective, final_n));
}

}  // namespace transformer
