#pragma once
// Memory for a pass, such as an update of a training, that comes again and again: the same requests get the same addresses, so that a
// device may keep the launches of one pass and repeat them. Best fit within one slab; where a block lies depends only on what is in use.

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "transformer/core/allocator.h"

namespace transformer {

class PassAllocator final : public Allocator {
 public:
  using Allocator::Allocator;
  ~PassAllocator() override;

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  void begin();                  // of a pass: slabs that were added in the last one become one, if none is in use
  void release_kept() override;  // all slabs, if none is in use

 private:
  struct Slab {
    std::byte* data;
    std::size_t size;
    std::size_t used = 0;                     // its beginning, as far as it was ever in use
    std::map<std::size_t, std::size_t> free;  // ranges: offset, size
  };
  using Range = std::pair<std::size_t, std::pair<std::size_t, std::size_t>>;  // size, then slab and offset

  void add_slab(std::size_t bytes);
  void give_back_slabs() noexcept;
  void insert(std::size_t slab, std::size_t offset, std::size_t size);
  void take_back(std::size_t slab, std::size_t offset, std::size_t size) noexcept;

  std::vector<Slab> slabs_;
  std::set<Range> ranges_;  // of all slabs, by size
};

}  // namespace transformer
