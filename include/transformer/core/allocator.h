#pragma once
// Memory for tensors: blocks are kept when freed and handed out again, since every training step asks for
// the same sizes. What is kept is bounded, so that the peak stays close to what is really in use.

#include <cstddef>
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
  explicit Allocator(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {}
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // A block of at least `bytes`, aligned for vector loads; it returns here when the last owner lets go,
  // even when that is after the Context is gone. Zero bytes give a null pointer.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);

  MemoryStats stats() const;
  void reset_peak();
  void release_kept();  // give all kept blocks back to the system

 private:
  struct Block { std::byte* data; std::size_t size; };
  void take_back(Block block) noexcept;
  void trim(std::size_t limit) noexcept;  // mutex_ held

  mutable std::mutex mutex_;
  std::shared_ptr<Backend> backend_;
  std::multimap<std::size_t, std::byte*> kept_;
  std::size_t kept_bytes_ = 0;
  MemoryStats stats_;
};

}  // namespace transformer
