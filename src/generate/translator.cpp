#include "transformer/generate/translator.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <ostream>

#include "transformer/core/error.h"
#include "transformer/core/parallel.h"
#include "transformer/generate/generation_config.h"
#include "transformer/models/seq2seq.h"
#include "transformer/text/utf8.h"

namespace transformer {
namespace {

constexpr std::size_t longest_text = std::size_t{1} << 20;    // bytes of a sentence that are looked at
constexpr std::size_t largest_chunk = std::size_t{16} << 20;  // bytes read before they are translated

// The first `bytes` of a text, or a few less so that no character is cut.
std::string_view beginning_of(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  std::size_t end = bytes;
  while (end > bytes - 3 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end);
}

// "0-1 1-0": for each target token the source token that it attends to most.
std::string pairs_of(const Hypothesis& h) {
  std::string out;
  for (std::size_t i = 0; i < h.ids.size(); ++i) {
    const auto& row = h.alignment[i];
    out += fmt::format("{}{}-{}", i == 0 ? "" : " ", std::max_element(row.begin(), row.end()) - row.begin(), i);
  }
  return out;
}

}  // namespace

std::string TranslationReport::summary() const {
  std::vector<std::string> parts;
  if (invalid_utf8 > 0) parts.push_back(fmt::format("{} sequences of bytes that are not UTF-8 became U+FFFD", invalid_utf8));
  if (truncated > 0) parts.push_back(fmt::format("of {} lines longer than the model takes only the beginning was translated", truncated));
  return fmt::format("{}", fmt::join(parts, "; "));
}

Translator::Translator(std::shared_ptr<const EncoderDecoder> model, TokenizerPair tokenizers)
    : Translator(std::move(model), tokenizers, tokenizers.target != nullptr ? tokenizers.target->special_tokens() : SpecialTokens()) {}

Translator::Translator(std::shared_ptr<const EncoderDecoder> model, TokenizerPair tokenizers, const SpecialTokens& target)
    : model_(std::move(model)), tokenizers_(std::move(tokenizers)), target_(target), source_eos_(-1) {
  if (model_ == nullptr || tokenizers_.source == nullptr || tokenizers_.target == nullptr)
    fail("Translator", "a model and two tokenizers are needed (one object may be both)");
  const std::int64_t n = tokenizers_.source->size(), m = tokenizers_.target->size();
  const std::int64_t source = model_->source_vocabulary(), target_size = model_->target_vocabulary();
  // Published models may have more tokens than their tokenizers.
  const bool fits = complete() ? n <= source && m <= target_size : n == source && m == target_size;
  if (!fits)
    fail("Translator", "tokenizers of {} and {} pieces do not fit a model with vocabularies of {} and {}: are they of another model?", n, m,
         source, target_size);
  source_eos_ = tokenizers_.source->eos();
  if (complete()) {
    const std::vector<std::int32_t> frame = tokenizers_.source->tokenize("").ids;  // what it puts around every text
    if (frame.empty() || frame.back() != source_eos_) source_eos_ = -1;
  }
}

SpecialTokens target_tokens(const Tokenizer& tokenizer, const std::filesystem::path& folder) {
  const GenerationConfig generation = load_generation_config(folder);
  SpecialTokens target = tokenizer.special_tokens();
  if (generation.decoder_start_token_id) target.bos = *generation.decoder_start_token_id;
  if (!generation.eos_token_id.empty()) target.eos = generation.eos_token_id.front();
  if (generation.pad_token_id) target.pad = *generation.pad_token_id;
  return target;
}

Translator Translator::load(Context& ctx, const std::filesystem::path& folder, const std::filesystem::path& adapter) {
  std::shared_ptr<Model> model = load_model(ctx, folder, {.dtype = ctx.precision(), .adapter = adapter});
  const auto* seq2seq = dynamic_cast<const Seq2SeqModel*>(model.get());
  if (seq2seq == nullptr)
    fail(folder.string(), "a model of type {} does not translate: expected one with an encoder and a decoder",
         model->config().at("model_type").dump());
  TokenizerPair tokenizers = load_tokenizers(folder);
  const SpecialTokens target = target_tokens(*tokenizers.target, folder);
  return {std::shared_ptr<const EncoderDecoder>(model, &seq2seq->network), std::move(tokenizers), target};
}

bool Translator::complete() const { return tokenizers_.source->kind() == "huggingface"; }

std::vector<std::int32_t> Translator::source_ids(const std::string& text, std::size_t longest, std::int64_t& replaced,
                                                 std::int64_t& cut) const {
  const std::string_view beginning = beginning_of(text, longest_text);
  std::vector<std::int32_t> ids = tokenizers_.source->encode(beginning, &replaced);
  if (complete() && !ids.empty()) {
    ids = tokenizers_.source->tokenize(beginning).ids;
    if (source_eos_ >= 0) ids.pop_back();
  }
  if (text.size() > longest_text || ids.size() > longest) ++cut;
  if (ids.size() > longest) ids.resize(longest);
  return ids;
}

std::vector<std::vector<Translation>> Translator::translate_n_best(Context& ctx, std::span<const std::string> texts,
                                                                   const SearchOptions& options, TranslationReport* report) const {
  const TranslationModel view(*model_, source_eos_, target_, tokenizers_.target->size());
  std::vector<std::vector<std::int32_t>> all(texts.size());
  std::atomic<std::int64_t> invalid{0}, truncated{0};
  const auto longest = static_cast<std::size_t>(view.max_source());
  parallel_for(ctx.threads(), static_cast<std::int64_t>(texts.size()), 16, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t replaced = 0, cut = 0;
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      all[i] = source_ids(texts[i], longest, replaced, cut);
    invalid += replaced, truncated += cut;
  });
  std::vector<std::size_t> places;  // of the texts that have tokens
  std::vector<std::vector<std::int32_t>> sources;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!all[i].empty()) places.push_back(i), sources.push_back(std::move(all[i]));
  if (report != nullptr) {
    report->lines += static_cast<std::int64_t>(texts.size());
    report->empty += static_cast<std::int64_t>(texts.size() - places.size());
    report->invalid_utf8 += invalid;
    report->truncated += truncated;
  }
  auto found = search(ctx, view, sources, options);
  std::vector<std::vector<Translation>> results(texts.size(), std::vector<Translation>(1));
  for (std::size_t i = 0; i < places.size(); ++i) {
    auto& translations = results[places[i]];
    translations.clear();
    for (Hypothesis& h : found[i]) {
      std::string text = tokenizers_.target->decode(h.ids);
      translations.push_back({std::move(text), std::move(h)});
    }
  }
  return results;
}

