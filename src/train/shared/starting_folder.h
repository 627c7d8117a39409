#pragma once
// A model's folder that training begins with instead of fresh weights: what of it goes into every folder that is saved, and how
// a run that is resumed knows it again.

#include <filesystem>
#include <map>
#include <string>

#include "transformer/models/lora.h"

namespace transformer {

struct StartingFolder {
  std::filesystem::path base;                // where the model itself is
  std::string weights;                       // a hash of all tensors, their names and sizes; with an adapter, of both
  std::map<std::string, std::string> files;  // of its tokenizer and of generation, byte for byte

  // Error names what cannot be read.
  explicit StartingFolder(const ModelFolder& at);
  void write_files(const std::filesystem::path& folder) const;
};

// The whole model of a folder and its adapter, merged, into another folder: config.json, weights and the files of its tokenizer.
void write_merged(Context& ctx, const ModelFolder& at, const std::filesystem::path& folder);

}  // namespace transformer
