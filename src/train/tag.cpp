#include "transformer/train/tag.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/shared/hash.h"
#include "core/shared/share_out.h"
#include "generate/shared/loop.h"
#include "io/shared/chunks.h"
#include "io/shared/utf8.h"
#include "predict/shared/text_reader.h"
#include "text/shared/entities.h"
#include "text/shared/plan.h"
#include "text/shared/words.h"
#include "train/batch_size.h"
#include "train/encoder_batch.h"
#include "train/head_labels.h"
#include "train/shares.h"
#include "transformer/core/setting_error.h"
#include "transformer/ops/cross_entropy.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* tag_head = "ForTokenClassification";

LabelledBatch batch_of(const TaggedTokens& data, const std::vector<std::int64_t>& indices) {
  std::vector<std::int64_t> tags;
  for (const std::int64_t i : indices) tags.insert(tags.end(), data.tags.at(i).begin(), data.tags.at(i).end());
  const Shape shape{std::ssize(tags)};
  return {packed_texts(data.tokens, indices), {shape, std::move(tags)}};
}

Tensor loss_of(Context& ctx, const Tensor& logits, const HostTensor& tags) {
  return cross_entropy(ctx, logits, to_tensor(ctx, tags), {.ignore = TaggedTokens::ignored});
}

std::int64_t words_of(const TaggedTokens& data, const std::vector<std::int64_t>& indices) {
  std::int64_t words = 0;
  for (const std::int64_t i : indices)
    words += std::ranges::count_if(data.tags.at(i), [](std::int32_t tag) { return tag != TaggedTokens::ignored; });
  return words;
}

// Nothing measured yet.
Evaluation unmeasured(const std::vector<std::string>& tags) {
  if (marks_entities(tags)) return {.scores = EntityScores()};
  return {.scores = ConfusionMatrix(tags)};
}

// The same batches wherever texts are judged: the same figures.
Evaluation judge(Context& ctx, const TextModel& model, const TaggedTokens& data, const std::vector<std::string>& names) {
  const Inference inference(ctx);
  Evaluation out = unmeasured(names);
  const auto plan = plan_epoch(data.tokens, judging_tokens(data.tokens), 0, 0);
  const auto measure = [&](std::int64_t i) {  // of each token the best tag, then the loss
    const LabelledBatch batch = batch_of(data, plan[static_cast<std::size_t>(i)]);
    const Tensor logits = model.label_logits(ctx, batch.texts);  // [tokens, tags]
    const auto loss = static_cast<double>(loss_of(ctx, logits, batch.labels).item());
    const std::vector<float> values = cast(ctx, logits, DType::float32).to_vector<float>();
    std::vector<double> best;
    for (auto row = values.begin(); row != values.end(); row += logits.cols())
      best.push_back(static_cast<double>(std::max_element(row, row + logits.cols()) - row));
    best.push_back(loss);
    return best;
  };
  share_out<double>(ctx, std::ssize(plan), measure, [&](std::int64_t i, const std::vector<double>& measured) {
    const std::vector<std::int64_t>& indices = plan[static_cast<std::size_t>(i)];
    out.loss += measured.back() * static_cast<double>(words_of(data, indices));
    std::size_t at = 0;
    for (const std::int64_t index : indices) {
      std::vector<std::string> truth, predicted;
      for (const std::int32_t tag : data.tags.at(index)) {
        const auto best = static_cast<std::size_t>(measured[at++]);
        if (tag == TaggedTokens::ignored) continue;
        if (auto* matrix = std::get_if<ConfusionMatrix>(&out.scores)) matrix->add(tag, static_cast<std::int64_t>(best));
        else truth.push_back(names[static_cast<std::size_t>(tag)]), predicted.push_back(names[best]);
      }
      if (auto* entities = std::get_if<EntityScores>(&out.scores)) entities->add_text(truth, predicted);
    }
  });
  out.loss /= static_cast<double>(data.words);
  return out;
}

}  // namespace

std::uint64_t TaggedTokens::fingerprint() const {
  Hash hash;
  tokens.add_to(hash), tags.add_to(hash);
  return hash.finish();
}

// A file's texts, as they were read.
struct TaggedRows {
  std::string path;
  std::vector<TaggedText> texts;
  std::int64_t repaired = 0;  // sequences of bytes that were not UTF-8

  TaggedRows(const std::string& file, const TaggedColumns& columns) : path(file) {
    TaggedReader reader(file, columns);
    while (auto text = reader.next()) {
      for (std::string& word : text->words)
        if (!is_valid_utf8(word)) word = sanitize_utf8(word, repaired);
      texts.push_back(std::move(*text));
    }
    if (texts.empty()) fail(path, "there are no words with tags");
  }

