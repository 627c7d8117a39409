#include "transformer/text/parallel.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>

#include "core/shared/hash.h"
#include "transformer/core/parallel.h"
#include "transformer/core/setting_error.h"

namespace transformer {
namespace {

std::int64_t count_rest(LineReader& reader) {
  for (std::string line; reader.next(line);) {
  }
  return reader.number();
}

// Does it know itself what stands around a text?
bool frames(const Tokenizer& tokenizer) { return tokenizer.kind() == "huggingface"; }

// The ids of a sentence, all that make_batch does not add.
std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, const TokenFrame& frame, const std::string& text, std::int32_t end,
                                 std::int64_t& replaced) {
  std::vector<std::int32_t> ids = tokenizer.encode(text, &replaced);
  if (!frames(tokenizer) || ids.empty()) return ids;
  ids.insert(ids.begin(), frame.before.begin(), frame.before.end());
  ids.insert(ids.end(), frame.behind.begin(), frame.behind.end());
  if (ids.back() == end) ids.pop_back();
  return ids;
}

// Names that people give to the columns of parallel text.
bool looks_like_header(const std::vector<std::string>& cells) {
  if (cells.size() < 2 || cells[0] == cells[1]) return false;
  const auto both = [&](std::initializer_list<std::string_view> names) {
    return std::all_of(cells.begin(), cells.begin() + 2,
                       [&](const std::string& cell) { return std::find(names.begin(), names.end(), cell) != names.end(); });
  };
  return both({"source", "target", "Source", "Target", "src", "tgt", "trg", "input", "output", "text", "translation"}) ||
      both({"ar", "cs", "da", "de", "en", "es", "fa", "fi", "fr", "he", "hi", "id", "it",
            "ja", "ko", "nl", "pl", "pt", "ru", "sv", "th", "tr", "uk", "vi", "zh"});
}

}  // namespace

PairSource read_pairs(const std::string& source, const std::string& target) {
  if (source == "-" && target == "-") fail("parallel text", "source and target cannot both be read from standard input");
  struct Files {
    LineReader source, target;
  };
  return [files = std::make_shared<Files>(Files{LineReader(source), LineReader(target)})](std::string& source, std::string& target) {
    const bool more_source = files->source.next(source), more_target = files->target.next(target);
    if (more_source != more_target) {
      const std::int64_t source_lines = count_rest(files->source), target_lines = count_rest(files->target);
      fail("parallel text", "{} has {} lines and {} has {}: they must have the same number, line by line", files->source.path(),
           source_lines, files->target.path(), target_lines);
    }
    if (!more_source && files->source.number() == 0)
      fail("parallel text", "{} and {} are empty", files->source.path(), files->target.path());
    return more_source;
  };
}

PairSource read_tsv(const std::string& path, Header header) {
  const auto lines = std::make_shared<LineReader>(path);
  const auto records = std::make_shared<DelimitedReader>([lines](std::string& line) { return lines->next(line); }, path,
                                                         DelimitedOptions{.delimiter = delimiter_of(path)});
  return [records, path, header, cells = std::vector<std::string>()](std::string& source, std::string& target) mutable {
    const bool first = records->line() == 0;
    bool more = records->next(cells);
    if (!more && first) fail(path, "the file is empty");
    if (first && (header == Header::yes || (header == Header::automatic && looks_like_header(cells)))) more = records->next(cells);
    if (!more) return false;
    if (cells.size() < 2) fail(path, "line {} has no {} between source and target", records->line(), records->delimiter_name());
    source = std::move(cells[0]), target = std::move(cells[1]);
    return true;
  };
}

LineSource lines_of(PairSource pairs, PairSide side) {
  struct State {
    PairSource pairs;
    std::string source, target;
    bool target_waits = false;
  };
  return [side, state = std::make_shared<State>(State{std::move(pairs), {}, {}})](std::string& line) {
    auto& [next, source, target, target_waits] = *state;
    const bool second = target_waits;
    if (!second && !next(source, target)) return false;
    target_waits = side == PairSide::both && !second;
    line = side == PairSide::target || second ? target : source;
    return true;
  };
}

PairTokens pair_tokens(const TokenizerPair& tokenizers, const SpecialTokens& target) {
  PairTokens tokens = pair_tokens(*tokenizers.source, target);
  if (tokenizers.language >= 0 && tokenizers.language_alone) tokens.target_start = tokens.target_end = tokenizers.language;
  return tokens;
}

PairTokens pair_tokens(const Tokenizer& source, const SpecialTokens& target) {
  PairTokens tokens{.source_end = source.eos(), .target_start = target.bos, .target_end = target.eos};
  if (frames(source)) {
    const std::vector<std::int32_t> behind = frame_of(source).behind;
    if (behind.empty() || behind.back() != tokens.source_end) tokens.source_end = -1;
  } else if (tokens.source_end < 0) {
    fail("parallel text", "the source tokenizer has no token for the end of a sentence");
  }
  if (target.bos < 0 || target.eos < 0)
    fail("parallel text", "the target tokenizer needs tokens for the beginning and the end of a sentence");
  return tokens;
}

void PairDataset::add(std::span<const std::int32_t> source, std::span<const std::int32_t> target) {
  source_.add(source);
  target_.add(target);
}

