#pragma once
// Korean word forms. A Hangul syllable is 0xAC00 + (initial · 21 + vowel) · 28 + final, so that final consonants (받침) can be
// read, added and dropped by arithmetic; particles and endings depend on them.

#include <cstdint>
#include <string>
#include <string_view>

namespace transformer {

// Whether the last syllable has a final consonant. The word must end in a Hangul syllable.
bool has_final(std::string_view word);

// word + particle. sound: how a word that is not written in Hangul is said ("Transformer": "트랜스포머").
std::string with_topic(std::string_view word, std::string_view sound = {});    // 은 or 는
std::string with_subject(std::string_view word, std::string_view sound = {});  // 이 or 가
std::string with_object(std::string_view word, std::string_view sound = {});   // 을 or 를

// How a stem changes before a vowel. Stems in ㄹ, in ㅡ and in 하 change by rules without exception and count as regular.
enum class StemKind : std::uint8_t {
  regular,  // 잡다 잡았다
  d,        // ㄷ → ㄹ: 듣다 들었다
  b,        // ㅂ → 우: 귀엽다 귀여웠다; in 돕다 → 오: 도왔다
  s,        // ㅅ falls: 짓다 지었다
  reu,      // 르 → ㄹㄹ: 부르다 불렀다
};

// The stem of a verb or adjective: the dictionary form without 다.
struct Stem {
  std::string_view text;
  StemKind kind = StemKind::regular;
};

// The plain written style (해라체).
std::string present(const Stem& verb);           // 간다, 먹는다, 판다
std::string past(const Stem& stem);              // 갔다, 먹었다, 팔았다
std::string future(const Stem& stem);            // 갈 것이다, 먹을 것이다, 팔 것이다
std::string attributive(const Stem& adjective);  // 큰, 작은, 귀여운, 맛있는

}  // namespace transformer
