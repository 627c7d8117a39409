#include "translate_step.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "measure.h"
#include "peers.h"
#include "toys/corpus.h"
#include "transformer/models/presets.h"

namespace transformer::bench {
namespace {

using nlohmann::json;

PairSource pairs_of(const TranslateOptions& options) {
  if (!options.source.empty()) return read_pairs(options.source, options.target);
  auto pairs = std::make_shared<const std::vector<ToyPair>>(ToyCorpus().training());
  return [pairs, i = std::size_t{0}](std::string& source, std::string& target) mutable {
    if (i == pairs->size()) return false;
    source = (*pairs)[i].source, target = (*pairs)[i].target;
    return ++i, true;
  };
}

TransformerConfig model_of(const TranslateOptions& options, std::int64_t vocabulary) {
  TransformerConfig config{
      .src_vocab_size = vocabulary, .attention_dropout = options.attention_dropout, .ffn_dropout = options.ffn_dropout};
  apply_preset("tiny", config);
  return config;
}

json cut(const std::vector<std::int32_t>& ids, const std::vector<std::int64_t>& lengths) {
  json sentences = json::array();
  auto at = ids.begin();
  for (const std::int64_t n : lengths) sentences.push_back(std::vector<std::int32_t>(at, at + n)), at += n;
  return sentences;
}

// Adds the seconds of `rounds` passes to times, one list per batch. The first pass only warms up.
void measure(const TranslateOptions& options, const TranslateData& data, DType precision, std::vector<std::vector<double>>& times) {
  TranslateStep step(options, data, precision);
  double first = 0.0, last = 0.0;
  for (int round = 0; round <= options.rounds; ++round) {
    last = 0.0;
    for (std::size_t i = 0; i < data.batches.size(); ++i) {
      const double begin = seconds();
      last += step.run(i);
      if (round > 0) times[i].push_back(seconds() - begin);
    }
    if (round == 0) first = last;
  }
  if (!(last < first)) fail("bench", "the loss of {} batches went from {} to {}: this is not training", data.batches.size(), first, last);
}

}  // namespace

TranslateData make_data(const TranslateOptions& options) {
  const TokenizerPtr tokenizer = train_sentencepiece(lines_of(pairs_of(options), PairSide::both), {.vocab_size = options.vocab_size});
  PairReport report;
  const PairDataset pairs = PairDataset::load(pairs_of(options), *tokenizer, *tokenizer, {.max_length = 256}, report, options.threads);
  TranslateData data{.vocabulary = tokenizer->size()};
  for (const auto& indices : plan_epoch(pairs, options.max_tokens, 1, 0)) {
    if (data.batches.size() == static_cast<std::size_t>(options.batches)) break;
    data.batches.push_back(make_batch(pairs, indices));
    data.tokens += static_cast<std::int64_t>(data.batches.back().source.size() + data.batches.back().target.size());
  }
  return data;
}

void write_batches(const TranslateData& data, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  for (const PairIds& b : data.batches)
    out << json{{"source", cut(b.source, b.source_lengths)},
                {"target", cut(b.target, b.target_lengths)},
                {"labels", cut(b.labels, b.target_lengths)}}
        << '\n';
  if (!out.flush()) fail(path, "cannot be written");
}

std::string peer_arguments(const TranslateOptions& options, const TranslateData& data, const std::string& path) {
  return fmt::format("--batches '{}' --vocabulary {} --attention-dropout {} --ffn-dropout {}", path, data.vocabulary,
                     options.attention_dropout, options.ffn_dropout);
}

TranslateStep::TranslateStep(const TranslateOptions& options, const TranslateData& data, DType precision)
    : ctx_({.threads = options.threads, .seed = 1, .precision = precision}), model_(model_of(options, data.vocabulary)) {
  initialize(ctx_, model_);
  const auto ids = [&](const std::vector<std::int32_t>& v) {
    return Tensor::from<std::int32_t>(ctx_, {static_cast<std::int64_t>(v.size())}, v);
  };
  for (const PairIds& b : data.batches)
    batches_.push_back({.source_ids = ids(b.source),
                        .source = Sequences(b.source_lengths),
                        .target_ids = ids(b.target),
                        .target = Sequences(b.target_lengths),
                        .labels = ids(b.labels)});
  optimizer_ = std::make_unique<Adam>(ctx_, parameters(model_), AdamOptions{});
  ctx_.set_training(true);
}

float TranslateStep::run(std::size_t batch) {
  ctx_.random().begin_step(++step_);
  const Tensor loss = model_.loss(ctx_, batches_[batch]);
  const float value = loss.item();
  backward(ctx_, loss);
  optimizer_->step(ctx_, 1e-3F, 1.0F);
  optimizer_->zero_gradients();
  return value;
}

void translate_bench(const TranslateOptions& options) {
  if (options.batches < 1 || options.rounds < 1)
    fail("bench", "{} batches, {} rounds: expected at least one", options.batches, options.rounds);
  const TranslateData data = make_data(options);
  const double tokens = static_cast<double>(data.tokens);
  std::printf(
      "Training of the tiny Transformer (128/4/256, 4+4, vocabulary %lld) on %zu batches of up to %lld tokens a side, %d threads\n\n",
      static_cast<long long>(data.vocabulary), data.batches.size(), static_cast<long long>(options.max_tokens), options.threads);
  std::printf("%-34s %-9s %9s %10s\n", "", "precision", "ms/batch", "tokens/s");

  const TemporaryFolder folder;
  const std::string path = options.keep_batches.empty() ? (folder.path() / "batches.jsonl").string() : options.keep_batches;
  if (peers_enabled() || !options.keep_batches.empty()) write_batches(data, path);
  json report{{"threads", options.threads}, {"batches", data.batches.size()}, {"tokens", data.tokens}, {"build", TRANSFORMER_BUILD_TYPE}};
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const std::string name(name_of(dtype));
    std::vector<std::vector<double>> times(data.batches.size());
    measure(options, data, dtype, times);
    std::vector<json> peers;
    if (peers_enabled()) {  // between two measurements of ours, so that all see the same machine
      peers = run_peer("torch_translate.py",
                       fmt::format("{} --threads {} --modes {} --dtypes {} --rounds {}", peer_arguments(options, data, path),
                                   options.threads, options.peer_modes, name, options.rounds));
      measure(options, data, dtype, times);
    }
    std::vector<double> typical;
    for (const auto& t : times) typical.push_back(median(t));
    const double ms = 1e3 * mean(typical), rate = tokens / (mean(typical) * static_cast<double>(typical.size()));
    std::printf("%-34s %-9s %9.1f %10.0f\n", "ours", name.c_str(), ms, rate);
    for (json& peer : peers) {
      peer["speedup"] = rate / peer.at("tokens_per_s").get<double>();
      std::printf("%-34s %-9s %9.1f %10.0f   we are %.2fx as fast\n", peer_name(peer).c_str(), name.c_str(),
                  peer.at("ms_per_batch").get<double>(), peer.at("tokens_per_s").get<double>(), peer.at("speedup").get<double>());
    }
    report[name] = {{"ms_per_batch", ms}, {"tokens_per_s", rate}, {"peers", peers}};
  }
  print_peers_hint();
  print_report(report, options.json);
}

}  // namespace transformer::bench
