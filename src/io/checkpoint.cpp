#include "transformer/io/checkpoint.h"

#include <algorithm>

#include "io/shared/json.h"
#include "transformer/io/config.h"

namespace transformer {
namespace {

constexpr const char* one_file = "model.safetensors";
constexpr const char* index_file = "model.safetensors.index.json";

[[noreturn]] void fail_without_weights(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const char* pickled : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (std::filesystem::exists(folder / pickled, ignored))
      fail(folder.string(),
           "has {} but no {}: such a file can run any program when it is opened, and is not read. In Python, "
           "AutoModel….from_pretrained(folder).save_pretrained(folder, safe_serialization=True) makes safetensors of it",
           pickled, one_file);
  fail(folder.string(), "there is neither {} nor {}", one_file, index_file);
}

}  // namespace

Checkpoint::Checkpoint(const SafetensorsFile& file) : path_(file.path()) { add(file); }

Checkpoint::Checkpoint(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) fail(folder.string(), "there is no such folder");
  if (std::filesystem::exists(folder / one_file, ignored)) {
    path_ = (folder / one_file).string();
    add(SafetensorsFile(path_));
    return;
  }
  if (!std::filesystem::exists(folder / index_file, ignored)) fail_without_weights(folder);
  path_ = (folder / index_file).string();
  const nlohmann::json index = read_json(path_);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object()) fail(path_, "expected an object with a 'weight_map'");
  std::map<std::string, std::vector<std::string>> by_file;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) fail(path_, "tensor '{}': expected the name of a file", name);
    by_file[file.get<std::string>()].push_back(name);
  }
  for (const auto& [file, tensors] : by_file) {
    // A file of this folder, nothing else.
    if (file.empty() || std::filesystem::path(file).filename() != file || file == "." || file == "..")
      fail(path_, "'{}' is not the name of a file in the same folder", file);
    add(SafetensorsFile(folder / file));
    for (const std::string& name : tensors)
      if (!files_.back().contains(name)) fail(path_, "tensor '{}' should be in {} and is not", name, file);
  }
}

void Checkpoint::add(const SafetensorsFile& file) {
  for (const std::string& name : file.names()) {
    if (!files_of_.emplace(name, files_.size()).second)
      fail(file.path(), "tensor '{}' is also in {}", name, files_[files_of_[name]].path());
    names_.push_back(name);
  }
  files_.push_back(file);
}

const SafetensorsFile& Checkpoint::file(std::string_view name) const {
  const auto it = files_of_.find(name);
  if (it == files_of_.end()) fail(path_, "there is no tensor '{}'{}", name, did_you_mean(name, names_));
  return files_[it->second];
}

}  // namespace transformer
