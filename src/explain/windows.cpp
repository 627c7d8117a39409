#include "explain/windows.h"

#include <algorithm>

#include "explain/seen.h"

namespace transformer {
namespace {

// The tokens of each window, in the order of the grid; places that only pad a window hold none.
std::vector<std::vector<std::int64_t>> tokens_of_windows(const SeenBlock& block) {
  std::vector<std::vector<std::int64_t>> windows(static_cast<std::size_t>(block.weights.dim(0)));
  for (std::int64_t token = 0; token < std::ssize(block.slots); ++token)
    windows[static_cast<std::size_t>(block.slots[static_cast<std::size_t>(token)] / block.weights.dim(2))].push_back(token);
  return windows;
}

// taken [rows, n] · Â, window by window: Â = (A + I) / 2 with rows that sum to 1, A the mean over the heads.
void through_block(const SeenBlock& block, std::vector<double>& taken) {
  const std::int64_t heads = block.weights.dim(1), area = block.weights.dim(2);
  const std::size_t n = block.slots.size(), rows = taken.size() / n;
  const float* weights = block.weights.data<float>();
  std::vector<double> next(taken.size());
  for (const std::vector<std::int64_t>& window : tokens_of_windows(block))
    for (const std::int64_t i : window) {
      const std::int64_t from = block.slots[static_cast<std::size_t>(i)];
      std::vector<double> passed;  // row i of Â
      double sum = 0.0;
      for (const std::int64_t j : window) {
        double mean = 0.0;
        for (std::int64_t head = 0; head < heads; ++head)
          mean += static_cast<double>(
              weights[((from / area * heads + head) * area + from % area) * area + block.slots[static_cast<std::size_t>(j)] % area]);
        passed.push_back(0.5 * mean / static_cast<double>(heads) + (i == j ? 0.5 : 0.0));
        sum += passed.back();
      }
      for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t k = 0; k < window.size(); ++k)
          next[row * n + static_cast<std::size_t>(window[k])] += taken[row * n + static_cast<std::size_t>(i)] * passed[k] / sum;
    }
  taken = std::move(next);
}

// taken [rows, tokens of `coarse`] → [rows, tokens of `fine`]: each token is made of up to four.
std::vector<double> through_merging(const Grid& coarse, const Grid& fine, const std::vector<double>& taken) {
  const std::int64_t rows = std::ssize(taken) / coarse.tokens();
  std::vector<double> next(static_cast<std::size_t>(rows * fine.tokens()));
  for (std::int64_t y = 0; y < fine.height; ++y)
    for (std::int64_t x = 0; x < fine.width; ++x) {
      const std::int64_t into = y / 2 * coarse.width + x / 2;
      const std::int64_t of = std::min<std::int64_t>(2, fine.height - y / 2 * 2) * std::min<std::int64_t>(2, fine.width - x / 2 * 2);
      for (std::int64_t row = 0; row < rows; ++row)
        next[static_cast<std::size_t>(row * fine.tokens() + y * fine.width + x)] =
            taken[static_cast<std::size_t>(row * coarse.tokens() + into)] / static_cast<double>(of);
    }
  return next;
}

}  // namespace

std::vector<SeenStage> seen_stages(Context& ctx, const Swin& swin, const Tensor& pixels) {
  SwinTrace trace;
  static_cast<void>(swin(ctx, pixels, &trace));
  const Patches& p = swin.config.patches;
  Grid grid{1, (pixels.dim(2) + p.height - 1) / p.height, (pixels.dim(3) + p.width - 1) / p.width};
  std::vector<SeenStage> stages;
  for (std::size_t i = 0; i < swin.stages.size(); ++i, grid = {1, (grid.height + 1) / 2, (grid.width + 1) / 2}) {
    const SwinStage& stage = swin.stages[i];
    SeenStage& seen = stages.emplace_back(SeenStage{grid, {}});
    for (std::size_t b = 0; b < stage.blocks.size(); ++b) {
      const Windows windows = cut_windows(ctx, grid, stage.window, shift_of(stage, stage.blocks[b], grid));
      seen.blocks.push_back({on_host(ctx, trace.attentions[i][b]), windows.packing.index.to_vector<std::int64_t>()});
    }
  }
  return stages;
}

Tensor over_grid(const SeenBlock& block) {
  const std::int64_t heads = block.weights.dim(1), area = block.weights.dim(2), n = std::ssize(block.slots);
  std::vector<float> out(static_cast<std::size_t>(heads * n * n));
  for (const std::vector<std::int64_t>& window : tokens_of_windows(block))
    for (const std::int64_t i : window)
      for (const std::int64_t j : window) {
        const std::int64_t from = block.slots[static_cast<std::size_t>(i)], to = block.slots[static_cast<std::size_t>(j)];
        for (std::int64_t head = 0; head < heads; ++head)
          out[static_cast<std::size_t>((head * n + i) * n + j)] =
              block.weights.data<float>()[((from / area * heads + head) * area + from % area) * area + to % area];
      }
  Context host({.device = Device::cpu(), .threads = 1});
  return Tensor::from<float>(host, {1, heads, n, n}, out);
}

// From the last stage back to the first: rows stay few, and no matrix of all patches is made.
std::vector<float> window_rollout(const std::vector<SeenStage>& stages) {
  const auto last = static_cast<std::size_t>(stages.back().grid.tokens());
  std::vector<double> taken((1 + last) * last);
  for (std::size_t i = 0; i < last; ++i) taken[i] = 1.0 / static_cast<double>(last), taken[(1 + i) * last + i] = 1.0;
  for (std::size_t i = stages.size(); i-- > 0;) {
    for (auto block = stages[i].blocks.rbegin(); block != stages[i].blocks.rend(); ++block) through_block(*block, taken);
    if (i > 0) taken = through_merging(stages[i].grid, stages[i - 1].grid, taken);
  }
  return {taken.begin(), taken.end()};
}

}  // namespace transformer
