#include "transformer/predict/translator.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <ostream>

#include "io/shared/chunks.h"
#include "io/shared/utf8.h"
#include "predict/shared/text_reader.h"
#include "transformer/core/parallel.h"
#include "transformer/core/setting_error.h"
#include "transformer/generate/generation_config.h"
#include "transformer/models/encoder_decoder_model.h"

namespace transformer {
namespace {

constexpr std::size_t longest_sentence = std::size_t{1} << 20;  // bytes of a sentence that are looked at

// The first `bytes` of a text, or a few less so that no character is cut.
std::string_view beginning_of(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  std::size_t end = bytes;
  while (end > bytes - 3 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end);
}

// "▁a ▁cat </s> ||| ▁eine ▁Katze ||| 0-0 1-1": the tokens of both sides, and for each of the target the one of the source that it
// attends to most.
std::string alignment_of(const Translation& t, const TokenizerPair& tokenizers) {
  const auto pieces = [](const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
    std::vector<std::string> out;
    for (const std::int32_t id : ids) out.push_back(id >= 0 && id < tokenizer.size() ? tokenizer.piece(id) : std::to_string(id));
    return fmt::format("{}", fmt::join(out, " "));
  };
  std::vector<std::string> pairs;
  for (std::size_t i = 0; i < t.hypothesis.ids.size(); ++i) {
    const auto& row = t.hypothesis.alignment[i];
    pairs.push_back(fmt::format("{}-{}", std::max_element(row.begin(), row.end()) - row.begin(), i));
  }
  return fmt::format(" ||| {} ||| {} ||| {}", pieces(*tokenizers.source, t.source), pieces(*tokenizers.target, t.hypothesis.ids),
                     fmt::join(pairs, " "));
}

}  // namespace

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
    frame_ = frame_of(*tokenizers_.source);
    if (frame_.behind.empty() || frame_.behind.back() != source_eos_) source_eos_ = -1;
    else frame_.behind.pop_back();
  }
}

TokenizerPair translator_tokenizers(const std::filesystem::path& folder, Languages languages) {
  const GenerationConfig generation = load_generation_config(folder);
  const auto named = generation.forced_bos_token_id ? generation.forced_bos_token_id : generation.decoder_start_token_id;
  languages.usual_target = named.value_or(-1);
  return load_tokenizers(folder, languages);
}

SpecialTokens target_tokens(const TokenizerPair& tokenizers, const std::filesystem::path& folder) {
  const GenerationConfig generation = load_generation_config(folder);
  SpecialTokens target = tokenizers.target->special_tokens();
  if (generation.decoder_start_token_id) target.bos = *generation.decoder_start_token_id;
  if (!generation.eos_token_id.empty()) target.eos = generation.eos_token_id.front();
  if (generation.pad_token_id) target.pad = *generation.pad_token_id;
  if (tokenizers.language >= 0 && tokenizers.language_alone) target.bos = tokenizers.language;
  else if (tokenizers.language >= 0 && !generation.decoder_start_token_id) target.bos = target.eos;  // as they were trained
  return target;
}

Translator Translator::load(Context& ctx, const std::filesystem::path& folder, const Languages& languages,
                            const std::filesystem::path& adapter) {
  return open(load_model(ctx, folder, {.dtype = ctx.precision(), .adapter = adapter}), folder, languages);
}

Translator Translator::open(std::shared_ptr<const Model> model, const std::filesystem::path& folder, const Languages& languages) {
  const auto* seq2seq = dynamic_cast<const EncoderDecoderModel*>(model.get());
  if (seq2seq == nullptr)
    fail(folder.string(), "a model of type \"{}\" does not translate: expected one with an encoder and a decoder",
         model_type_of(model->config()));
  TokenizerPair tokenizers = translator_tokenizers(folder, languages);
  const SpecialTokens target = target_tokens(tokenizers, folder);
  return {std::shared_ptr<const EncoderDecoder>(model, &seq2seq->network), std::move(tokenizers), target};
}

bool Translator::complete() const { return tokenizers_.source->kind() == "huggingface"; }

std::vector<std::int32_t> Translator::source_ids(const std::string& text, std::size_t longest, std::int64_t& replaced,
                                                 std::int64_t& cut) const {
  std::vector<std::int32_t> ids = tokenizers_.source->encode(beginning_of(text, longest_sentence), &replaced);
  const std::size_t around = frame_.before.size() + frame_.behind.size(), room = longest - std::min(longest, around);
  if (text.size() > longest_sentence || ids.size() > room) ++cut;
  if (ids.size() > room) ids.resize(room);
  if (ids.empty()) return ids;
  ids.insert(ids.begin(), frame_.before.begin(), frame_.before.end());
  ids.insert(ids.end(), frame_.behind.begin(), frame_.behind.end());
  return ids;
}

