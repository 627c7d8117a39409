#include "predict/shared/text_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "generate/shared/loop.h"
#include "io/shared/utf8.h"
#include "transformer/core/error.h"
#include "transformer/core/parallel.h"
#include "transformer/models/encoder_decoder_model.h"
#include "transformer/models/text.h"
#include "transformer/tokenizers/tokenizer_pair.h"

namespace transformer {
namespace {

// Those of the text itself, without the special tokens around it.
std::vector<std::int32_t> own_ids(const Encoding& e) {
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < e.size(); ++i)
    if (e.added[i] == 0) out.push_back(e.ids[i]);
  return out;
}

}  // namespace

std::string TextReport::summary() const {
  std::vector<std::string> parts;
  if (invalid_utf8 > 0) parts.push_back(fmt::format("{} sequences of bytes that are not UTF-8 became U+FFFD", invalid_utf8));
  if (truncated > 0) parts.push_back(fmt::format("of {} texts longer than the model takes only the beginning was read", truncated));
  if (unknown > 0)
    parts.push_back(fmt::format("of {} texts most tokens are unknown to the model: was it trained on another language?", unknown));
  return fmt::format("{}", fmt::join(parts, "; "));
}

void too_long(std::size_t text, std::size_t texts, std::size_t tokens, std::int64_t most) {
  const std::string which = texts > 1 ? fmt::format("text {} of {}", text + 1, texts) : "the text";
  throw TooLongError("tokenizer", fmt::format("{} has {} tokens, and the model takes at most {}: shorten it", which, tokens, most));
}

bool mostly_unknown(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  const std::int32_t unknown = tokenizer.special_tokens().unk;
  return unknown >= 0 && 2 * std::count(ids.begin(), ids.end(), unknown) > std::ssize(ids);
}

// Keeps the special tokens; true when something was left out. first: tokens of the first text, without special ones; the others are
// the second's.
bool TextReader::cut(Encoding& e, std::size_t first) const {
  const auto longest = static_cast<std::size_t>(longest_);
  if (longest_ <= 0 || e.size() <= longest) return false;
  const auto special = static_cast<std::size_t>(std::count(e.added.begin(), e.added.end(), 1));
  const std::size_t room = longest - std::min(longest, special), second = e.size() - special - first;
  // What each may keep: all of a short one, or half of the room.
  const std::size_t keep_first = std::min(first, std::max(room - std::min(room, second), room - room / 2));
  const std::size_t keep_second = std::min(second, room - keep_first);
  Encoding kept;
  for (std::size_t i = 0, text = 0; i < e.size() && kept.size() < longest; ++i) {
    const std::size_t place = e.added[i] != 0 ? 0 : text++;
    if (e.added[i] == 0 && (place < first ? place >= keep_first : place - first >= keep_second)) continue;
    kept.ids.push_back(e.ids[i]), kept.tokens.push_back(e.tokens[i]), kept.places.push_back(e.places[i]);
    kept.type_ids.push_back(e.type_ids[i]), kept.added.push_back(e.added[i]);
  }
  e = std::move(kept);
  return true;
}

void TextReader::fill(Encoding& e) const {
  if (e.size() > 0) return;
  const std::int32_t id = tokenizer_->bos() >= 0 ? tokenizer_->bos() : tokenizer_->eos();
  if (id < 0) fail("tokenizer", "a text has no tokens, and the model has no start or end token to stand for it: leave empty texts out");
  e = {{id}, {tokenizer_->piece(id)}, {TokenPlace{}}, {0}, {1}};
}

std::vector<Encoding> TextReader::read(Context& ctx, std::span<const std::string> texts, TextReport* report) const {
  return read(ctx, texts, {}, report);
}

std::vector<Encoding> TextReader::read(Context& ctx, std::span<const std::string> texts, std::span<const std::string> second,
                                       TextReport* report) const {
  std::vector<Encoding> out(texts.size());
  std::atomic<std::int64_t> invalid{0}, truncated{0}, unknown{0};
  parallel_for(ctx.threads(), static_cast<std::int64_t>(texts.size()), 16, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t replaced = 0, shortened = 0, strange = 0;
    const auto repaired = [&](const std::string& text) { return is_valid_utf8(text) ? text : sanitize_utf8(text, replaced); };
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const std::string first = repaired(texts[i]);
      out[i] = second.empty() ? tokenizer_->tokenize(first) : tokenizer_->tokenize_pair(first, repaired(second[i]));
      const bool longer = longest_ > 0 && std::ssize(out[i].ids) > longest_;
      if (longer && long_texts_ == LongTexts::refuse) too_long(i, texts.size(), out[i].size(), longest_);
      if (second.empty()) {
        shortened += cut(out[i], out[i].size() - static_cast<std::size_t>(std::count(out[i].added.begin(), out[i].added.end(), 1))) ? 1 : 0;
      } else {
        shortened += longer && cut(out[i], tokenizer_->encode(first).size()) ? 1 : 0;
      }
      strange += mostly_unknown(*tokenizer_, own_ids(out[i])) ? 1 : 0;
      fill(out[i]);
    }
    invalid += replaced, truncated += shortened, unknown += strange;
  });
  if (report != nullptr) {
    report->texts += static_cast<std::int64_t>(texts.size());
    report->invalid_utf8 += invalid;
    report->truncated += truncated;
    report->unknown += unknown;
  }
  return out;
}

std::vector<std::vector<std::size_t>> text_batches(const std::vector<Encoding>& texts, std::int64_t batch_tokens) {
  std::vector<std::vector<std::int32_t>> ids;
  for (const Encoding& e : texts) ids.push_back(e.ids);
  return batches_by_length(ids, batch_tokens);
}

PackedTexts packed_texts(const std::vector<Encoding>& texts, const std::vector<std::size_t>& chosen, bool types) {
  PackedTexts out;
  for (const std::size_t i : chosen) {
    out.add(texts[i].ids);
    if (types) out.types.insert(out.types.end(), texts[i].type_ids.begin(), texts[i].type_ids.end());
  }
  return out;
}

TokenizerPtr tokenizer_of(const std::filesystem::path& folder) {
  if (!has_tokenizers(folder))
    fail(
        folder.string(),
        "there is no tokenizer (tokenizer.json, vocab.txt, vocab.json and merges.txt, tokenizer.model ...): put the model's own one there");
  return load_tokenizers(folder).source;
}

std::int64_t longest_text(const Model& model) {
  if (const auto* text = dynamic_cast<const TextModel*>(&model)) {
    const TextConfig& c = text->text();
    return c.positions > 0 ? c.positions - c.position_offset : 0;
  }
  if (const auto* seq2seq = dynamic_cast<const EncoderDecoderModel*>(&model)) return seq2seq->network.encoder.max_length();
  return 0;
}

}  // namespace transformer
