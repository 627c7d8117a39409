// The endpoints that give an answer at once.
#include <algorithm>
#include <span>
#include <sstream>

#include "io/shared/base64.h"
#include "models/shared/purpose.h"
#include "serve/api.h"
#include "serve/generation.h"
#include "transformer/core/error.h"
#include "transformer/models/patchtst.h"

namespace transformer::serve {
namespace {

using nlohmann::json;

std::vector<std::string> texts_of(const AnyOf& field, const std::string& name, std::size_t most) {
  std::vector<std::string> texts = strings_of(field, name);
  if (texts.empty()) detail::wrong(name, "a text or a list of texts");
  if (texts.size() > most) detail::wrong(name, fmt::format("{} texts or fewer", most));
  return texts;
}

// Parts of many texts, each with about as much as a model computes at once: others' work comes between them, and what nobody waits for any
// more ends there.
std::vector<std::span<const std::string>> parts_of(const std::vector<std::string>& texts) {
  constexpr std::size_t most = 16384;  // bytes
  std::vector<std::span<const std::string>> parts;
  std::size_t begin = 0, bytes = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    bytes += texts[i].size() + 1;
    if (bytes < most && i + 1 < texts.size()) continue;
    parts.push_back(std::span(texts).subspan(begin, i + 1 - begin));
    begin = i + 1, bytes = 0;
  }
  return parts;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text + '\n');
  for (std::string line; std::getline(in, line);) lines.push_back(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
  return lines;
}

json labels_json(const std::vector<Label>& labels) {
  json out = json::array();
  for (const Label& l : labels) out.push_back({{"label", l.name}, {"score", l.score}});
  return out;
}

json entities_json(const std::vector<FoundEntity>& entities) {
  json out = json::array();
  for (const FoundEntity& e : entities)
    out.push_back({{"type", e.type}, {"text", e.text}, {"begin", e.place.begin}, {"end", e.place.end}, {"score", e.score}});
  return out;
}

SeriesTable table_of(const nlohmann::ordered_json& series) {
  SeriesTable table{.name = "series"};
  std::size_t rows = 0;
  for (const auto& [channel, values] : series.items()) {
    if (!values.is_array() || values.empty()) detail::wrong("series", "lists of numbers by the names of the channels");
    if (!table.channels.empty() && values.size() != rows) detail::wrong("series", "lists of equal length");
    rows = values.size();
    table.channels.push_back(channel);
  }
  if (table.channels.empty()) detail::wrong("series", "one channel or more");
  for (std::size_t row = 0; row < rows; ++row)
    for (const std::string& channel : table.channels) {
      const auto& value = series[channel][row];
      if (!value.is_number()) detail::wrong("series", "lists of numbers by the names of the channels");
      table.values.push_back(value.get<double>());
    }
  return table;
}

// The channels of a table in the order of names, where they are the same.
SeriesTable in_order(const SeriesTable& table, const std::vector<std::string>& names) {
  SeriesTable out = table;
  out.channels = names;
  out.values.clear();
  for (std::int64_t row = 0; row < table.rows(); ++row)
    for (const std::string& name : names) {
      const auto found = std::find(table.channels.begin(), table.channels.end(), name);
      if (found == table.channels.end()) throw ApiError(400, fmt::format("'series' has no channel '{}'", name), "series", "missing_field");
      out.values.push_back(table.at(row, found - table.channels.begin()));
    }
  return out;
}

// What a translator says of the command's flags, said of the request's fields.
std::string in_fields(std::string message) {
  for (const auto& [flag, field] :
       {std::pair<std::string_view, std::string_view>{"--source-lang", "'source'"}, {"--target-lang", "'target'"}})
    for (std::size_t at; (at = message.find(flag)) != std::string::npos;) message.replace(at, flag.size(), field);
  return message;
}

}  // namespace

json Api::model_json(const HostedModel& m) {
  json about{{"id", m.name()}, {"object", "model"}, {"created", m.created()}, {"owned_by", "local"}, {"purpose", name_of(m.purpose())}};
  if (const auto* series = dynamic_cast<const PatchTSTModel*>(m.model().get()))
    about.update({{"context", series->series().context}, {"channels", series->series().channels}});
  return about;
}

json Api::models_list() const {
  json data = json::array();
  for (const auto& m : models_) data.push_back(model_json(*m));
  return {{"object", "list"}, {"data", data}};
}

json Api::health() const {
  json names = json::array();
  for (const auto& m : models_) names.push_back(m->name());
  return {{"status", "ok"}, {"models", names}};
}

