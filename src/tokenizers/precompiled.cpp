// The rules of a SentencePiece model: a double array (Yata, 2007, as in Darts-clone) from sequences of characters to their
// replacements. The file says: uint32 size of the array in bytes, the array of uint32, then the replacements, each ended by NUL.
#include <unicode/brkiter.h>
#include <unicode/utext.h>

#include <cstring>
#include <optional>

#include "io/shared/characters.h"
#include "io/shared/utf8.h"
#include "tokenizers/normalizers.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(const std::string& charsmap) {
    if (charsmap.empty()) return;
    std::uint32_t size = 0;
    if (charsmap.size() < sizeof(size)) fail("precompiled_charsmap", "{} bytes are too short", charsmap.size());
    std::memcpy(&size, charsmap.data(), sizeof(size));
    if (size > charsmap.size() - sizeof(size) || size % sizeof(std::uint32_t) != 0)
      fail("precompiled_charsmap", "its table has {} bytes, {} are there", size, charsmap.size() - sizeof(size));
    units_.resize(size / sizeof(std::uint32_t));
    std::memcpy(units_.data(), charsmap.data() + sizeof(size), size);
    replacements_ = charsmap.substr(sizeof(size) + size);
    if (!is_valid_utf8(replacements_)) fail("precompiled_charsmap", "the replacements are not UTF-8");
  }

  void normalize(AlignedText& text) const override {
    if (units_.empty() || text.text.empty()) return;
    AlignedText out;
    Rewriter rewriter(text, out);
    bool changed = false;
    // A cluster (what a reader takes for one character) of less than six bytes is looked up as a whole, else its characters one
    // by one, as Hugging Face does. What is found may be a beginning only; it takes the place of all the same.
    for_each_cluster(text.text, [&](std::string_view cluster) {
      if (cluster.size() < 6)
        if (const auto found = look_up(cluster)) return void((replace(rewriter, cluster, *found), changed = true));
      for (std::size_t i = 0; i < cluster.size();) {
        const std::string_view character = cluster.substr(i, character_size(cluster[i]));
        const auto found = look_up(character);
        if (found) replace(rewriter, character, *found);
        else rewriter.copy(rewriter.at() + character.size());
        changed = changed || found.has_value();
        i += character.size();
      }
    });
    if (changed) text = std::move(out);
  }

 private:
  static void replace(Rewriter& out, std::string_view old, std::string_view now) {
    const std::size_t before = count_characters(old), after = count_characters(now);
    if (after == 0) return out.skip(before);
    std::size_t number = 0;
    for (std::size_t i = 0; i < now.size(); ++number) {
      const char32_t c = next_character(now, i);
      const bool last = number + 1 == after;
      out.emit(c, number >= before ? 1 : last ? -static_cast<int>(before - after) : 0);
    }
  }

  // The replacement of the shortest beginning of text that has one.
  std::optional<std::string_view> look_up(std::string_view text) const {
    const auto offset = [](std::uint32_t unit) { return unit >> 10 << ((unit & 1U << 9) >> 6); };
    std::size_t node = offset(units_[0]);
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      node ^= byte;
      if (byte == 0 || node >= units_.size()) return std::nullopt;
      const std::uint32_t unit = units_[node];
      if ((unit & (1U << 31 | 0xFF)) != byte) return std::nullopt;
      node ^= offset(unit);
      if ((unit >> 8 & 1) == 0) continue;
      if (node >= units_.size()) return std::nullopt;
      const std::size_t place = units_[node] & ~(1U << 31);
      if (place >= replacements_.size() || continues_character(replacements_[place])) return std::nullopt;
      return std::string_view(replacements_).substr(place, replacements_.find('\0', place) - place);
    }
    return std::nullopt;
  }

  template <class F>
  static void for_each_cluster(std::string_view text, F&& f) {
    bool plain = true;  // nothing that could cluster
    for (const char c : text) plain = plain && static_cast<unsigned char>(c) < 0x80 && c != '\r';
    if (plain) {
      for (std::size_t i = 0; i < text.size(); ++i) f(text.substr(i, 1));
      return;
    }
    UErrorCode status = U_ZERO_ERROR;
    thread_local const std::unique_ptr<icu::BreakIterator> breaks(
        icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
    const icu::LocalUTextPointer utf8(utext_openUTF8(nullptr, text.data(), static_cast<std::int64_t>(text.size()), &status));
    if (breaks != nullptr) breaks->setText(utf8.getAlias(), status);
    if (U_FAILURE(status) != 0 || breaks == nullptr) fail("precompiled_charsmap", "{}", u_errorName(status));
    std::int32_t begin = breaks->first();
    for (std::int32_t end = breaks->next(); end != icu::BreakIterator::DONE; begin = end, end = breaks->next())
      f(text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  }

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace

NormalizerPtr precompiled_normalizer(std::string charsmap) { return std::make_unique<Precompiled>(charsmap); }

}  // namespace transformer
