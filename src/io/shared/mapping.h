#pragma once

#include <cstddef>
#include <string>

namespace transformer {

// A file's bytes in memory, read as they are used and private to this process: a write makes a copy of the page. Error names the
// file when it cannot be opened or is not a regular file. An empty file has no data.
struct Mapping {
  std::byte* data = nullptr;
  std::size_t size = 0;

  explicit Mapping(const std::string& path);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
};

}  // namespace transformer