json Api::embeddings(const EmbeddingRequest& request) {
  HostedModel& model = model_for(request.model, "give vectors of texts", [](const HostedModel& m) { return m.embedder() != nullptr; });
  const std::string format = request.encoding_format.value_or("float");
  if (format != "float" && format != "base64") detail::wrong("encoding_format", "float or base64");
  const std::vector<std::string> texts = texts_of(request.input, "input", 2048);
  EmbedOptions options = model.embedder()->defaults();
  options.long_texts = LongTexts::refuse;
  std::vector<float> values;
  const Wanted still = wanted();
  for (const auto part : parts_of(texts))
    compute(model, still, [&](Context& ctx) {
      const std::vector<float> some = model.embedder()->embed(ctx, part, options).to_vector<float>();
      values.insert(values.end(), some.begin(), some.end());
    });
  const auto size = static_cast<std::size_t>(model.embedder()->size());
  json data = json::array();
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::span<const float> vector(values.data() + i * size, size);
    json embedding;
    if (format == "base64") embedding = to_base64({reinterpret_cast<const char*>(vector.data()), vector.size_bytes()});
    else embedding = vector;
    data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", std::move(embedding)}});
    tokens += std::ssize(model.tokenizers().source->tokenize(texts[i]).ids);
  }
  counters_.tokens(model.name(), tokens, 0);
  return {{"object", "list"}, {"data", data}, {"model", model.name()}, {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

json Api::translate(const TranslateRequest& request) {
  HostedModel& model = model_for(request.model, "translate", [](const HostedModel& m) { return m.translates(); });
  if (request.format && *request.format != "text") detail::wrong("format", "text: HTML is not translated, send the text without its tags");
  constexpr std::size_t most = 1024;
  std::vector<std::string> lines;  // each is translated for itself, and stays a line
  std::vector<std::size_t> ends;   // of each text's lines
  for (const std::string& text : texts_of(request.q, "q", most)) {
    for (std::string& line : lines_of(text)) lines.push_back(std::move(line));
    ends.push_back(lines.size());
  }
  if (lines.size() > most) detail::wrong("q", fmt::format("{} lines or fewer", most));
  // A model for two languages has no names for them; whoever sends the ones in its own name is right.
  const Languages named = model.named_languages();
  const auto own = [](const std::optional<std::string>& given, const std::string& name) {
    return !given || given->empty() || *given == "auto" || *given == name;
  };
  Languages languages;
  if (!own(request.source, named.source_lang)) languages.source_lang = *request.source;
  if (!own(request.target, named.target_lang)) languages.target_lang = *request.target;
  std::shared_ptr<const HostedModel::Translation> by;
  try {
    by = model.translation(languages);
  } catch (const Error& e) {
    const std::string why = in_fields(e.what());
    throw ApiError(400, why, why.find("'source'") != std::string::npos ? "source" : "target", "unknown_language");
  }
  GenerationConfig config{.num_beams = std::max<std::int64_t>(request.beam.value_or(5), 1 + request.alternatives.value_or(0))};
  config.num_return_sequences = 1 + request.alternatives.value_or(0);
  const SearchCall call(by->view, config, {});

  struct Exchange {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::vector<Hypothesis>> found;
    std::size_t left = 0;
    std::exception_ptr failed;
  };
  const auto exchange = std::make_shared<Exchange>();
  exchange->found.resize(lines.size());
  std::vector<std::unique_ptr<Engine::Job>> jobs;
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    auto job = std::make_unique<Engine::Job>();
    try {
      job->ids = by->translator.encode(lines[i], nullptr, LongTexts::refuse);
    } catch (const TooLongError& e) {
      const std::string where = lines.size() > 1 ? fmt::format("line {} of {}: ", i + 1, lines.size()) : "";
      throw ApiError(400, where + e.what(), "q", "context_length_exceeded");
    }
    if (job->ids.empty()) continue;  // its translation is empty
    tokens += std::ssize(job->ids);
    job->rows = config.num_beams;
    job->source = call.source(job->ids, [exchange, i, by](std::vector<Hypothesis> best) {
      const std::lock_guard lock(exchange->mutex);
      exchange->found[i] = std::move(best);
      --exchange->left;
      exchange->changed.notify_one();
    });
    job->source.failed = [exchange](std::exception_ptr why) {
      const std::lock_guard lock(exchange->mutex);
      exchange->failed = why;
      exchange->changed.notify_one();
    };
    jobs.push_back(std::move(job));
  }
  exchange->left = jobs.size();
  std::vector<std::uint64_t> numbers;
  std::unique_lock lock(exchange->mutex, std::defer_lock);
  try {
    for (auto& job : jobs) numbers.push_back(model.engine().submit(std::move(job)));
    lock.lock();
    wait_for(lock, exchange->changed, wanted(), [&] { return exchange->left == 0 || exchange->failed != nullptr; });
    if (exchange->failed != nullptr) std::rethrow_exception(exchange->failed);
  } catch (...) {
    for (const std::uint64_t number : numbers) model.engine().cancel(number);
    counters_.cancelled(model.name());
    throw;
  }
  json best = json::array(), others = json::array();
  std::int64_t written = 0;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    const std::span found = std::span(exchange->found).subspan(begin, end - begin);
    begin = end;
    json each = json::array();  // the best of all lines, the next of all lines …
    for (std::size_t i = 0, count = 1; i < count; ++i) {
      std::string said;
      for (const std::vector<Hypothesis>& line : found) {
        if (!line.empty()) said += by->translator.tokenizers().target->decode(line[std::min(i, line.size() - 1)].ids);
        if (&line != &found.back()) said += '\n';
        count = std::max(count, line.size());
        if (i == 0 && !line.empty()) written += std::ssize(line.front().ids) + 1;
      }
      each.push_back(std::move(said));
    }
    best.push_back(each.front());
    each.erase(0);
    others.push_back(std::move(each));
  }
  counters_.tokens(model.name(), tokens, written);
  const bool one = request.q.value.is_string();
  json answer{{"translatedText", one ? best[0] : best}};
  if (request.alternatives.value_or(0) > 0) answer["alternatives"] = one ? others[0] : others;
  return answer;
}

