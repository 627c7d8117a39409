#include "train/position.h"

#include <cmath>

#include "io/shared/json.h"
#include "transformer/io/config.h"

namespace transformer {
namespace {

using nlohmann::json;

constexpr int format_version = 1;

const json& at(const json& object, const std::string& inside, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) fail("config", "key '{}{}' is missing", inside, key);
  return *found;
}

template <class T>
void read(const json& object, const std::string& inside, const char* key, T& value) {
  detail::read_value(at(object, inside, key), value, inside + key);
}

const json& object_at(const json& from, const std::string& inside, const char* key) {
  const json& out = at(from, inside, key);
  if (!out.is_object()) detail::wrong_type(inside + key, "an object", out);
  return out;
}

void compare(const json& before, const json& now, const std::string& path, std::string_view there, std::string_view here,
             std::vector<std::string>& out) {
  if (before.is_object() && now.is_object()) {
    json keys = before;
    keys.update(now);
    for (const auto& [key, ignored] : keys.items())
      compare(before.value(key, json()), now.value(key, json()), path.empty() ? key : path + "." + key, there, here, out);
  } else if (before != now) {
    out.push_back(fmt::format("{}: {} {}, {} {}", path, before.dump(), there, now.dump(), here));
  }
}

json to_object(const Metrics& metrics) {
  json out = json::object();
  for (const auto& [name, value] : metrics) out[name] = std::isfinite(value) ? json(value) : json(nullptr);
  return out;
}

}  // namespace

std::vector<std::string> differences(const json& before, const json& now, std::string_view there, std::string_view here) {
  std::vector<std::string> out;
  compare(before, now, "", there, here, out);
  return out;
}

void write_run(const std::filesystem::path& file, const SavedRun& run) {
  const Position& p = run.position;
  write_json(file,
             {{"version", format_version},
              {"step", p.step},
              {"epoch", p.epoch},
              {"batch", p.batch},
              {"adam_steps", p.adam_steps},
              {"bad_updates", p.bad_updates},
              {"best", {{"step", p.best_step}, {"metrics", to_object(p.best)}, {"without_improvement", p.without_improvement}}},
              {"seconds", p.seconds},
              {"identity", run.identity},
              {"settings", run.settings}});
}

SavedRun read_run(const std::filesystem::path& file) try {
  const json saved = read_json(file);
  if (!saved.is_object()) fail("config", "expected an object, got {}", saved.type_name());
  int version = 0;
  read(saved, "", "version", version);
  if (version != format_version) fail("config", "it was written by another version of this program");
  SavedRun run{.identity = object_at(saved, "", "identity"), .settings = object_at(saved, "", "settings")};
  Position& p = run.position;
  for (const auto& [key, to] : {std::pair{"step", &p.step},
                                {"epoch", &p.epoch},
                                {"batch", &p.batch},
                                {"adam_steps", &p.adam_steps},
                                {"bad_updates", &p.bad_updates}})
    read(saved, "", key, *to);
  read(saved, "", "seconds", p.seconds);
  const json& best = object_at(saved, "", "best");
  read(best, "best.", "step", p.best_step);
  read(best, "best.", "without_improvement", p.without_improvement);
  for (const auto& [name, value] : object_at(best, "best.", "metrics").items())
    p.best.emplace_back(name, value.is_number() ? value.get<double>() : std::nan(""));
  return run;
} catch (const Error& e) {
  if (e.where() != "config") throw;
  fail(file.string(), "{}", std::string_view(e.what()).substr(e.where().size() + 2));
}

}  // namespace transformer
