#include "cli/flags.h"

#include <cctype>
#include <iostream>
#include <memory>
#include <set>

#include "cli/files.h"
#include "io/shared/atomic_file.h"
#include "transformer/io/toml.h"

namespace transformer::cli {
namespace {

using nlohmann::json;

std::string with(std::string name, char from, char to) {
  std::replace(name.begin(), name.end(), from, to);
  return name;
}

// {"tokenizer": {"kind": "bpe"}} → {"tokenizer_kind": "bpe"}; - in keys becomes _.
void flatten(const json& table, const std::string& prefix, json& out) {
  for (const auto& [key, value] : table.items()) {
    const std::string name = prefix + with(key, '-', '_');
    if (value.is_object()) flatten(value, name + "_", out);
    else out[name] = value;
  }
}

void set_preset(const Settings& settings, const std::string& name) {
  for (const auto& apply : settings.apply_preset) apply(name);
}

// The file's preset, unless the command line has one, then the file's settings.
void read_settings(const Settings& settings, const std::string& path, bool preset_given) try {
  json given = json::object();
  flatten(read_toml(path), "", given);
  std::vector<std::string> known;
  if (!settings.presets.empty()) known.emplace_back("preset");
  for (const Setting& s : settings.fields) known.push_back(s.name);
  for (const auto& [key, value] : given.items())
    if (std::find(known.begin(), known.end(), key) == known.end()) fail("config", "unknown key '{}'{}", key, did_you_mean(key, known));
  if (const auto preset = given.find("preset"); preset != given.end()) {
    if (!preset->is_string()) fail("config", "key 'preset': expected a name, got {}", preset->dump());
    if (!preset_given) set_preset(settings, preset->get<std::string>());
  }
  for (const Setting& s : settings.fields)
    if (const auto it = given.find(s.name); it != given.end()) s.set(*it, s.name);
} catch (const Error& e) {
  const std::string message = e.what(), where = "config: ";
  if (!message.starts_with(where)) throw;
  fail(path, "{}", message.substr(where.size()));
}

void dump(const Settings& settings, const std::string& path) {
  json all = json::object();
  for (const Setting& s : settings.fields) all[s.name] = s.get();
  const std::string text = to_toml(all);
  if (path.empty()) {
    std::cout << text << std::flush;
    return;
  }
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

// As a default in the help: "0.1", "nmt_nfkc", "1,2".
std::string plain(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const json& item : value) text += (text.empty() ? "" : ",") + plain(item);
  return text;
}

// What is wrong with a flag is wrong usage, not an error of the program.
void as_usage(const auto& set) {
  try {
    set();
  } catch (const Error& e) {
    std::string message = e.what();
    for (const std::string_view prefix : {"config: ", "key "})
      if (message.starts_with(prefix)) message.erase(0, prefix.size());
    throw CLI::ValidationError(message);
  }
}

void add_field(CLI::App& app, const Setting& s) {
  const std::string dashed = with(s.name, '_', '-'), flag = "--" + dashed;
  const CLI::callback_t parse = [s, flag](const std::vector<std::string>& texts) {
    as_usage([&] { s.parse(texts, flag); });
    return true;
  };
  if (s.kind == Setting::Kind::flag) {
    const CLI::Validator true_or_false(
        [flag](const std::string& text) { return text == "true" || text == "false" ? "" : "'" + flag + "': expected true or false"; }, "");
    app.add_flag_function(
           flag + ",!--no-" + dashed, [s](std::int64_t count) { s.set(count > 0, s.name); },
           s.help + (s.get() == true ? " (on)" : " (off)"))
        ->check(true_or_false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    return;
  }
  CLI::Option* option = app.add_option(flag, parse, s.help)->type_name(s.type)->default_str(plain(s.get()));
  if (s.kind == Setting::Kind::list) {
    option->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args();
    if (s.type != "TEXT") option->delimiter(',');  // a comma can stand in text
  } else {
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

// The flag of a setting: its own, or the only one that ends with its name (--chrf-beta). Null: the verb has no such setting.
const CLI::Option* option_of(const CLI::App& verb, const std::string& key) {
  const std::string dashed = with(key, '_', '-');
  if (const CLI::Option* exact = verb.get_option_no_throw("--" + dashed)) return exact;
  const CLI::Option* found = nullptr;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames())
      if (name.ends_with("-" + dashed) && !name.starts_with("no-")) {
        if (found != nullptr) return nullptr;
        found = option;
      }
  return found;
}

// How the user knows a setting; empty: the verb has none of that name.
std::string called(const CLI::App& verb, const std::string& key) {
  const CLI::Option* option = option_of(verb, key);
  if (option == nullptr) return {};
  const CLI::Option* file = verb.get_option_no_throw("--config");
  if (option->count() == 0 && file != nullptr && file->count() > 0) {
    json given = json::object();
    flatten(read_toml(file->results().back()), "", given);
    if (given.contains(with(option->get_lnames().front(), '-', '_'))) return fmt::format("{} ({})", key, file->results().back());
  }
  return "--" + option->get_lnames().front();
}

}  // namespace

std::string in_flags(const CLI::App& verb, const std::string& message) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  const auto at = [&](std::size_t i) { return i < message.size() ? message[i] : ' '; };
  const auto is_one_of = [](char c, std::string_view set) { return set.find(c) != std::string_view::npos; };
  std::string out;
  for (std::size_t begin = 0, end = 0; begin < message.size(); begin = end) {
    while (end < message.size() && is_letter(message[end])) ++end;
    if (begin == end) {
      out += message[end++];
      continue;
    }
    const std::string word = message.substr(begin, end - begin);
    const char before = begin == 0 ? ' ' : message[begin - 1];
    const bool marked = before == '`' && at(end) == '`';
    // Not in a path, a quotation or a flag; a full stop may follow.
    const bool alone = is_one_of(before, " (\n") && (is_one_of(at(end), " ,;:)\n") || (at(end) == '.' && is_one_of(at(end + 1), " \n")));
    const bool setting = marked || (alone && word.find('_') != std::string::npos);
    const std::string name = setting ? called(verb, word) : "";
    if (marked) out.pop_back(), ++end;
    out += name.empty() ? word : name;
  }
  return out;
}

// CLI11 runs the options' callbacks in the order in which they were added, once the whole command line is known: the order
// here is what makes flags win over the file and the file over the preset.
void add_flags(CLI::App& app, Settings given) {
  const auto settings = std::make_shared<const Settings>(std::move(given));
  std::set<std::string> names = {"config", "dump_config", "preset", "help"};
  for (const Setting& s : settings->fields)
    if (!names.insert(s.name).second) fail("settings", "two fields of '{}' are named '{}'", app.get_name(), s.name);

  CLI::Option* preset = nullptr;
  if (!settings->presets.empty()) {
    const auto apply = [settings](const std::string& name) { as_usage([&] { set_preset(*settings, name); }); };
    preset = app.add_option_function<std::string>("--preset", apply, "sizes that have a name");
    preset->type_name(CLI::detail::join(settings->presets, "|"));
  }
  const auto read = [settings, preset](const std::string& path) { read_settings(*settings, path, preset && preset->count() > 0); };
  app.add_option_function<std::string>("--config", read, "settings from a TOML file: the names of the flags")->type_name("FILE");
  for (const Setting& s : settings->fields)
    if (s.kind != Setting::Kind::file_only) add_field(app, s);

  const CLI::callback_t write = [settings, &app](const std::vector<std::string>& path) {
    const CLI::App* root = &app;
    while (root->get_parent() != nullptr) root = root->get_parent();
    if (root->remaining_size(true) > 0) return true;  // a wrong argument: let it be reported
    std::vector<NamedFile> given;                     // whatever a flag's value is, where it names a file or a folder that is kept
    for (const CLI::Option* flag : app.get_options())
      if (flag->get_name() != "--dump-config")
        for (const std::string& value : flag->results())
          if (std::error_code ignored; std::filesystem::exists(value, ignored)) given.push_back({flag->get_name(), value});
    keep_apart(given, {{"--dump-config", path.back()}});
    dump(*settings, path.back());
    throw CLI::Success();
  };
  app.add_option("--dump-config", write, "write all settings as a TOML file, or to standard output, and end")
      ->expected(0, 1)
      ->type_name("[FILE]");
}

}  // namespace transformer::cli