std::vector<std::string> Translator::translate(Context& ctx, std::span<const std::string> texts, const SearchOptions& options) const {
  std::vector<std::string> out;
  for (auto& translations : translate_n_best(ctx, texts, options)) out.push_back(std::move(translations.front().text));
  return out;
}

std::string Translator::translate(Context& ctx, const std::string& text, const SearchOptions& options) const {
  return translate(ctx, std::span<const std::string>(&text, 1), options).front();
}

TranslationReport Translator::translate_lines(Context& ctx, const LineSource& next, std::ostream& out, const SearchOptions& options,
                                              const LineOptions& lines, const std::function<bool()>& ready) const {
  if (lines.chunk_lines < 1) fail("translate", "chunk_lines is {}: expected 1 or more", lines.chunk_lines);
  TranslationReport report;
  std::vector<std::string> chunk;
  for (bool more = true; more;) {
    chunk.clear();
    std::size_t bytes = 0;
    for (std::string line; static_cast<std::int64_t>(chunk.size()) < lines.chunk_lines && bytes < largest_chunk;) {
      if (!chunk.empty() && ready && !ready()) break;
      more = next(line);
      if (!more) break;
      bytes += line.size();
      chunk.push_back(std::move(line));
    }
    const std::int64_t first = report.lines;
    const auto results = translate_n_best(ctx, chunk, options, &report);
    for (std::size_t i = 0; i < results.size(); ++i) {
      for (const auto& [text, h] : results[i]) {
        std::string shown = text;
        std::replace_if(
            shown.begin(), shown.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');  // a line stays a line
        if (options.n_best > 1) shown.insert(0, fmt::format("{} ||| ", first + static_cast<std::int64_t>(i)));
        if (options.n_best > 1 || lines.scores) shown += fmt::format(" ||| {:.6g}", h.score);
        if (options.alignment) shown += " ||| " + pairs_of(h);
        out << shown << '\n';
      }
    }
    if (!out.flush()) fail("output", "cannot be written after line {}: is the disk full?", first);
  }
  return report;
}

}  // namespace transformer
