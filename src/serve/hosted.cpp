#include "serve/hosted.h"

#include <sys/stat.h>

#include <regex>

#include "io/shared/json.h"
#include "tokenizers/shared/token_bytes.h"
#include "transformer/core/error.h"
#include "transformer/models/text.h"

namespace transformer::serve {
namespace {

constexpr std::size_t small_bytes = 16 << 20;  // of weights: what each core has in its cache, or nearly

// When the file was last written, in seconds since 1970.
std::int64_t written(const std::filesystem::path& file) {
  struct stat found {};
  return ::stat(file.c_str(), &found) == 0 ? static_cast<std::int64_t>(found.st_mtime) : 0;
}

}  // namespace

HostedModel::HostedModel(std::string name, std::filesystem::path folder, const ContextOptions& context, const EngineLimits& limits)
    : name_(std::move(name)), folder_(std::move(folder)), created_(written(folder_ / "config.json")) {
  engine_ = std::make_unique<Engine>(context, limits, [this](Context& ctx) { return load(ctx); });
}

Engine::Loaded HostedModel::load(Context& ctx) {
  std::unique_ptr<Model> model = load_model(ctx, folder_, {.dtype = ctx.precision(), .mapped = true});
  std::size_t bytes = 0;
  for (const auto& [name, p] : parameters(*model)) bytes += static_cast<std::size_t>(p->tensor.numel()) * size_of(p->tensor.dtype());
  const bool small = bytes <= small_bytes;
  model_ = std::move(model);
  purpose_ = model_->purpose();
  switch (purpose_) {
    case Purpose::next_words:
      generator_ = Generator::open(model_, folder_, {.slide = false});
      tokenizers_ = generator_->tokenizers();
      break;
    case Purpose::another_text: tokenizers_ = translation()->translator.tokenizers(); break;
    case Purpose::text_labels:
    case Purpose::token_labels: tokenizers_.source = tokenizers_.target = load_tokenizer(folder_); [[fallthrough]];
    case Purpose::image_labels: classifier_ = Classifier::open(model_, folder_); break;
    case Purpose::forecast: forecaster_ = Forecaster::open(model_, folder_); break;
    case Purpose::text_vectors:
    case Purpose::masked_words: tokenizers_.source = tokenizers_.target = load_tokenizer(folder_); break;
    case Purpose::image_vectors:
    case Purpose::series_vectors:
    case Purpose::series_labels: break;  // they can be looked into
  }
  if (tokenizers_.source != nullptr) embedder_ = Embedder::open(model_, folder_);
  if (translates()) return {.model = &translation()->view, .small = small};
  if (!generator_) return {};
  const StackConfig stack = dynamic_cast<const TextModel&>(*model_).text().stack.resolved();
  const auto token_bytes = 2 * stack.layers * stack.kv_heads * stack.head_dim * static_cast<std::int64_t>(size_of(ctx.precision()));
  return {.model = &generator_->model(), .token_bytes = token_bytes, .small = small};
}

const Explainer& HostedModel::explainer() {
  if (!explainer_) explainer_.emplace(model_, folder_);
  return *explainer_;
}

std::shared_ptr<const HostedModel::Translation> HostedModel::translation(const Languages& languages) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Translation>& found = translations_[{languages.source_lang, languages.target_lang}];
  if (found == nullptr) {
    try {
      found = std::make_shared<const Translation>(Translator::open(model_, folder_, languages));
    } catch (...) {
      translations_.erase({languages.source_lang, languages.target_lang});
      throw;
    }
  }
  return found;
}

std::shared_ptr<const std::vector<std::string>> HostedModel::target_bytes() const {
  return target_bytes_.get([this] { return std::make_shared<const std::vector<std::string>>(token_bytes(*tokenizers_.target)); });
}

Languages HostedModel::named_languages() const {
  static const std::regex pair(R"((?:^|.*[-_/])([a-z]{2,3})[-_]([a-z]{2,3})$)");
  std::smatch match;
  if (!std::regex_match(name_, match, pair)) return {};
  return {.source_lang = match[1], .target_lang = match[2]};
}

}  // namespace transformer::serve
