#include "transformer/text/token_lists.h"

#include "core/shared/hash.h"
#include "transformer/core/error.h"

namespace transformer {

void TokenLists::add(std::span<const std::int32_t> ids) {
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  offsets_.push_back(static_cast<std::int64_t>(ids_.size()));
}

std::span<const std::int32_t> TokenLists::at(std::int64_t i) const {
  if (i < 0 || i >= count()) fail("texts", "there is no text {}: the data have {}", i, count());
  const auto* begin = offsets_.data() + i;
  return std::span(ids_).subspan(static_cast<std::size_t>(begin[0]), static_cast<std::size_t>(begin[1] - begin[0]));
}

void TokenLists::add_to(Hash& hash) const {
  const auto add = [&](std::int64_t value) { hash.word(static_cast<std::uint64_t>(value)); };
  add(count());
  for (const std::int64_t offset : offsets_) add(offset);
  for (const std::int32_t id : ids_) add(id);
}

std::uint64_t TokenLists::fingerprint() const {
  Hash hash;
  add_to(hash);
  return hash.finish();
}

}  // namespace transformer
