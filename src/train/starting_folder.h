#pragma once
// A model's folder that training begins with instead of fresh weights: what of it goes into every folder that is saved, and how
// a run that is resumed knows it again.

#include <filesystem>
#include <map>
#include <string>

namespace transformer {

struct StartingFolder {
  std::string weights;                       // a hash of all tensors, their names and sizes
  std::map<std::string, std::string> files;  // of its tokenizer and of generation, byte for byte

  // Error names what cannot be read.
  explicit StartingFolder(const std::filesystem::path& folder);
  void write_files(const std::filesystem::path& folder) const;
};

}  // namespace transformer