json Api::languages() const {
  json all = json::array();
  for (const auto& m : models_) {
    if (!m->translates()) continue;
    const Languages named = m->named_languages();
    const std::string source = named.source_lang.empty() ? "auto" : named.source_lang;
    const std::string target = named.target_lang.empty() ? "auto" : named.target_lang;
    all.push_back({{"code", source}, {"name", source == "auto" ? "what " + m->name() + " reads" : source}, {"targets", {target}}});
  }
  return all;
}

json Api::classify(const ClassifyRequest& request) {
  if (!request.image && !request.text.given()) throw ApiError(400, "'text' or 'image' is missing", "text", "missing_field");
  static constexpr auto of_pictures = [](const HostedModel& m) {
    return m.classifier() != nullptr && m.classifier()->kind() == Classifier::Kind::images;
  };
  HostedModel& model = request.image
      ? model_for(request.model, "classify pictures", of_pictures)
      : model_for(request.model, "classify texts", [](const HostedModel& m) { return m.classifier() != nullptr && !of_pictures(m); });
  const Classifier& classifier = *model.classifier();
  ClassifyOptions options{.top_k = request.top_k, .long_texts = LongTexts::refuse};
  json results = json::array();
  const Wanted still = wanted();
  if (request.image) {
    std::vector<Image> images;
    try {
      images.push_back(decode_image(from_base64(*request.image), "image", std::int64_t{1} << 25));
    } catch (const Error& e) {
      throw ApiError(400, e.what(), "image", "invalid_value");
    }
    compute(model, still, [&](Context& ctx) {
      for (const auto& one : classifier.images(ctx, images, options)) results.push_back({{"labels", labels_json(one)}});
    });
  } else {
    const std::vector<std::string> texts = texts_of(request.text, "text", 1024);
    const auto label = [&](Context& ctx, std::span<const std::string> part) {
      for (const auto& one : classifier.texts(ctx, part, options)) results.push_back({{"labels", labels_json(one)}});
    };
    const auto find = [&](Context& ctx, std::span<const std::string> part) {
      for (const auto& one : classifier.entities(ctx, part, options)) results.push_back({{"entities", entities_json(one)}});
    };
    for (const auto part : parts_of(texts))
      compute(model, still, [&](Context& ctx) { classifier.kind() == Classifier::Kind::texts ? label(ctx, part) : find(ctx, part); });
  }
  return {{"model", model.name()}, {"results", results}};
}