  TaggedTokens tokens(Context& ctx, const TokenizerPtr& tokenizer, std::int64_t longest, const std::vector<std::string>& names,
                      TextReport& report) const {
    TaggedTokens out;
    report.invalid_utf8 += repaired;
    std::map<std::string_view, std::int32_t> ids;
    for (std::size_t i = 0; i < names.size(); ++i) ids.emplace(names[i], static_cast<std::int32_t>(i));
    const TextReader reader(tokenizer, longest);
    constexpr std::size_t part = 8192;
    for (std::size_t begin = 0; begin < texts.size(); begin += part) {
      std::vector<std::string> joined;
      std::vector<std::vector<TokenPlace>> places;
      for (std::size_t i = begin; i < std::min(begin + part, texts.size()); ++i) {
        JoinedWords words = join_words(texts[i].words);
        joined.push_back(std::move(words.text)), places.push_back(std::move(words.places));
      }
      const std::vector<Encoding> all = reader.read(ctx, joined, &report);
      for (std::size_t i = 0; i < all.size(); ++i) {
        std::vector<std::int32_t> tags(all[i].size(), TaggedTokens::ignored);
        const std::vector<std::int64_t> first = first_tokens(all[i].places, places[i]);
        std::int64_t found = 0;
        for (std::size_t word = 0; word < first.size(); ++word) {
          if (first[word] < 0) continue;
          tags[static_cast<std::size_t>(first[word])] = ids.at(texts[begin + i].tags[word]);
          ++found;
        }
        out.words += found, out.lost += std::ssize(first) - found;
        if (found > 0) out.tokens.add(all[i].ids), out.tags.add(tags);  // a text without any has nothing to say
      }
    }
    if (out.words == 0) fail(path, "none of the words has a token in the vocabulary");
    return out;
  }

  // known_by: who has the tags.
  void check_tags(const std::vector<std::string>& names, const std::string& known_by) const {
    const std::set<std::string_view> known(names.begin(), names.end());
    for (const TaggedText& text : texts)
      for (std::size_t i = 0; i < text.tags.size(); ++i)
        if (!known.contains(text.tags[i]))
          fail(path, "line {} has the tag '{}', which {} does not have{}", text.lines[i], text.tags[i], known_by,
               did_you_mean(text.tags[i], names));
  }
};

struct TagFiles {
  TaggedRows training;
  std::optional<TaggedRows> validation, test;

  explicit TagFiles(const TagConfig& config) : training((check(config), config.data), config.columns) {
    if (!config.valid.empty()) validation.emplace(config.valid, config.columns);
    if (!config.test.empty()) test.emplace(config.test, config.columns);
  }
  static void check(const TagConfig& config) {
    if (config.data.empty()) wrong_setting("train tag", "data", "is missing: expected a file with words and their tags");
    for (const std::string& path : {config.valid, config.test})
      if (!path.empty() && path != "-") TaggedReader(path, config.columns);  // what is wrong is known before the large one is read
  }

  std::vector<std::string> tags() const {
    std::set<std::string> names;
    for (const TaggedText& text : training.texts) names.insert(text.tags.begin(), text.tags.end());
    if (names.size() < 2) fail(training.path, "all words have the tag '{}': expected two tags or more", *names.begin());
    return {names.begin(), names.end()};
  }
  void check_tags(const std::vector<std::string>& tags) const {
    if (validation) validation->check_tags(tags, "the training text " + training.path);
    if (test) test->check_tags(tags, "the training text " + training.path);
  }
  LineSource texts() const {
    std::vector<std::string> all;
    for (const TaggedText& text : training.texts) all.push_back(join_words(text.words).text);
    return lines_of(std::move(all));
  }
};

TagTask::TagTask(Context& ctx, const TagConfig& config, const EncoderConfig& model, const EncoderVocabulary& vocabulary,
                 const std::optional<fs::path>& resumed)
    : EncoderTask(ctx, "train tag"), config_(config) {
  check_fresh(resumed);
  const TagFiles files(config);
  tags_ = files.tags();
  files.check_tags(tags_);
  make_tokenizer(model, vocabulary, files.texts(), resumed);
  build(model, tag_head, config.max_length, names_json(tags_));
  read(files);
}

