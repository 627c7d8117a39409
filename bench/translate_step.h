#pragma once
// Training of a small translation model (the preset tiny) on real batches: two text files, a joint BPE, batches of 4096 tokens.

#include <memory>
#include <string>
#include <vector>

#include "transformer/text/parallel.h"
#include "transformer/transformer.h"

namespace transformer::bench {

struct TranslateOptions {
  std::string source, target;  // text files; both empty: the toy corpus
  std::int64_t vocab_size = 10000, max_tokens = 4096;
  int batches = 12, rounds = 3, threads = 2;
  float attention_dropout = 0.1F, ffn_dropout = 0.1F;
  std::string keep_batches;  // where to leave the file of batches; empty: it is removed
  std::string peer_modes = "eager compile";
  std::string json;  // where to write the figures
};

struct TranslateData {
  std::vector<PairIds> batches;
  std::int64_t vocabulary = 0, tokens = 0;  // source and target tokens of all batches
};
TranslateData make_data(const TranslateOptions& options);
void write_batches(const TranslateData& data, const std::string& path);  // as bench/peers/torch_translate.py reads them
// What that script is then called with, beside --threads, --modes, --dtypes and --rounds.
std::string peer_arguments(const TranslateOptions& options, const TranslateData& data, const std::string& path);

class TranslateStep {
 public:
  TranslateStep(const TranslateOptions& options, const TranslateData& data, DType precision);
  float run(std::size_t batch);  // one update; the loss

 private:
  Context ctx_;
  Transformer model_;
  std::vector<PairBatch> batches_;
  std::unique_ptr<Adam> optimizer_;
  std::uint32_t step_ = 0;
};

// Ours and PyTorch's, printed side by side.
void translate_bench(const TranslateOptions& options);

}  // namespace transformer::bench
