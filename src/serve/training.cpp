#include "serve/training.h"

#include <fmt/ranges.h>

#include <fstream>
#include <functional>

#include "generate/shared/loop.h"
#include "io/shared/json.h"
#include "models/shared/purpose.h"
#include "transformer/core/error.h"
#include "transformer/train/trainer.h"

namespace transformer::serve {

using nlohmann::json;

namespace {

std::string in_words(const std::vector<Label>& labels) {
  std::vector<std::string> words;
  for (const Label& l : labels) words.push_back(fmt::format("{} {:.3f}", l.name, l.score));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string in_words(const std::vector<FoundEntity>& entities) {
  std::vector<std::string> words;
  for (const FoundEntity& e : entities) words.push_back(fmt::format("{} ({})", e.text, e.type));
  return fmt::format("{}", fmt::join(words, ", "));
}

// No line ends before this byte: a new training has written a new file, or it went on from a checkpoint.
bool is_of_another(std::ifstream& in, std::int64_t from) {
  if (from == 0) return false;
  char before = '\0';
  in.clear(), in.seekg(from - 1);
  return !in.get(before) || before != '\n';
}

// Gives the lines from a byte on, up to 1 MiB of them, and the byte behind. A half-written last line comes with a later call.
std::int64_t read_lines(std::ifstream& in, std::int64_t from, const std::function<void(json)>& take) {
  std::string text(std::size_t{1} << 20, '\0');
  in.clear(), in.seekg(from);
  in.read(text.data(), std::ssize(text));
  text.resize(static_cast<std::size_t>(in.gcount()));
  std::int64_t next = from;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const auto at = [&](std::size_t place) { return text.begin() + static_cast<std::ptrdiff_t>(place); };
    json row = json::parse(at(begin), at(end), nullptr, false);
    if (row.is_object()) take(std::move(row));
    next = from + static_cast<std::int64_t>(end) + 1;
  }
  return next;
}

}  // namespace

WatchedTraining::WatchedTraining(std::filesystem::path folder, const ContextOptions& context)
    : folder_(std::move(folder)), context_options_(context) {}

std::optional<WatchedTraining::Newest> WatchedTraining::newest() const {
  const auto found = latest_checkpoint(folder_);
  if (!found) return std::nullopt;
  const std::string name = found->filename().string();  // step-00000400
  return Newest{*found, std::stoll(name.substr(name.find_last_not_of("0123456789") + 1))};
}

json WatchedTraining::metrics(std::int64_t from, std::optional<std::int64_t> points) {
  std::ifstream in(folder_ / "metrics.jsonl", std::ios::binary);
  const bool again = is_of_another(in, from);
  if (again) from = 0;
  json records = json::array();
  std::int64_t rows = 0, next = from;
  if (!points) {
    next = read_lines(in, from, [&](json row) { records.push_back(std::move(row)); });
    rows = std::ssize(records);
  } else {
    ThinnedRows since(*points);
    std::unique_lock lock(curves_mutex_, std::defer_lock);
    const bool all = from == 0;  // who comes later need not wait for what has been read for others
    if (all) {
      lock.lock();
      if (!curves_ || curves_->points() != *points || is_of_another(in, thinned_)) curves_.emplace(*points), thinned_ = 0;
      next = thinned_;
    }
    ThinnedRows& thinned = all ? *curves_ : since;
    for (std::int64_t begin = -1; begin != next;) begin = next, next = read_lines(in, begin, [&](const json& row) { thinned.add(row); });
    if (all) thinned_ = next;
    rows = thinned.rows(), records = thinned.records();
  }
  const auto checkpoint = newest();
  return {{"folder", folder_.filename().string()},
          {"records", std::move(records)},
          {"rows", rows},
          {"next", next},
          {"restarted", again},
          {"checkpoint", checkpoint ? json(checkpoint->step) : json(nullptr)}};
}

void WatchedTraining::open(const Newest& checkpoint) {
  if (checkpoint.folder == opened_.folder) return;
  opened_ = {};
  generator_.reset(), translator_.reset(), classifier_.reset();
  if (!ctx_) ctx_.emplace(context_options_);
  const std::shared_ptr<const Model> model = load_model(*ctx_, checkpoint.folder, {.dtype = ctx_->precision()});
  switch (model->purpose()) {
    case Purpose::next_words: generator_ = Generator::open(model, checkpoint.folder); break;
    case Purpose::another_text: translator_ = Translator::open(model, checkpoint.folder); break;
    case Purpose::text_labels:
    case Purpose::token_labels: classifier_ = Classifier::open(model, checkpoint.folder); break;
    default: throw ApiError(400, fmt::format("the model in training reads no text; {}", describe(model->purpose())), {}, "wrong_model");
  }
  opened_ = checkpoint;
}

json WatchedTraining::sample(const SampleRequest& request, const Wanted& wanted) {
  const std::lock_guard lock(mutex_);
  wanted.check();
  const auto found = newest();
  if (!found) throw ApiError(404, "the training has written no checkpoint yet", {}, "not_found");
  try {
    open(*found);
  } catch (const Error&) {  // the training may have removed it for a newer one
    const auto later = newest();
    if (!later || later->folder == found->folder) throw;
    open(*later);
  }
  const Inference inference(*ctx_);
  std::string said;
  const std::int64_t most = request.max_tokens.value_or(48);
  if (generator_) {
    said = generator_->generate(*ctx_, request.text, {.max_new_tokens = most, .temperature = 0.0});
  } else if (translator_) {
    said = translator_->translate(*ctx_, request.text, {.max_new_tokens = most, .num_beams = 5});
  } else {
    const std::vector<std::string> texts{request.text};
    said = classifier_->kind() == Classifier::Kind::texts ? in_words(classifier_->texts(*ctx_, texts, {.top_k = 3}).front())
                                                          : in_words(classifier_->entities(*ctx_, texts).front());
  }
  return {{"step", opened_.step}, {"text", request.text}, {"said", said}};
}

}  // namespace transformer::serve
