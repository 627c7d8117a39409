#include "train/language_text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/shared/share_out.h"
#include "io/shared/characters.h"
#include "transformer/autograd/autograd.h"

namespace transformer {

LoadedText load_text(const std::vector<std::string>& files, Documents documents) {
  LoadedText text;
  DocumentReader reader(files, documents);
  for (DocumentPart part; reader.next(part);) text.parts.push_back(std::move(part));
  text.replaced = reader.replaced();
  if (text.parts.empty()) fail(files.empty() ? "text" : files.front(), "there is no text");
  return text;
}

LoadedText split_text(LoadedText& text, double share) {
  std::int64_t all = 0;
  for (const DocumentPart& part : text.parts) all += static_cast<std::int64_t>(count_characters(part.text));
  auto left = static_cast<std::int64_t>(static_cast<double>(all) * (1.0 - share));  // characters that stay
  if (left == 0 || left == all)
    fail("valid_split", "{} of {} characters leaves nothing on one side: give more text, or valid_text", share, all);
  std::size_t at = 0;
  for (std::int64_t count = 0; (count = static_cast<std::int64_t>(count_characters(text.parts[at].text))) <= left; ++at) {
    left -= count;
    if (left == 0) break;
  }
  LoadedText end;
  if (left == 0) {
    ++at;
  } else {  // within a part
    DocumentPart& part = text.parts[at];
    std::size_t byte = 0;
    for (; left > 0; --left) next_character(part.text, byte);
    end.parts.push_back({part.text.substr(byte), part.last});
    part.text.resize(byte);
    ++at;
  }
  const auto first = text.parts.begin() + static_cast<std::ptrdiff_t>(at);
  end.parts.insert(end.parts.end(), std::make_move_iterator(first), std::make_move_iterator(text.parts.end()));
  text.parts.erase(first, text.parts.end());
  text.parts.back().last = true;
  return end;
}

TokenRow encode_text(const LoadedText& text, const Tokenizer& tokenizer, std::int32_t end, CorpusReport& report, int threads) {
  const std::vector<std::vector<std::int32_t>> encoded = encode(tokenizer, text.parts, threads);
  std::vector<std::int32_t> ids;
  report.invalid_utf8 += text.replaced;
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    ids.insert(ids.end(), encoded[i].begin(), encoded[i].end());
    report.text_bytes += std::ssize(text.parts[i].text);
    if (tokenizer.unk() >= 0) report.unknown += std::count(encoded[i].begin(), encoded[i].end(), tokenizer.unk());
    if (!text.parts[i].last) continue;
    ++report.documents;
    if (end >= 0 && i + 1 < encoded.size()) ids.push_back(end);
  }
  report.tokens = std::ssize(ids);
  return {std::move(ids), report.text_bytes};
}

TokenRow read_tokens(const std::vector<std::string>& files, Documents documents, const Tokenizer& tokenizer, std::int32_t end,
                     CorpusReport& report, int threads) {
  return encode_text(load_text(files, documents), tokenizer, end, report, threads);
}

void WindowBatch::add(const TokenRow& row, std::int64_t begin, std::int64_t size, std::int32_t boundary) {
  std::vector<std::int32_t> window(static_cast<std::size_t>(size) + 1);
  row.read(begin, window);
  ids.insert(ids.end(), window.begin(), window.end() - 1);
  targets.insert(targets.end(), window.begin() + 1, window.end());
  std::int64_t sequence = 0;
  for (std::int64_t i = 1; boundary >= 0 && i < size; ++i)
    if (window[static_cast<std::size_t>(i)] == boundary) lengths.push_back(i - sequence), sequence = i;
  lengths.push_back(size - sequence);
}

Tensor WindowBatch::loss(Context& ctx, const TextModel& model) const {
  const Shape shape{static_cast<std::int64_t>(ids.size())};
  return model.loss(ctx, {.ids = Tensor::from<std::int32_t>(ctx, shape, ids), .sequences = Sequences(lengths)},
                    Tensor::from<std::int32_t>(ctx, shape, targets));
}

TextScore score_tokens(Context& ctx, const TextModel& model, const TokenRow& tokens, std::int64_t context, std::int32_t boundary) {
  if (tokens.size() < 2) fail("score_tokens", "a text of {} tokens was given: expected 2 or more", tokens.size());
  if (context < 1) fail("score_tokens", "a context of {} tokens was given: expected 1 or more", context);
  constexpr std::int64_t enough = 4096;  // tokens of a batch
  const NoGradients no_gradients(ctx);
  double sum = 0.0;
  const std::int64_t targets = tokens.size() - 1;
  const std::int64_t together = std::max<std::int64_t>(1, enough / context) * context, batches = (targets + together - 1) / together;
  const auto measure = [&](std::int64_t i) {
    WindowBatch batch;
    const std::int64_t end = std::min((i + 1) * together, targets);
    for (std::int64_t at = i * together; at < end; at += context) batch.add(tokens, at, std::min(context, end - at), boundary);
    return std::vector{static_cast<double>(batch.loss(ctx, model).item()) * static_cast<double>(batch.ids.size())};
  };
  share_out<double>(ctx, batches, measure, [&](std::int64_t, const std::vector<double>& batch) { sum += batch.front(); });
  return {.loss = sum / static_cast<double>(targets), .tokens = tokens.size(), .text_bytes = tokens.text_bytes()};
}

double TextScore::perplexity() const { return std::exp(loss); }

double TextScore::bits_per_byte() const {
  if (text_bytes < 1) return std::numeric_limits<double>::quiet_NaN();
  return loss * static_cast<double>(tokens) / std::numbers::ln2 / static_cast<double>(text_bytes);
}

}  // namespace transformer