TagTask::TagTask(Context& ctx, const TagConfig& config, const EncoderStart& start) : EncoderTask(ctx, "train tag"), config_(config) {
  const TagFiles files(config);
  tags_ = files.tags();
  open(start, tag_head, config.max_length, [&](const json& theirs) {
    const std::vector<std::string> known = head_names(theirs, tag_head);
    if (std::all_of(tags_.begin(), tags_.end(), [&](const std::string& t) { return std::ranges::find(known, t) != known.end(); })) {
      tags_ = known;
      return json();
    }
    json changes = names_json(tags_);
    if (theirs.contains("num_labels")) changes["num_labels"] = tags_.size();
    if (theirs.contains("problem_type")) changes["problem_type"] = nullptr;  // it was of whole texts
    return changes;
  });
  files.check_tags(tags_);
  read(files);
}

void TagTask::read(const TagFiles& files) {
  const auto tokens = [&](const TaggedRows& rows) {
    TaggedTokens out = rows.tokens(context(), shared_tokenizer(), longest(), tags_, report_);
    lost_ += out.lost;
    return out;
  };
  training_ = tokens(files.training);
  if (files.validation) validation_ = tokens(*files.validation);
  if (files.test) test_ = tokens(*files.test);
  if (config_.max_tokens == 0) config_.max_tokens = max_tokens_for(training_.tokens, TagConfig::usual_max_tokens);
  static_cast<void>(plan_epoch(training_.tokens, config_.max_tokens, 0, 0));  // says when a text is too long for a batch
}

json TagTask::identity() const {
  json out = encoder_identity();
  out["data"].update({{"training_texts", training_.tokens.count()},
                      {"training_fingerprint", hex(training_.fingerprint())},
                      {"max_tokens", config_.max_tokens}});
  if (validation_) out["data"]["validation_fingerprint"] = hex(validation_->fingerprint());
  return out;
}

json TagTask::evaluation() const { return test_ ? json{{"test_fingerprint", hex(test_->fingerprint())}} : json::object(); }

std::int64_t TagTask::plan(std::int64_t epoch) {
  plan_ = plan_epoch(training_.tokens, config_.max_tokens, seed(), epoch);
  return static_cast<std::int64_t>(plan_.size());
}

Batch TagTask::prepare(std::int64_t index, const Share& share) const {
  const auto tokens_of = [&](std::int64_t i) { return std::ssize(training_.tokens.at(i)); };
  const std::vector<std::int64_t> indices = part_of(plan_[static_cast<std::size_t>(index)], share, tokens_of);
  if (indices.empty()) return {};
  std::int64_t tokens = 0;
  for (const std::int64_t i : indices) tokens += std::ssize(training_.tokens.at(i));
  return {.content = batch_of(training_, indices), .targets = words_of(training_, indices), .tokens = tokens};
}

Tensor TagTask::loss(Context& ctx, const Batch& batch) const {
  const auto& [texts, tags] = *std::any_cast<LabelledBatch>(&batch.content);
  return loss_of(ctx, network().label_logits(ctx, texts), tags);
}

Metrics TagTask::validate(Context& ctx) {
  if (!validation_) return {};
  return judge(ctx, network(), *validation_, tags_).metrics();
}

std::vector<std::string> TagTask::metrics() const {
  std::vector<std::string> names;
  if (!validation_) return names;
  for (const auto& [name, value] : unmeasured(tags_).metrics()) names.push_back(name);
  return names;
}

std::optional<Evaluation> TagTask::test(Context& ctx) const {
  if (!test_ && !validation_) return std::nullopt;
  return judge(ctx, network(), test_ ? *test_ : *validation_, tags_);
}

Evaluation evaluate_tagger(Context& ctx, const fs::path& folder, const std::string& file, const TaggedColumns& columns,
                           std::int64_t max_length, const fs::path& adapter) {
  const TaggedRows rows(file, columns);
  const std::unique_ptr<Model> model = load_model(ctx, folder, {.dtype = ctx.precision(), .adapter = adapter});
  const auto* text = dynamic_cast<const TextModel*>(model.get());
  const std::vector<std::string> tags = head_names(model->config(), tag_head);
  if (text == nullptr || text->text().task != TextTask::token_labels || tags.empty())
    fail(folder.string(), "gives words no tags: expected a …ForTokenClassification whose config.json names the tags (id2label)");
  rows.check_tags(tags, "the model " + folder.string());
  TextReport report;
  const std::int64_t most = longest_text(*model), longest = max_length > 0 && (most == 0 || max_length < most) ? max_length : most;
  const TaggedTokens data = rows.tokens(ctx, tokenizer_of(folder), longest, tags, report);
  Evaluation out = judge(ctx, *text, data, tags);
  out.report = report;
  return out;
}

}  // namespace transformer
