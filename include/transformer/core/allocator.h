#pragma once
// Memory for tensors: blocks are kept when freed and handed out again, since every training step asks for
// the same sizes. Before more is taken from the system, kept blocks that nobody wanted for longest go back, so
// that what is held stays within an eighth of the most that was ever in use at once.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace transformer {

class Backend;

struct MemoryStats {
  std::size_t in_use = 0, peak_in_use = 0;      // handed out to tensors
  std::size_t reserved = 0, peak_reserved = 0;  // taken from the system: in use + kept
};

class Allocator : public std::enable_shared_from_this<Allocator> {
 public:
  // reuses: freed blocks are handed out again; else each is used once.
  explicit Allocator(std::shared_ptr<Backend> backend, bool reuses = true) : backend_(std::move(backend)), reuses_(reuses) {}
  virtual ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // A block of at least `bytes`, aligned for vector loads; it returns here when the last owner lets go,
  // even when that is after the Context is gone. Zero bytes give a null pointer.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes);

  MemoryStats stats() const;
  void reset_peak();
  virtual void release_kept();  // give all kept blocks back to the system

 protected:
  mutable std::mutex mutex_;
  std::shared_ptr<Backend> backend_;
  MemoryStats stats_;

 private:
  struct Block {
    std::byte* data;
    std::size_t size, wanted;  // it may be larger than was asked for
  };
  void take_back(Block block) noexcept;
  void trim(std::size_t limit) noexcept;  // gives kept blocks back until at most `limit` is reserved; mutex_ held

  struct Kept {
    std::byte* data;
    std::uint64_t since;
  };
  bool reuses_;
  std::multimap<std::size_t, Kept> kept_;  // by size
  std::uint64_t clock_ = 0;
};

}  // namespace transformer
