#include "train/distributed.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <numeric>
#include <set>

#include "backend/kernels.h"
#include "core/shared/hash.h"
#include "train/position.h"
#include "transformer/ops/copy.h"

namespace transformer {

using nlohmann::json;

std::vector<MicroBatch> micro_batches(std::int64_t begin, std::int64_t end, std::int64_t update_freq, std::int64_t parts,
                                      const Communicator::Place& place) {
  std::vector<MicroBatch> out;
  for (std::int64_t first = begin; first < end; first += update_freq) {
    const std::int64_t count = std::min(update_freq, end - first) * parts;
    const std::int64_t from = count * place.rank / place.size, to = count * (place.rank + 1) / place.size;
    for (std::int64_t i = from; i < to; ++i)
      out.push_back({.batch = first + i / parts, .share = {.part = i % parts, .parts = parts}, .number = static_cast<std::uint32_t>(i)});
  }
  return out;
}

std::int64_t usual_parts(int processes, std::int64_t update_freq) { return processes / std::gcd<std::int64_t>(processes, update_freq); }

Totals total(Communicator& processes, Totals mine) {
  if (processes.alone()) return mine;
  std::array sums{mine.targets, mine.tokens, mine.stop};
  processes.sum(sums);
  return {.targets = sums[0], .tokens = sums[1], .stop = sums[2]};
}

void compare(Communicator& processes, json mine) {
  if (processes.alone()) return;
  const std::vector<std::string> all = processes.all_gather(mine.dump());
  const std::vector<std::string> found = differences(json::parse(all.front()), json::parse(all[static_cast<std::size_t>(processes.rank())]),
                                                     "with rank 0", "here");
  if (!found.empty())
    fail("train", "this process differs from the first one:\n  {}\nAll must have the same program, data, settings and kind of device",
         fmt::join(found, "\n  "));
}

std::string program_fingerprint() {
  std::set<std::string> files{"/proc/self/exe"};
  if (Dl_info info; dladdr(reinterpret_cast<const void*>(&program_fingerprint), &info) != 0 && info.dli_fname != nullptr)
    files.insert(info.dli_fname);
  Hash hash;
  for (const std::string& file : files) {
    std::ifstream in(file, std::ios::binary);
    std::vector<std::uint64_t> words(std::size_t{1} << 16);
    while (in) {
      std::fill(words.begin(), words.end(), 0);
      in.read(reinterpret_cast<char*>(words.data()), static_cast<std::streamsize>(words.size() * sizeof words.front()));
      const auto count = (static_cast<std::size_t>(in.gcount()) + 7) / 8;
      for (std::size_t i = 0; i < count; ++i) hash.word(words[i]);
    }
  }
  return fmt::format("{:016x}", hash.finish());
}

StatisticsMean::StatisticsMean(Context& ctx, std::vector<Tensor> statistics, const Weights& before)
    : statistics_(std::move(statistics)), before_(before) {
  std::int64_t size = 0;
  for (const Tensor& t : statistics_) size += t.numel();
  const std::int64_t processes = ctx.communicator().size();
  if (size > 0) sum_ = Tensor::zeros(ctx, {(size + processes - 1) / processes * processes});
}

void StatisticsMean::begin(Context& ctx) {
  for (std::size_t i = 0; i < statistics_.size(); ++i) copy_into(ctx, before_[i], statistics_[i]);
}

void StatisticsMean::add(Context& ctx, double share) {
  std::int64_t at = 0;
  for (const Tensor& t : statistics_) {
    Tensor to = Arena::stretch(sum_, at, at + t.numel()), part = Tensor::like(ctx, to);
    kernels(ctx).scale(ctx, static_cast<float>(share), t.view({t.numel()}), part);
    kernels(ctx).add_to(ctx, part, to);
    at += t.numel();
  }
}

void StatisticsMean::finish(Context& ctx) {
  if (!sum_.defined()) return;
  Communicator& processes = ctx.communicator();
  if (!processes.alone()) {
    const std::int64_t each = sum_.numel() / processes.size();
    Tensor mine = Tensor::empty(ctx, {each});
    processes.reduce_scatter(ctx.backend(), reinterpret_cast<const float*>(sum_.raw()), reinterpret_cast<float*>(mine.mutable_raw()), each)
        ->wait();
    Tensor own = Arena::stretch(sum_, each * processes.rank(), each * (processes.rank() + 1));
    copy_into(ctx, mine, own);
    processes.all_gather(ctx.backend(), reinterpret_cast<float*>(sum_.mutable_raw()), each)->wait();
  }
  std::int64_t at = 0;
  for (Tensor& t : statistics_) {
    copy_into(ctx, Arena::stretch(sum_, at, at + t.numel()).view(t.shape()), t);
    at += t.numel();
  }
}

}  // namespace transformer
