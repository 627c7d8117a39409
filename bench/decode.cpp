#include "decode.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base_step.h"
#include "transformer/core/parallel.h"
#include "transformer/models/model.h"
#include "transformer/models/text.h"

namespace transformer::bench {
namespace {

using nlohmann::json;

// Bytes that all threads together read in a second from memory that no cache holds: the best of several passes.
double read_bandwidth(int threads) {
  static const std::vector<std::uint64_t> data(std::size_t{64} << 20, 1);  // 512 MB
  double best = 0.0;
  for (int pass = 0; pass < 5; ++pass) {
    const double begin = seconds();
    parallel_for(threads, static_cast<std::int64_t>(data.size()), 1, [](std::int64_t first, std::int64_t last) {
      std::uint64_t sums[32] = {};  // independent, so that the additions are vectors
      for (std::int64_t i = first; i + 32 <= last; i += 32)
        for (int lane = 0; lane < 32; ++lane) sums[lane] += data[static_cast<std::size_t>(i + lane)];
      volatile std::uint64_t used = std::accumulate(std::begin(sums), std::end(sums), std::uint64_t{0});
      static_cast<void>(used);
    });
    best = std::max(best, static_cast<double>(data.size() * sizeof(data[0])) / (seconds() - begin));
  }
  return best;
}

// What f gives in a process of its own, where nothing was there before. To be called before there are threads.
template <class F>
double in_fresh_process(F&& f) {
  int ends[2];
  if (pipe(ends) != 0) fail("bench", "no pipe: {}", std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) fail("bench", "no process: {}", std::strerror(errno));
  if (child == 0) {
    double result = 0.0;
    try {
      result = f();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "transformer_bench: %s\n", e.what());
      _exit(1);
    }
    _exit(write(ends[1], &result, sizeof result) == sizeof result ? 0 : 1);
  }
  double result = 0.0;
  close(ends[1]);
  const bool got = read(ends[0], &result, sizeof result) == sizeof result;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!got || status != 0) fail("bench", "the process that opens the model failed");
  return result;
}

double weight_bytes(Model& model, DType dtype) {
  double numbers = 0.0;
  for (const NamedParameter& p : model.parameters()) numbers += static_cast<double>(p.parameter->shape.numel());
  return numbers * static_cast<double>(size_of(dtype));
}

struct Speed {
  double prefill = 0.0, decode = 0.0;  // tokens per second, the best of the rounds
};

Tensor tokens_of(Context& ctx, std::int64_t count) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 7919 % 50000);
  return Tensor::from(ctx, {count}, ids);
}

// Reads the prompt, then writes token after token, each the likeliest after the one before.
void measure(Context& ctx, const TextModel& model, const DecodeOptions& o, Speed& speed) {
  const NoGradients no_gradients(ctx);
  KVCache cache(1);
  const double begin = seconds();
  Tensor hidden = model.hidden(ctx, {.ids = tokens_of(ctx, o.prompt), .sequences = Sequences::uniform(1, o.prompt), .cache = &cache});
  Tensor logits = model.logits(ctx, hidden.row_block(o.prompt - 1, 1));
  speed.prefill = std::max(speed.prefill, static_cast<double>(o.prompt) / (seconds() - begin));

  KVCache fresh(1);  // of a short text: what is measured is the weights, not the attention
  std::int32_t next = 1;
  double start = 0.0;
  for (std::int64_t i = 0; i < o.tokens + 4; ++i) {
    if (i == 4) start = seconds();
    hidden = model.hidden(
        ctx, {.ids = Tensor::from(ctx, {1}, std::vector<std::int32_t>{next}), .sequences = Sequences::uniform(1, 1), .cache = &fresh});
    const std::vector<float> row = cast(ctx, model.logits(ctx, hidden), DType::float32).to_vector<float>();
    next = static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
  }
  speed.decode = std::max(speed.decode, static_cast<double>(o.tokens) / (seconds() - start));
}

}  // namespace

