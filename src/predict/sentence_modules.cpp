#include "predict/sentence_modules.h"

#include "io/shared/json.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

using Json = nlohmann::json;

Pooling read_pooling(const std::filesystem::path& path) {
  const Json config = read_json(path);
  if (!config.is_object()) fail(path.string(), "expected an object");
  std::optional<Pooling> found;
  for (const auto& [key, value] : config.items()) {
    if (!key.starts_with("pooling_mode_") || value != true) continue;
    const bool known = key == "pooling_mode_mean_tokens" || key == "pooling_mode_cls_token" || key == "pooling_mode_lasttoken";
    if (!known || found) fail(path.string(), "{} is true: only one of mean, cls and last token is supported", key);
    found = key == "pooling_mode_mean_tokens" ? Pooling::mean : key == "pooling_mode_cls_token" ? Pooling::cls : Pooling::last;
  }
  return found.value_or(Pooling::mean);
}

}  // namespace

SentenceModules read_sentence_modules(const std::filesystem::path& folder) {
  SentenceModules out;
  if (const auto path = folder / "modules.json"; std::filesystem::exists(path)) {
    const Json modules = read_json(path);
    if (!modules.is_array()) fail(path.string(), "expected a list of modules");
    for (const Json& module : modules) {
      const std::string type = module.is_object() ? module.value("type", Json()).dump() : "";
      auto is = [&](const char* name) { return type.ends_with("." + std::string(name) + "\""); };
      if (is("Transformer")) continue;
      if (is("Normalize")) {
        out.options.normalize = true;
      } else if (is("Pooling")) {
        const Json inside = module.value("path", Json("1_Pooling"));
        if (!inside.is_string() || inside.get<std::string>().find("..") != std::string::npos) fail(path.string(), "Pooling has no path");
        out.options.pooling = read_pooling(folder / inside.get<std::string>() / "config.json");
      } else {
        fail(path.string(), "the module {} is not supported, only Transformer, Pooling and Normalize; remove it for vectors without it",
             type);
      }
    }
  }
  if (const auto path = folder / "sentence_bert_config.json"; std::filesystem::exists(path)) {
    const Json config = read_json(path);
    if (!config.is_object()) fail(path.string(), "expected an object");
    if (config.value("do_lower_case", Json(false)) == true)
      fail(path.string(), "do_lower_case is true: lower-case the text before, and set it to false");
    const Json longest = config.value("max_seq_length", Json());
    if (longest.is_number_integer() && longest.get<std::int64_t>() > 0) out.longest = longest.get<std::int64_t>();
  }
  return out;
}

}  // namespace transformer