json Api::forecast(const ForecastRequest& request) {
  HostedModel& model = model_for(request.model, "forecast", [](const HostedModel& m) { return m.forecaster() != nullptr; });
  const Forecaster& forecaster = *model.forecaster();
  SeriesTable table;
  try {
    if (request.series.value.is_string()) {
      std::vector<std::string> lines;
      std::istringstream in(request.series.value.get<std::string>());
      for (std::string line; std::getline(in, line);) lines.push_back(line);
      std::size_t at = 0;
      TableOptions options;
      if (forecaster.notes() != nullptr)
        options.channels = forecaster.notes()->channels, options.usual_date_column = forecaster.notes()->date_column;
      table = read_table([&](std::string& line) { return at < lines.size() && (line = lines[at++], true); }, "series", options);
    } else if (request.series.value.is_object()) {
      table = table_of(request.series.value);
      if (forecaster.notes() != nullptr) table = in_order(table, forecaster.notes()->channels);
    } else {
      detail::wrong("series", "lists of numbers by the names of the channels, or CSV");
    }
  } catch (const Error& e) {
    throw ApiError(400, e.what(), "series", "invalid_value");
  }
  SeriesForecast found;
  compute(model, wanted(), [&](Context& ctx) { found = forecaster.forecast(ctx, table, request.steps.value_or(0)); });
  const SeriesTable rows = found.table();
  json columns = json::object(), dates = json::array();
  for (std::size_t c = 0; c < rows.channels.size(); ++c) {
    json values = json::array();
    for (std::int64_t row = 0; row < rows.rows(); ++row) values.push_back(rows.at(row, static_cast<std::int64_t>(c)));
    columns[rows.channels[c]] = std::move(values);
  }
  for (std::int64_t row = 0; row < rows.rows() && !rows.dates.empty(); ++row) dates.push_back(rows.date(row));
  json answer{{"model", model.name()}, {"forecast", columns}};
  if (!dates.empty()) answer["dates"] = dates;
  return answer;
}

// A request of the look inside (docs/explain.md), and which model.
json Api::explain(const std::string& body) {
  json request = json_of_body(body);
  if (!request.is_object()) detail::wrong("body", "an object");
  std::optional<std::string> name;
  if (const auto found = request.find("model"); found != request.end()) {
    if (!found->is_string()) detail::wrong("model", "a string");
    name = found->get<std::string>();
    request.erase(found);
  }
  HostedModel& model = model_for(name, "be looked into", [](const HostedModel&) { return true; });
  json answer;
  compute(model, wanted(), [&](Context& ctx) {
    ctx.set_row_invariant(false);  // the numbers of 'transformer run'
    try {
      answer = model.explainer().answer(ctx, request);
    } catch (...) {
      ctx.set_row_invariant(true);
      throw;
    }
    ctx.set_row_invariant(true);
  });
  return answer;
}

json Api::tokenize(const TokenizeRequest& request) const {
  const HostedModel& model = model_for(request.model, "read text", [](const HostedModel& m) { return m.tokenizers().source != nullptr; });
  const Encoding found = model.tokenizers().source->tokenize(request.text, request.special_tokens.value_or(true));
  json places = json::array();
  for (const TokenPlace& place : found.places) places.push_back({place.begin, place.end});
  return {{"model", model.name()}, {"tokens", found.ids}, {"pieces", found.tokens}, {"places", places}, {"count", found.size()}};
}

json Api::detokenize(const DetokenizeRequest& request) const {
  const HostedModel& model = model_for(request.model, "read text", [](const HostedModel& m) { return m.tokenizers().target != nullptr; });
  std::vector<std::int32_t> ids;
  for (const std::int64_t id : request.tokens) {
    if (id < 0 || id >= model.tokenizers().target->size()) detail::wrong("tokens", "numbers of tokens that the model has");
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return {{"model", model.name()}, {"text", model.tokenizers().target->decode(ids)}};
}

WatchedTraining& Api::watched() const {
  if (training_ == nullptr) throw ApiError(404, "no training is watched: start the server with --training FOLDER", {}, "not_found");
  return *training_;
}

json Api::training_metrics(const httplib::Request& request) const {
  const auto number = [&](const std::string& name, std::int64_t least, const std::string& expected) -> std::optional<std::int64_t> {
    if (!request.has_param(name)) return {};
    const std::string text = request.get_param_value(name);
    const bool digits = !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || std::stoll(text) < least) detail::wrong(name, expected);
    return std::stoll(text);
  };
  const auto from = number("from", 0, "what 'next' of an earlier answer was");
  return watched().metrics(from.value_or(0), number("points", 1, "a number of points"));
}

}  // namespace transformer::serve