EncoderDecoderView Translator::view() const {
  const std::int32_t language = tokenizers_.language_alone ? -1 : tokenizers_.language;
  return {*model_, source_eos_, target_, tokenizers_.target->size(), language};
}

std::vector<std::int32_t> Translator::encode(const std::string& text, TextReport* report, LongTexts long_texts) const {
  std::int64_t replaced = 0, cut = 0;
  const std::int64_t most = view().max_source();
  std::vector<std::int32_t> ids = source_ids(text, static_cast<std::size_t>(most), replaced, cut);
  if (cut > 0 && long_texts == LongTexts::refuse) {
    const std::size_t end = source_eos_ >= 0 ? 1 : 0, around = frame_.before.size() + frame_.behind.size() + end;
    too_long(0, 1, tokenizers_.source->encode(text).size() + around, most + static_cast<std::int64_t>(end));
  }
  if (report != nullptr) ++report->texts, report->empty += ids.empty() ? 1 : 0, report->invalid_utf8 += replaced, report->truncated += cut;
  return ids;
}

std::vector<std::vector<Translation>> Translator::translate_n_best(Context& ctx, std::span<const std::string> texts,
                                                                   const GenerationConfig& config, const SearchOptions& options,
                                                                   TextReport* report) const {
  const EncoderDecoderView view = this->view();
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
    report->texts += static_cast<std::int64_t>(texts.size());
    report->empty += static_cast<std::int64_t>(texts.size() - places.size());
    report->invalid_utf8 += invalid;
    report->truncated += truncated;
    for (const auto& ids : sources) report->unknown += mostly_unknown(*tokenizers_.source, ids) ? 1 : 0;
  }
  auto found = search(ctx, view, sources, config, options);
  std::vector<std::vector<Translation>> results(texts.size(), std::vector<Translation>(1));
  for (std::size_t i = 0; i < places.size(); ++i) {
    auto& translations = results[places[i]];
    std::vector<std::int32_t> read = std::move(sources[i]);
    if (source_eos_ >= 0) read.push_back(source_eos_);
    translations.clear();
    for (Hypothesis& h : found[i]) {
      std::string text = tokenizers_.target->decode(h.ids);
      translations.push_back({std::move(text), std::move(h), read});
    }
  }
  return results;
}

std::vector<std::string> Translator::translate(Context& ctx, std::span<const std::string> texts, const GenerationConfig& config,
                                               const SearchOptions& options) const {
  std::vector<std::string> out;
  for (auto& translations : translate_n_best(ctx, texts, config, options)) out.push_back(std::move(translations.front().text));
  return out;
}

std::string Translator::translate(Context& ctx, const std::string& text, const GenerationConfig& config) const {
  return translate(ctx, std::span<const std::string>(&text, 1), config).front();
}

TextReport Translator::translate_lines(Context& ctx, const LineSource& next, std::ostream& out, const GenerationConfig& config,
                                       const SearchOptions& options, const LineOptions& lines, const std::function<bool()>& ready) const {
  if (lines.chunk_lines < 1) wrong_setting("translate", "chunk_lines", "is {}: expected 1 or more", lines.chunk_lines);
  TextReport report;
  const LineSource left = until_end(next);
  for (std::vector<std::string> chunk; read_chunk(left, ready, lines.chunk_lines, chunk);) {
    const std::int64_t first = report.texts;
    const auto results = translate_n_best(ctx, chunk, config, options, &report);
    for (std::size_t i = 0; i < results.size(); ++i) {
      for (const Translation& t : results[i]) {
        std::string shown = t.text;
        std::replace_if(
            shown.begin(), shown.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');  // a line stays a line
        const bool several = config.num_return_sequences > 1;
        if (several) shown.insert(0, fmt::format("{} ||| ", first + static_cast<std::int64_t>(i)));
        if (several || lines.scores) shown += fmt::format(" ||| {:.6g}", t.hypothesis.score);
        if (options.alignment) shown += alignment_of(t, tokenizers_);
        out << shown << '\n';
      }
    }
    if (!out.flush()) fail("output", "cannot be written after line {}: is the disk full?", first);
  }
  return report;
}

}  // namespace transformer
