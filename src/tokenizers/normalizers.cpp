#include "tokenizers/normalizers.h"

#include <array>

#include "io/shared/base64.h"
#include "io/shared/characters.h"
#include "tokenizers/byte_alphabet.h"
#include "tokenizers/json_parts.h"

namespace transformer {
namespace {

// A normalizer from a function.
template <class F>
class FunctionNormalizer final : public Normalizer {
 public:
  explicit FunctionNormalizer(F function) : function_(std::move(function)) {}
  void normalize(AlignedText& text) const override {
    if (!text.text.empty()) function_(text);
  }

 private:
  F function_;
};
template <class F>
NormalizerPtr normalizer(F function) {
  return std::make_unique<FunctionNormalizer<F>>(std::move(function));
}

// A new version of the text, written by write(rewriter, c) for every character c, which stands at rewriter.at().
template <class Write>
void for_each_character(AlignedText& text, Write&& write) {
  AlignedText out;
  Rewriter rewriter(text, out);
  for (std::size_t i = 0; i < text.text.size();) {
    const char32_t c = next_character(text.text, i);
    write(rewriter, c);
  }
  text = std::move(out);
}

void keep_if(AlignedText& text, auto&& keep) {
  for_each_character(text, [&](Rewriter& out, char32_t c) {
    if (keep(c)) out.emit(c);
    else out.skip(1);
  });
}

void lower(AlignedText& text) {
  for_each_character(text, [](Rewriter& out, char32_t c) {
    int change = 0;
    for (const char32_t l : lower_case(c)) out.emit(l, std::exchange(change, 1));
  });
}

void strip(AlignedText& text, bool left, bool right) {
  std::size_t begin = 0, end = text.text.size();
  for (std::size_t next = 0; left && begin < end && is_white_space(next_character(text.text, next));) begin = next;
  for (std::size_t before = end; right && end > begin && is_white_space(previous_character(text.text, before));) end = before;
  AlignedText out;
  Rewriter rewriter(text, out);
  rewriter.skip_to(begin);
  rewriter.copy(end);
  text = std::move(out);
}

struct StripConfig {
  bool left = true, right = true;
  static void visit(auto& self, auto&& field) {
    field("strip_left", self.left, "white space at the beginning goes");
    field("strip_right", self.right, "white space at the end goes");
  }
};

struct PrependConfig {
  std::string prepend = {};
  static void visit(auto& self, auto&& field) { field("prepend", self.prepend, "what is put before a text that is not empty"); }
};

NormalizerPtr replacing(const ReplaceConfig& config) {
  return normalizer([regex = std::make_shared<Regex>(compile(config.pattern)), content = config.content](AlignedText& text) {
    const std::vector<PatternMatch> parts = regex->find_all(text.text);
    if (parts.size() == 1 && !parts[0].found) return;
    AlignedText out;
    Rewriter rewriter(text, out);
    for (const PatternMatch& part : parts) {
      if (!part.found) {
        rewriter.copy(part.end);
        continue;
      }
      rewriter.skip_to(part.end);
      rewriter.emit_new(content);
    }
    text = std::move(out);
  });
}

struct BertConfig {
  bool clean_text = true, handle_chinese_chars = true, lowercase = true;
  std::optional<bool> strip_accents = std::nullopt;
  static void visit(auto& self, auto&& field) {
    field("clean_text", self.clean_text, "control characters go, white space becomes a space");
    field("handle_chinese_chars", self.handle_chinese_chars, "spaces around Chinese characters");
    field("strip_accents", self.strip_accents, "accents go (null: when lower-casing)");
    field("lowercase", self.lowercase, "lower case");
  }
};

void bert_clean(AlignedText& text) {
  for_each_character(text, [](Rewriter& out, char32_t c) {
    const bool line = c == '\t' || c == '\n' || c == '\r';
    if (c == 0 || c == 0xFFFD || (!line && is_other_character(c))) out.skip(1);
    else out.emit(line || is_white_space(c) ? U' ' : c);
  });
}

void bert_ideographs(AlignedText& text) {
  for_each_character(text, [](Rewriter& out, char32_t c) {
    if (!is_ideograph(c)) return out.emit(c);
    out.emit(U' ');
    out.emit(c, 1);
    out.emit(U' ', 1);
  });
}

void bert(AlignedText& text, const BertConfig& config) {
  if (config.clean_text) bert_clean(text);
  if (config.handle_chinese_chars) bert_ideographs(text);
  if (config.strip_accents.value_or(config.lowercase)) {
    normalize_form(text, NormalForm::nfd);
    keep_if(text, [](char32_t c) { return !is_nonspacing_mark(c); });
  }
  if (config.lowercase) lower(text);
}

// What SentencePiece does to text for translation: control characters go, many kinds of space become a space.
void nmt(AlignedText& text) {
  for_each_character(text, [](Rewriter& out, char32_t c) {
    const bool dropped = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 ||
        c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    if (dropped) out.skip(1);
    else out.emit(space ? U' ' : c);
  });
}

void bytes(AlignedText& text) {
  AlignedText out;
  Rewriter rewriter(text, out);
  for (const char byte : text.text) rewriter.emit(byte_alphabet[static_cast<unsigned char>(byte)], continues_character(byte) ? 1 : 0);
  text = std::move(out);
}

struct PrecompiledConfig {
  std::optional<std::string> charsmap = std::nullopt;
  static void visit(auto& self, auto&& field) { field("precompiled_charsmap", self.charsmap, "rules of SentencePiece, in base64"); }
};

const std::vector<std::string> known_normalizers = {"Sequence",       "NFC",   "NFD",     "NFKC",    "NFKD", "Lowercase",   "StripAccents",
                                                    "BertNormalizer", "Strip", "Prepend", "Replace", "Nmt",  "Precompiled", "ByteLevel"};

NormalizerPtr without_settings(const nlohmann::json& part, void (*function)(AlignedText&)) {
  read_part<NoSettings>(part);
  return normalizer(function);
}

}  // namespace

NormalizerPtr read_normalizer(const nlohmann::json& part, int depth) {
  if (part.is_null()) return nullptr;
  const std::string type = part_type(part);
  if (type == "Sequence") {
    std::vector<std::shared_ptr<const Normalizer>> steps;
    for (const nlohmann::json& step : part_list(part, "normalizers", depth))
      if (NormalizerPtr read = read_normalizer(step, depth + 1)) steps.push_back(std::move(read));
    return normalizer([steps](AlignedText& text) {
      for (const auto& step : steps) step->normalize(text);
    });
  }
  if (type == "NFC") return without_settings(part, [](AlignedText& text) { normalize_form(text, NormalForm::nfc); });
  if (type == "NFD") return without_settings(part, [](AlignedText& text) { normalize_form(text, NormalForm::nfd); });
  if (type == "NFKC") return without_settings(part, [](AlignedText& text) { normalize_form(text, NormalForm::nfkc); });
  if (type == "NFKD") return without_settings(part, [](AlignedText& text) { normalize_form(text, NormalForm::nfkd); });
  if (type == "Lowercase") return without_settings(part, lower);
  if (type == "StripAccents")
    return without_settings(part, [](AlignedText& text) { keep_if(text, [](char32_t c) { return !is_mark(c); }); });
  if (type == "Nmt") return without_settings(part, nmt);
  if (type == "ByteLevel") return without_settings(part, bytes);
  if (type == "Strip")
    return normalizer([config = read_part<StripConfig>(part)](AlignedText& text) { strip(text, config.left, config.right); });
  if (type == "BertNormalizer") return normalizer([config = read_part<BertConfig>(part)](AlignedText& text) { bert(text, config); });
  if (type == "Replace") return replacing(read_part<ReplaceConfig>(part));
  if (type == "Precompiled") return precompiled_normalizer(from_base64(read_part<PrecompiledConfig>(part).charsmap.value_or("")));
  if (type == "Prepend") {
    return normalizer([config = read_part<PrependConfig>(part)](AlignedText& text) {
      AlignedText out;
      Rewriter rewriter(text, out);
      rewriter.prepend(config.prepend);
      rewriter.copy(text.text.size());
      text = std::move(out);
    });
  }
  unknown_part("normalizer", type, known_normalizers);
}

}  // namespace transformer
