// transformer embed: vectors of texts, a line each, or all in one file.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "cli/compute.h"
#include "cli/files.h"
#include "cli/flags.h"
#include "cli/input_lines.h"
#include "cli/verbs.h"
#include "transformer/io/npy.h"
#include "transformer/io/safetensors.h"
#include "transformer/predict/embedder.h"

namespace transformer::cli {
namespace {

struct EmbedConfig {
  std::string model = {}, adapter = {};
  std::vector<std::string> text = {};
  std::string input = {}, out = {};
  std::optional<Pooling> pooling = {};
  bool normalize = false, tsv = false;
  std::int64_t chunk_lines = 4096;

  static void visit(auto& self, auto&& field) {
    field("adapter", self.adapter, adapter_help);
    field("text", self.text, "texts, instead of the lines of standard input");
    field("input", self.input, "the lines of this file, plain or gzip");
    field("out", self.out, "a file for all of them: .safetensors (as 'embeddings') or .npy");
    field("pooling", self.pooling, "how the tokens' vectors become one (none: as the folder says, or the mean)");
    field("normalize", self.normalize, "vectors of length 1, also where the folder does not say so");
    field("tsv", self.tsv, "numbers with tabs between them instead of a JSON object per line");
    field("chunk_lines", self.chunk_lines, "lines read before the first of them is written, if they are there");
  }
};

void print(std::span<const float> vector, const std::string& text, bool tsv) {
  using Json = nlohmann::json;
  const std::string numbers = fmt::format("{}", fmt::join(vector, tsv ? "\t" : ", "));
  if (tsv) std::cout << numbers << '\n';
  else
    std::cout << fmt::format("{{\"text\": {}, \"embedding\": [{}]}}\n", Json(text).dump(-1, ' ', false, Json::error_handler_t::replace),
                             numbers);
}

void embed(const EmbedConfig& config, const ComputeConfig& compute) {
  if (config.model.empty()) throw CLI::RequiredError("MODEL");
  const bool npy = config.out.ends_with(".npy");
  if (!config.out.empty() && !npy && !config.out.ends_with(".safetensors"))
    throw CLI::ValidationError("--out is '" + config.out + "': expected a name that ends with .safetensors or .npy");
  keep_apart({{"MODEL", config.model}, {"--adapter", config.adapter}, {"--input", config.text.empty() ? or_standard(config.input) : ""}},
             {{"--out", or_standard(config.out)}});
  Context ctx(compute.context());
  const Embedder embedder = Embedder::load(ctx, config.model, config.adapter);
  TextReport report;
  EmbedOptions options = embedder.defaults();
  options.pooling = config.pooling.value_or(options.pooling);
  options.normalize |= config.normalize;
  options.report = &report;

  InputLines input(config.text, config.input);
  std::vector<float> all;
  const auto size = static_cast<std::size_t>(embedder.size());
  for (std::vector<std::string> texts; input.chunk(config.chunk_lines, texts);) {
    const std::vector<float> vectors = embedder.embed(ctx, texts, options).to_vector<float>();
    if (!config.out.empty()) all.insert(all.end(), vectors.begin(), vectors.end());
    for (std::size_t i = 0; config.out.empty() && i < texts.size(); ++i)
      print(std::span(vectors).subspan(i * size, size), texts[i], config.tsv);
    std::cout.flush();
  }
  if (!config.out.empty()) {
    const Tensor matrix = Tensor::from<float>(ctx, {static_cast<std::int64_t>(all.size() / size), embedder.size()}, all);
    if (npy) save_npy(config.out, matrix);
    else save_safetensors(config.out, {{"embeddings", matrix}});
  }
  if (const std::string summary = report.summary(); !summary.empty()) fmt::print(stderr, "transformer: {}\n", summary);
}

}  // namespace

void add_embed(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("embed", "vectors of texts");
  auto config = std::make_shared<EmbedConfig>();
  auto compute = std::make_shared<ComputeConfig>();
  verb->add_option("MODEL", config->model, "a model's folder");
  add_settings(*verb, *config, *compute);
  verb->callback([=] { embed(*config, *compute); });
}

}  // namespace transformer::cli
