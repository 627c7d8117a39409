// ./run bench [--threads N] [--rounds N] [--precisions "float32 bfloat16"] [--peer-modes "eager compile"] [--json FILE]: the speed and
// memory of a training step of the base model, beside this machine's matmul rate and beside PyTorch, all in one run.
// ./run bench translate [--source FILE --target FILE] [...]: training of the tiny model on real batches, beside PyTorch.
// ./run bench task lm|mlm|classify|image|forecast [...]: training of each task, batches and all, beside PyTorch.
// ./run bench profile WORK [...]: time by kernel of a step.
// ./run bench scaling [--counts "1 16"] [--brief] [...]: training, reading and writing with 1, 2, 4 … threads, beside PyTorch.
// ./run bench launches: kernels, copies and waits of a training step.
// ./run bench overlap: how much of the exchange between processes is hidden behind backward.
// ./run bench cuda [generate] [--profile] [--tune] [--large]: training steps and generation on a GPU, or generation alone; LLaMA 1.1B too.
// ./run bench decode [...]: a language model of GPT-2's size: opening it, reading a prompt, writing.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <sstream>
#include <variant>

#include "base_step.h"
#include "cuda.h"
#include "cuda_generate.h"
#include "decode.h"
#include "launches.h"
#include "measure.h"
#include "overlap.h"
#include "peers.h"
#include "task_step.h"
#include "transformer/core/parallel.h"
#include "translate_step.h"
#include "works.h"

using namespace transformer;
using namespace transformer::bench;
using nlohmann::json;

