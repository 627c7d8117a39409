#pragma once
// The tensors of a model's folder, in one file or in several:
//
//   model.safetensors                                   or
//   model.safetensors.index.json                        {"weight_map": {"wte.weight": "model-00001-of-00002.safetensors", …}}
//   model-00001-of-00002.safetensors, …

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "transformer/io/safetensors.h"

namespace transformer {

class Checkpoint {
 public:
  // Error names what is missing; a folder with pytorch_model.bin only is refused with how to make safetensors of it.
  explicit Checkpoint(const std::filesystem::path& folder);
  explicit Checkpoint(const SafetensorsFile& file);

  const std::string& path() const { return path_; }                 // of the file, or of the index
  const std::vector<std::string>& names() const { return names_; }  // of all files
  bool contains(std::string_view name) const { return files_of_.contains(name); }
  const SafetensorsFile& file(std::string_view name) const;  // that holds the tensor; Error when none does

  Tensor tensor(std::string_view name) const { return file(name).tensor(name); }
  Shape shape(std::string_view name) const { return file(name).shape(name); }
  DType dtype(std::string_view name) const { return file(name).dtype(name); }

 private:
  void add(const SafetensorsFile& file);

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::vector<std::string> names_;
  std::map<std::string, std::size_t, std::less<>> files_of_;
};

}  // namespace transformer