PairDataset PairDataset::load(const PairSource& pairs, const Tokenizer& source_tokenizer, const Tokenizer& target_tokenizer,
                              const PairFilter& filter, PairReport& report, int threads, const std::optional<PairTokens>& tokens) {
  if (filter.max_length < 0) wrong_setting("parallel text", "max_length", "is {}, must not be negative", filter.max_length);
  if (filter.max_ratio != 0.0 && !(filter.max_ratio >= 1.0))
    wrong_setting("parallel text", "max_ratio", "is {}, must be 0 (any) or at least 1", filter.max_ratio);
  if (threads <= 0) threads = hardware_threads();
  PairDataset data(tokens ? *tokens : pair_tokens(source_tokenizer, target_tokenizer.special_tokens()));
  report = {};

  const TokenFrame source_frame = frame_of(source_tokenizer), target_frame = frame_of(target_tokenizer);
  // In parts of bounded size: read, tokenise in parallel, filter in the order of the text.
  struct Pair {
    std::string source_text, target_text;
    std::vector<std::int32_t> source, target;
    std::int64_t replaced = 0;
  };
  for (bool more = true; more;) {
    std::vector<Pair> part;
    for (std::size_t bytes = 0; more && part.size() < 8192 && bytes < (std::size_t{1} << 24);) {
      Pair pair;
      more = pairs(pair.source_text, pair.target_text);
      bytes += pair.source_text.size() + pair.target_text.size();
      if (more) part.push_back(std::move(pair));
    }
    parallel_for(threads, std::ssize(part), 16, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        part[i].source = ids_of(source_tokenizer, source_frame, part[i].source_text, data.source_eos(), part[i].replaced);
        part[i].target = ids_of(target_tokenizer, target_frame, part[i].target_text, data.target_eos(), part[i].replaced);
      }
    });
    for (const Pair& pair : part) {
      const auto [shorter, longer] = std::minmax({std::ssize(pair.source), std::ssize(pair.target)});
      ++report.total;
      report.invalid_utf8 += pair.replaced;
      if (shorter == 0) ++report.empty;
      else if (filter.max_length != 0 && longer > filter.max_length) ++report.too_long;
      else if (filter.max_ratio != 0.0 && static_cast<double>(longer) > filter.max_ratio * static_cast<double>(shorter))
        ++report.unbalanced;
      else data.add(pair.source, pair.target);
    }
  }
  if (report.total == 0) fail("parallel text", "there are no pairs");
  if (data.size() == 0)
    fail("parallel text", "none of {} pairs is left: {} have an empty side, {} are too long, {} have sides of too different lengths",
         report.total, report.empty, report.too_long, report.unbalanced);
  return data;
}

PairDataset PairDataset::load(const std::string& source, const std::string& target, const Tokenizer& source_tokenizer,
                              const Tokenizer& target_tokenizer, const PairFilter& filter, PairReport& report, int threads) {
  const PairSource pairs = read_pairs(source, target);
  return load(pairs, source_tokenizer, target_tokenizer, filter, report, threads);
}

std::uint64_t PairDataset::fingerprint() const {
  Hash hash;
  for (const std::int64_t id : {source_eos(), target_bos(), target_eos()}) hash.word(static_cast<std::uint64_t>(id));
  source_.add_to(hash), target_.add_to(hash);
  return hash.finish();
}

PairIds make_batch(const PairDataset& data, std::span<const std::int64_t> indices) {
  PairIds batch;
  for (const std::int64_t i : indices) {
    const auto source = data.source(i), target = data.target(i);
    batch.source.insert(batch.source.end(), source.begin(), source.end());
    if (data.source_eos() >= 0) batch.source.push_back(data.source_eos());
    batch.target.push_back(data.target_bos());
    batch.target.insert(batch.target.end(), target.begin(), target.end());
    batch.labels.insert(batch.labels.end(), target.begin(), target.end());
    batch.labels.push_back(data.target_eos());
    batch.source_lengths.push_back(std::ssize(source) + (data.source_eos() >= 0 ? 1 : 0));
    batch.target_lengths.push_back(std::ssize(target) + 1);
  }
  return batch;
}

namespace {

std::int64_t rounded(std::int64_t n, std::int64_t least) {
  const std::int64_t step = std::max(
      least, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1)))) / 8);
  return (n + step - 1) / step * step;
}

// The lengths of the made sentences of a side: one as long as sentences may be now, the others as the tokens need it.
std::vector<std::int64_t> made_lengths(const std::vector<std::int64_t>& lengths, std::int64_t limit) {
  const std::int64_t longest = std::max<std::int64_t>(1, lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end()));
  const std::int64_t most = std::max(longest, std::min(rounded(longest, 16), limit));
  const std::int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  std::vector<std::int64_t> made;
  for (std::int64_t left = rounded(tokens + most, 64) - tokens; left > 0; left -= made.back()) made.push_back(std::min(left, most));
  return made;
}

}  // namespace

void round_sizes(PairIds& batch, const RoundedSizes& limits) {
  if (batch.source.empty() || batch.target.empty()) return;
  std::vector<std::int64_t> source = made_lengths(batch.source_lengths, limits.longest_source);
  std::vector<std::int64_t> target = made_lengths(batch.target_lengths, limits.longest_target);
  const auto pairs = std::ssize(batch.source_lengths), more = std::max(std::ssize(source), std::ssize(target));
  for (auto* lengths : {&source, &target}) lengths->resize(static_cast<std::size_t>(rounded(pairs + more, 8) - pairs), 0);
  const auto add = [](std::vector<std::int32_t>& ids, const std::vector<std::int64_t>& lengths, std::int32_t id) {
    ids.insert(ids.end(), static_cast<std::size_t>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})), id);
  };
  add(batch.source, source, batch.source.front());
  add(batch.target, target, batch.target.front());
  add(batch.labels, target, limits.ignored);
  batch.source_lengths.insert(batch.source_lengths.end(), source.begin(), source.end());
  batch.target_lengths.insert(batch.target_lengths.end(), target.begin(), target.end());
}

}  // namespace transformer
