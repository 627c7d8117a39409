#pragma once
// The card's memory: addresses that nobody but its work may touch, each allocation between pages that are not there. What is new is filled
// with bytes of all ones: NaN of every float, -1 of every integer. What was given back is never handed out again.

#include <cstddef>
#include <map>

namespace emulator {

class Memory {
 public:
  static Memory& instance();

  std::byte* take(std::size_t bytes);  // null: there is none left
  // What was wrong; null: nothing. Must be open.
  const char* give_back(std::byte* at);
  bool holds(const void* at) const;                            // is it one of its addresses?
  bool is_allocated(const void* at, std::size_t bytes) const;  // within one allocation
  void open() { protect(true); }
  void close() { protect(false); }
  std::size_t used() const { return used_; }
  static constexpr std::size_t total = std::size_t{16} << 30;

 private:
  struct Allocation {
    std::byte* pages;
    std::size_t size, wanted;  // of the pages, of what was asked for
  };
  Memory();
  void protect(bool open);

  std::byte *base_, *next_;
  std::size_t used_ = 0;
  bool open_ = false;
  std::map<std::byte*, Allocation> allocations_;
};

// Pages with one that is not there on either side.
std::byte* guarded_pages(std::size_t bytes);
void forget_pages(std::byte* at, std::size_t bytes);  // they are not there any more, and no others come in their place

}  // namespace emulator
