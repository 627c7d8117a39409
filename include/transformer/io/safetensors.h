#pragma once
// The safetensors format: 8 bytes with the length of a JSON header, the header, and the tensors' bytes, little-endian.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transformer/core/tensor.h"

namespace transformer {

using Metadata = std::map<std::string, std::string>;

// A file mapped into memory. Opening it checks the whole header: whatever does not describe exactly the bytes that
// follow is refused with an Error that names the file and the tensor.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::string& path() const { return path_; }
  const std::vector<std::string>& names() const { return names_; }  // in the order of their bytes
  bool contains(std::string_view name) const { return entries_.contains(name); }
  const Metadata& metadata() const { return metadata_; }

  // The tensor on the CPU, as a view of the mapping, which lives as long as any of its tensors. Writing to it changes
  // this process's memory, not the file. F64 is converted to float32, BOOL is uint8, and bytes that are not aligned for
  // their type are copied.
  Tensor tensor(std::string_view name) const;
  // The same without touching the bytes.
  Shape shape(std::string_view name) const { return entry(name).shape; }
  DType dtype(std::string_view name) const;
  std::string_view stored_type(std::string_view name) const { return entry(name).type; }  // "F32", "BF16", "I64", …
  // Gives the memory of a tensor that was read and copied back to the system; views of it read the file again.
  void drop(std::string_view name) const;

 private:
  struct Entry {
    std::string type;
    Shape shape;
    std::size_t begin = 0, end = 0;  // in the bytes after the header
  };
  const Entry& entry(std::string_view name) const;
  void check_layout(std::size_t data_bytes);

  std::string path_;
  std::shared_ptr<std::byte> data_;  // what follows the header; owns the mapping
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<std::string> names_;
  Metadata metadata_;
};

// Writes the tensors (on the CPU; rows may be strided), largest element types first so that all are aligned. The file
// appears as a whole or not at all: see write_json.
void save_safetensors(const std::filesystem::path& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                      const Metadata& metadata = {});

// The same of tensors that need not all be there at a time: each is made when it is its turn to be written.
struct TensorToSave {
  std::string name;
  Shape shape;
  DType dtype;
  std::function<Tensor()> make;
};
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorToSave>& tensors, const Metadata& metadata = {});

}  // namespace transformer
