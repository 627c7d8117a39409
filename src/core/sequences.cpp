#include "transformer/core/sequences.h"

#include <algorithm>

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
  data_ = std::make_shared<const Data>(std::move(data));
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
  sequences.data_ = std::make_shared<const Data>(std::move(data));
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
  sequences.data_ = std::make_shared<const Data>(std::move(data));
  return sequences;
}

}  // namespace transformer
