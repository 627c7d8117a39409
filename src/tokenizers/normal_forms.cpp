// NFC, NFD, NFKC, NFKD with alignment. ICU says whether there is anything to do and knows the mappings of characters; the three
// steps (decompose, order, compose) are done here because each character must keep track of where it came from.
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "io/shared/characters.h"
#include "tokenizers/normalizers.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

struct Changed {
  char32_t c;
  int change;  // of Rewriter
};

const icu::Normalizer2& instance(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found = nullptr;
  switch (form) {
    case NormalForm::nfc: found = icu::Normalizer2::getNFCInstance(status); break;
    case NormalForm::nfd: found = icu::Normalizer2::getNFDInstance(status); break;
    case NormalForm::nfkc: found = icu::Normalizer2::getNFKCInstance(status); break;
    case NormalForm::nfkd: found = icu::Normalizer2::getNFKDInstance(status); break;
  }
  if (found == nullptr || U_FAILURE(status) != 0) fail("normalizer", "{}", u_errorName(status));
  return *found;
}

std::vector<Changed> decompose(std::string_view text, const icu::Normalizer2& rules) {
  std::vector<Changed> out;
  out.reserve(text.size());
  std::size_t ordered = 0;  // before this, marks are in their order
  const auto order = [&] {
    const auto mark_class = [&](const Changed& x) { return rules.getCombiningClass(static_cast<UChar32>(x.c)); };
    std::stable_sort(out.begin() + static_cast<std::ptrdiff_t>(ordered), out.end(),
                     [&](const Changed& a, const Changed& b) { return mark_class(a) < mark_class(b); });
    ordered = out.size();
  };
  const auto put = [&](char32_t c, int change) {
    if (rules.getCombiningClass(static_cast<UChar32>(c)) == 0) {
      order();
      ++ordered;
    }
    out.push_back({c, change});
  };
  icu::UnicodeString mapping;
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_character(text, i);
    if (c >= 0x80 && rules.getDecomposition(static_cast<UChar32>(c), mapping) != 0) {
      for (std::int32_t k = 0; k < mapping.length(); k = mapping.moveIndex32(k, 1))
        put(static_cast<char32_t>(mapping.char32At(k)), k == 0 ? 0 : 1);
    } else {
      put(c, 0);
    }
  }
  order();
  return out;
}

// Joins each mark with the last starter where there is a character for both and nothing in between blocks it.
std::vector<Changed> compose(const std::vector<Changed>& in, const icu::Normalizer2& rules) {
  std::vector<Changed> out;
  out.reserve(in.size());
  std::size_t starter = 0;
  bool has_starter = false;
  int last_class = -1;  // of what stands between the starter and here; -1: nothing
  for (const Changed& next : in) {
    const int mark_class = rules.getCombiningClass(static_cast<UChar32>(next.c));
    if (has_starter && (last_class < 0 || (last_class != 0 && last_class < mark_class))) {
      const UChar32 joined = rules.composePair(static_cast<UChar32>(out[starter].c), static_cast<UChar32>(next.c));
      if (joined >= 0) {
        out[starter] = {static_cast<char32_t>(joined), out[starter].change + next.change - 1};
        continue;
      }
    }
    out.push_back(next);
    if (mark_class == 0) {
      starter = out.size() - 1;
      has_starter = true;
      last_class = -1;
    } else {
      last_class = mark_class;
    }
  }
  return out;
}

}  // namespace

void normalize_form(AlignedText& text, NormalForm form) {
  const icu::Normalizer2& rules = instance(form);
  UErrorCode status = U_ZERO_ERROR;
  const auto size = static_cast<std::int32_t>(text.text.size());
  if (rules.isNormalizedUTF8(icu::StringPiece(text.text.data(), size), status) != 0 && U_FAILURE(status) == 0) return;
  std::vector<Changed> characters = decompose(text.text, rules);
  if (form == NormalForm::nfc || form == NormalForm::nfkc) characters = compose(characters, rules);
  AlignedText out;
  Rewriter rewriter(text, out);
  for (const Changed& x : characters) rewriter.emit(x.c, x.change);
  text = std::move(out);
}

}  // namespace transformer
