#include "transformer/core/sequences.h"

#include <algorithm>
#include <numeric>

#include "transformer/core/context.h"
#include "transformer/core/error.h"

namespace transformer {

Sequences::Sequences(std::span<const std::int64_t> lengths) {
  Data data;
  data.begins.reserve(lengths.size());
  data.lengths.assign(lengths.begin(), lengths.end());
  for (std::int64_t n : lengths) {
    if (n < 0) fail("Sequences", "a length of {} was given, lengths must be 0 or more", n);
    data.begins.push_back(data.total);
    data.total += n;
    data.longest = std::max(data.longest, n);
  }
  data_ = std::make_shared<Data>(std::move(data));
}

Sequences Sequences::uniform(std::int64_t count, std::int64_t length) {
  if (count < 0) fail("Sequences", "a count of {} was given, it must be 0 or more", count);
  return Sequences(std::vector<std::int64_t>(static_cast<std::size_t>(count), length));
}

Sequences Sequences::with_gaps(std::vector<std::int64_t> begins, std::vector<std::int64_t> lengths, std::int64_t total) {
  if (begins.size() != lengths.size())
    fail("Sequences", "{} begins and {} lengths were given: expected equal counts", begins.size(), lengths.size());
  Data data;
  data.begins = std::move(begins), data.lengths = std::move(lengths), data.total = total;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < data.begins.size(); ++i) {
    const std::int64_t begin = data.begins[i], n = data.lengths[i];
    if (begin < 0 || n < 0 || n > total - begin)
      fail("Sequences", "sequence {} begins at row {} and has {} tokens: expected it within {} rows", i, begin, n, total);
    data.packed &= begin == end;
    end = begin + n;
    data.longest = std::max(data.longest, n);
  }
  data.packed &= end == total;
  Sequences sequences;
  sequences.data_ = std::make_shared<Data>(std::move(data));
  return sequences;
}

Sequences Sequences::scattered(std::vector<std::int64_t> rows, std::vector<std::int64_t> lengths, std::int64_t total) {
  Data data = *Sequences(lengths).data_;
  if (data.total != static_cast<std::int64_t>(rows.size())) fail("Sequences", "{} rows given for {} tokens", rows.size(), data.total);
  for (std::int64_t row : rows)
    if (row < 0 || row >= total) fail("Sequences", "row {} given of {}", row, total);
  data.rows = std::move(rows);
  data.total = total;
  data.packed = false;
  Sequences sequences;
  sequences.data_ = std::make_shared<Data>(std::move(data));
  return sequences;
}

Sequences Sequences::in_place(Tensor block, std::int64_t count, std::int64_t most, std::int64_t total) {
  if (block.numel() != count * (3 + most)) fail("Sequences", "a block {} given for {} sequences of {} rows", block.shape(), count, most);
  Data data = *uniform(count, most).data_;
  data.lengths.assign(static_cast<std::size_t>(count), 0);
  data.rows.assign(static_cast<std::size_t>(count * most), 0);
  data.total = total;
  data.packed = false;
  Sequences sequences;
  sequences.data_ = std::make_shared<Data>(std::move(data));
  sequences.data_->device.get([&] { return std::move(block); });
  return sequences;
}

void Sequences::set(std::int64_t i, std::span<const std::int64_t> rows) {
  if (std::ssize(rows) > longest()) fail("Sequences", "{} rows given for a sequence that has room for {}", rows.size(), longest());
  std::copy(rows.begin(), rows.end(), data_->rows.begin() + begin(i));
  data_->lengths[static_cast<std::size_t>(i)] = std::ssize(rows);
}

Tensor Sequences::on(Context& ctx) const {
  const auto fits = [&](const Tensor& t) { return t.device() == ctx.device(); };
  return data_->device.get(fits, [&] {
    const Data& d = *data_;
    const std::size_t n = d.lengths.size();
    std::vector<std::int32_t> block(3 * n + d.rows.size());
    const auto put = [&](const std::vector<std::int64_t>& values, std::size_t at) {
      std::transform(values.begin(), values.end(), block.begin() + static_cast<std::ptrdiff_t>(at),
                     [](std::int64_t v) { return static_cast<std::int32_t>(v); });
    };
    put(d.begins, 0), put(d.lengths, n), put(d.rows, 3 * n);
    const auto order = block.begin() + static_cast<std::ptrdiff_t>(2 * n);
    std::iota(order, order + static_cast<std::ptrdiff_t>(n), 0);
    std::stable_sort(order, order + static_cast<std::ptrdiff_t>(n), [&](std::int32_t a, std::int32_t b) {
      return d.lengths[static_cast<std::size_t>(a)] > d.lengths[static_cast<std::size_t>(b)];
    });
    for (std::size_t s = 0; d.packed && s < n; ++s)
      for (std::int64_t i = 0; i < d.lengths[s]; ++i) block.push_back(static_cast<std::int32_t>(i));
    return Tensor::from<std::int32_t>(ctx, {static_cast<std::int64_t>(block.size())}, block);
  });
}

Tensor Sequences::positions(Context& ctx) const {
  if (!packed()) fail("Sequences", "the positions of tokens are asked for, but they are not one after the other");
  return on(ctx).row_block(3 * count(), total());
}

}  // namespace transformer
