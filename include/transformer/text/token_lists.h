#pragma once
// Token ids of many texts, one text behind the other in memory.

#include <cstdint>
#include <span>
#include <vector>

namespace transformer {

struct Hash;

class TokenLists {
 public:
  void add(std::span<const std::int32_t> ids);

  std::int64_t count() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }
  std::int64_t total() const { return offsets_.back(); }              // tokens of all texts
  std::span<const std::int32_t> at(std::int64_t i) const;             // Error when there is no such text
  std::span<const std::int32_t> all() const { return ids_; }          // the tokens of all texts
  std::span<const std::int64_t> offsets() const { return offsets_; }  // where each text begins among them, and the end
  std::int64_t begin(std::int64_t i) const { return at(i).data() - ids_.data(); }

  // A hash of all of it, the same on every machine: training that is resumed on other data can be refused.
  std::uint64_t fingerprint() const;
  void add_to(Hash& hash) const;

 private:
  std::vector<std::int32_t> ids_;
  std::vector<std::int64_t> offsets_ = {0};
};

}  // namespace transformer
