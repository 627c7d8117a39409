#pragma once
// A reference case with a tokenizer, as a folder of its own.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/shared/json.h"
#include "support/golden.h"
#include "support/temporary_folder.h"
#include "support/tiny_tokenizer.h"
#include "transformer/core/error.h"

namespace transformer::test {

class ModelFolder {
 public:
  // settings: of config.json, in place of the case's.
  explicit ModelFolder(const std::filesystem::path& golden, const nlohmann::json& tokenizer = tiny_tokenizer(true),
                       const nlohmann::json& settings = nlohmann::json::object()) {
    copy_with_tokenizer(golden, path(), tokenizer);
    change_config(settings);
  }
  std::filesystem::path path() const { return folder_ / "model"; }
  void write(const std::string& name, const nlohmann::json& json) const {
    std::filesystem::create_directories((path() / name).parent_path());
    write_json(path() / name, json);
  }
  void change_config(const nlohmann::json& settings) const {
    nlohmann::json config = read_json(path() / "config.json");
    config.update(settings);
    write("config.json", config);
  }

 private:
  TemporaryFolder folder_;
};

inline const std::vector<std::string> texts{"a short one", "a much longer text than the first one was", "", "x", "the end"};

inline std::string message_of(const auto& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no Error";
}

}  // namespace transformer::test