json gpt2_settings(DType dtype) {
  return {{"model_type", "gpt2"},  {"architectures", {"GPT2LMHeadModel"}},
          {"n_embd", 768},         {"n_layer", 12},
          {"n_head", 12},          {"n_positions", 1024},
          {"vocab_size", 50257},   {"bos_token_id", 50256},
          {"eos_token_id", 50256}, {"dtype", name_of(dtype)}};
}

void decode_bench(const DecodeOptions& o) {
  const std::filesystem::path root = o.folder.empty()
      ? std::filesystem::temp_directory_path() / fmt::format("transformer_decode_{}", getpid())
      : std::filesystem::path(o.folder);
  json report{{"threads", o.threads}, {"build", TRANSFORMER_BUILD_TYPE}};
  std::printf("GPT-2 124M, %d threads, prompt of %lld tokens\n\n", o.threads, static_cast<long long>(o.prompt));
  std::printf("%-10s %10s %10s %10s %12s %10s %14s %12s\n", "precision", "opens in", "memory", "GB/s", "tokens/s", "of memory",
              "prefill tok/s", "of matmul");
  const auto folder_of = [&](DType dtype) { return root / std::string(name_of(dtype)); };
  std::map<DType, double> memory;  // resident after opening, as a multiple of the weights
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    std::filesystem::create_directories(folder_of(dtype));
    in_fresh_process([&] {
      Context ctx({.threads = o.threads});
      const auto model = make_model(gpt2_settings(dtype));
      initialize(ctx, model->parameters());
      save_model(ctx, *model, folder_of(dtype));
      return 0.0;
    });
    memory[dtype] = in_fresh_process([&] {
      const double before = resident_bytes();
      Context ctx({.threads = o.threads, .precision = dtype});
      const auto model = load_model(ctx, folder_of(dtype), {.dtype = dtype});
      return (resident_bytes() - before) / weight_bytes(*model, dtype);
    });
  }
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    double bandwidth = read_bandwidth(o.threads);
    const double rate = matmul_rate(dtype, o.threads);
    Context ctx({.threads = o.threads, .precision = dtype});
    double opens = 1e9;
    std::unique_ptr<Model> model;
    for (int i = 0; i < 3; ++i) {  // warm: the file is in the system's cache
      model.reset();
      const double begin = seconds();
      model = load_model(ctx, folder_of(dtype), {.dtype = dtype});
      opens = std::min(opens, seconds() - begin);
    }
    const double bytes = weight_bytes(*model, dtype);
    Speed speed;
    for (int round = 0; round < o.rounds; ++round) {
      measure(ctx, dynamic_cast<const TextModel&>(*model), o, speed);
      bandwidth = std::max(bandwidth, read_bandwidth(o.threads));
    }
    // Prefill: 2 FLOPs for each weight of the layers and token; the output is needed for the last token only.
    const double layers = 12.0 * 12 * 768 * 768;
    const double of_memory = speed.decode * bytes / bandwidth, of_matmul = 2.0 * layers * speed.prefill / rate;
    std::printf("%-10s %8.3f s %9.2fx %10.1f %12.1f %9.1f%% %14.0f %11.1f%%\n", std::string(name_of(dtype)).c_str(), opens, memory[dtype],
                bandwidth / 1e9, speed.decode, 100 * of_memory, speed.prefill, 100 * of_matmul);
    report[std::string(name_of(dtype))] = {{"bytes", bytes},
                                           {"opens_s", opens},
                                           {"resident_of_size", memory[dtype]},
                                           {"bandwidth_bytes_per_s", bandwidth},
                                           {"tokens_per_s", speed.decode},
                                           {"of_bandwidth", of_memory},
                                           {"prefill_tokens_per_s", speed.prefill},
                                           {"prefill_of_matmul", of_matmul}};
  }
  if (o.folder.empty()) std::filesystem::remove_all(root);
  print_report(report, o.json);
}

}  // namespace transformer::bench