namespace {

struct Measured {
  std::vector<double> step_seconds, ratios;  // of each round; the rate of matmul is taken beside each
  double flops = 0.0, rate = 0.0, tokens = 0.0;
};

void measure(BaseStep& step, DType dtype, int threads, int rounds, Measured& m) {
  m.flops = step.flops();
  m.tokens = static_cast<double>(step.source_tokens() + step.target_tokens());
  for (int round = 0; round < rounds; ++round) {
    const double rate = matmul_rate(dtype, threads);
    step.run();
    std::vector<double> times;
    for (int i = 0; i < 3; ++i) {
      const double begin = seconds();
      step.run();
      times.push_back(seconds() - begin);
    }
    m.step_seconds.push_back(median(times));
    m.ratios.push_back(m.flops / median(times) / rate);
    m.rate = std::max(m.rate, rate);
  }
}

void base_bench(int threads, int rounds, const std::string& precisions, const std::string& peer_modes, const std::string& json_path) {
  json report{{"threads", threads}, {"build", TRANSFORMER_BUILD_TYPE}};
  std::printf("Training step of the base Transformer (512/8/2048, 6+6, vocabulary 32000, 16 pairs of 32 tokens), %d threads\n\n", threads);
  std::printf("%-10s %10s %12s %14s %14s %12s\n", "precision", "ms/step", "tokens/s", "step GFLOP/s", "matmul GFLOP/s", "of matmul");

  for (DType dtype : {DType::float32, DType::bfloat16}) {
    if (precisions.find(name_of(dtype)) == std::string::npos) continue;
    Measured m;
    json peers = json::array(), entry;
    {
      BaseStep step(dtype, threads);
      measure(step, dtype, threads, rounds, m);
      const BaseStep::Memory memory = step.memory();
      const double needed = memory.weights + memory.gradients + memory.adam + memory.activations;
      entry["memory"] = {{"weights", memory.weights},
                         {"gradients", memory.gradients},
                         {"adam", memory.adam},
                         {"activations", memory.activations},
                         {"needed", needed},
                         {"peak", memory.peak},
                         {"peak_of_needed", memory.peak / needed},
                         {"resident", resident_bytes()}};
    }
    if (peers_enabled()) {  // between two rounds of ours, so that all see the same machine
      for (json& line :
           run_peer("torch_base_step.py", fmt::format("--threads {} --dtypes {} --modes {}", threads, name_of(dtype), peer_modes)))
        peers.push_back(line);
      BaseStep step(dtype, threads);
      measure(step, dtype, threads, rounds, m);
    }
    const double ms = 1e3 * median(m.step_seconds), ratio = median(m.ratios);
    std::printf("%-10s %10.1f %12.0f %14.1f %14.1f %11.1f%%\n", std::string(name_of(dtype)).c_str(), ms, 1e3 * m.tokens / ms,
                m.flops / ms / 1e6, m.rate / 1e9, 100 * ratio);
    for (json& peer : peers) peer["speedup"] = peer.at("ms_per_step").get<double>() / ms;
    entry.update({{"ms_per_step", ms},
                  {"tokens_per_s", 1e3 * m.tokens / ms},
                  {"flops", m.flops},
                  {"matmul_flops_per_s", m.rate},
                  {"of_matmul", ratio},
                  {"peers", peers}});
    report[std::string(name_of(dtype))] = entry;
  }

  for (const char* dtype : {"float32", "bfloat16"}) {
    if (!report.contains(dtype)) continue;
    const json& m = report[dtype]["memory"];
    auto mb = [&](const char* key) { return m.at(key).get<double>() / 1e6; };
    std::printf(
        "\nmemory, %s: weights %.0f + gradients %.0f + Adam %.0f + activations %.0f = %.0f MB; peak %.0f MB = %.2fx; resident %.0f MB\n",
        dtype, mb("weights"), mb("gradients"), mb("adam"), mb("activations"), mb("needed"), mb("peak"),
        m.at("peak_of_needed").get<double>(), mb("resident"));
    for (const json& peer : report[dtype]["peers"])
      std::printf("%s, %s: %.1f ms/step, we are %.2fx as fast\n", peer_name(peer).c_str(), dtype, peer.at("ms_per_step").get<double>(),
                  peer.at("speedup").get<double>());
  }
  print_peers_hint();
  print_report(report, json_path);
}

// --NAME VALUE pairs into the variables given for the names; a bool is set by its name alone.
using Arguments = std::map<std::string, std::variant<bool*, int*, std::int64_t*, float*, double*, std::string*>>;
void parse(int argc, char** argv, int from, const Arguments& known) {
  for (int i = from; i < argc; i += 2) {
    const auto found = known.find(argv[i]);
    if (found != known.end() && std::holds_alternative<bool*>(found->second)) {
      *std::get<bool*>(found->second) = true;
      --i;
      continue;
    }
    if (found == known.end() || i + 1 == argc) {
      std::string names;
      for (const auto& [name, variable] : known) names.append(names.empty() ? "" : ", ").append(name);
      fail(
          "bench",
          "unknown argument '{}', or one without its value: expected 'translate', 'decode', 'launches', 'overlap', 'profile', 'scaling' or "
          "'task' in front, or {}",
          argv[i], names);
    }
    const std::string text = argv[i + 1];
    const auto set = [&]<class T>(T* variable) {
      if constexpr (std::is_same_v<T, std::string>) *variable = text;
      else if (std::istringstream in(text); !(in >> *variable) || !in.eof()) fail("bench", "{}: '{}' is not a number", argv[i], text);
    };
    std::visit(set, found->second);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a line is seen when it is there
  if (argc > 1 && std::strcmp(argv[1], "translate") == 0) {
    TranslateOptions o{.threads = hardware_threads()};
    parse(argc, argv, 2,
          {{"--source", &o.source},
           {"--target", &o.target},
           {"--vocab-size", &o.vocab_size},
           {"--max-tokens", &o.max_tokens},
           {"--batches", &o.batches},
           {"--rounds", &o.rounds},
           {"--threads", &o.threads},
           {"--attention-dropout", &o.attention_dropout},
           {"--ffn-dropout", &o.ffn_dropout},
           {"--keep-batches", &o.keep_batches},
           {"--peer-modes", &o.peer_modes},
           {"--json", &o.json}});
    translate_bench(o);
    return 0;
  }
  if (argc > 1 && std::strcmp(argv[1], "cuda") == 0) {
    const bool generation = argc > 2 && std::strcmp(argv[2], "generate") == 0;
    bool profile = false, large = false, tune = false;
    parse(argc, argv, generation ? 3 : 2, {{"--profile", &profile}, {"--large", &large}, {"--tune", &tune}});
    if (!generation) cuda_bench(profile, tune);
    cuda_generate_bench(profile, large);
    return 0;
  }
  if (argc > 1 && std::strcmp(argv[1], "launches") == 0) {
    parse(argc, argv, 2, {});
    launches_bench();
    return 0;
  }
  if (argc > 1 && std::strcmp(argv[1], "overlap") == 0) {
    int threads = hardware_threads(), rounds = 5;
    parse(argc, argv, 2, {{"--threads", &threads}, {"--rounds", &rounds}});
    overlap_bench(threads, rounds);
    return 0;
  }
  if (argc > 1 && std::strcmp(argv[1], "decode") == 0) {
    DecodeOptions o{.threads = hardware_threads()};
    parse(argc, argv, 2,
          {{"--folder", &o.folder},
           {"--prompt", &o.prompt},
           {"--tokens", &o.tokens},
           {"--rounds", &o.rounds},
           {"--threads", &o.threads},
           {"--json", &o.json}});
    decode_bench(o);
    return 0;
  }
  if (argc > 2 && std::strcmp(argv[1], "profile") == 0) {
    ProfileOptions o{.work = argv[2], .threads = hardware_threads()};
    parse(argc, argv, 3, {{"--threads", &o.threads}, {"--steps", &o.steps}, {"--rows", &o.rows}, {"--precisions", &o.precisions}});
    profile_bench(o);
    return 0;
  }
  if (argc > 1 && std::strcmp(argv[1], "scaling") == 0) {
    ScalingOptions o{.threads = hardware_threads()};
    parse(argc, argv, 2,
          {{"--works", &o.works},
           {"--threads", &o.threads},
           {"--counts", &o.counts},
           {"--brief", &o.brief},
           {"--precisions", &o.precisions},
           {"--seconds", &o.seconds},
           {"--json", &o.json}});
    scaling_bench(o);
    return 0;
  }
  if (argc > 1 && std::strcmp(argv[1], "task") == 0) {
    TaskOptions o{.task = argc > 2 ? argv[2] : "", .threads = hardware_threads()};
    parse(argc, argv, 3,
          {{"--text", &o.data},
           {"--data", &o.data},
           {"--idx", &o.data},
           {"--csv", &o.data},
           {"--updates", &o.updates},
           {"--rounds", &o.rounds},
           {"--threads", &o.threads},
           {"--whole", &o.whole},
           {"--precisions", &o.precisions},
           {"--peer-modes", &o.peer_modes},
           {"--json", &o.json}});
    task_bench(o);
    return 0;
  }
  int threads = hardware_threads(), rounds = 5;
  std::string precisions = "float32 bfloat16", peer_modes = "eager compile", json_path;
  parse(argc, argv, 1,
        {{"--threads", &threads},
         {"--rounds", &rounds},
         {"--precisions", &precisions},
         {"--peer-modes", &peer_modes},
         {"--json", &json_path}});
  base_bench(threads, rounds, precisions, peer_modes, json_path);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "transformer_bench: %s\n", e.what());
  return 1;
}
