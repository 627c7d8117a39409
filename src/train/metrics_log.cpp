#include "transformer/train/metrics_log.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "io/shared/atomic_file.h"
#include "io/shared/read_file.h"
#include "train/append_file.h"
#include "train/event_file.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

constexpr std::array<std::string_view, 4> own_columns = {"step", "epoch", "split", "seconds"};

// What the file holds; nothing where there is no file.
std::string read_if_there(const std::filesystem::path& path) {
  if (std::error_code ignored; !std::filesystem::exists(path, ignored)) return "";
  if (!std::filesystem::is_regular_file(path)) fail(path.string(), "is not a file: choose another folder, or move it away");
  return read_file(path);
}

[[noreturn]] void refuse(const std::filesystem::path& path) {
  fail(path.string(), "is not of a training: choose another folder, so that it is not lost");
}

// The lines that end as lines do. What follows the last newline was being written when the process died.
std::vector<std::string_view> whole_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1))
    lines.push_back(text.substr(0, end));
  return lines;
}

void replace_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

// The step of a line of metrics.jsonl, if it is one of ours.
std::optional<std::int64_t> step_of_json(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return {};
  return json["step"].get<std::int64_t>();
}

// Is this nothing, or a metrics.jsonl, perhaps of a process that died in its first line?
bool begins_as_ours(std::string_view text) {
  constexpr std::string_view begin = R"({"step":)";
  const auto lines = whole_lines(text);
  return lines.empty() ? text.substr(0, begin.size()) == begin.substr(0, text.size()) : step_of_json(lines.front()).has_value();
}

// The step of a line of metrics.csv, if it has as many columns as the header.
std::optional<std::int64_t> step_of_csv(std::string_view line, std::ptrdiff_t commas) {
  std::int64_t step = 0;
  const auto read = std::from_chars(line.data(), line.data() + line.size(), step);
  if (read.ec != std::errc() || std::count(line.begin(), line.end(), ',') != commas) return {};
  return step;
}

void check_name(std::string_view what, std::string_view name) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
  if (name.empty() || name.find_first_not_of(allowed) != std::string_view::npos)
    fail("metrics", "{} '{}': expected letters, digits and _ - . / only", what, name);
}

}  // namespace

struct MetricsLog::Files {
  AppendFile jsonl, csv;
  EventFile events;
  std::vector<std::string> columns;  // of the CSV file, without our own

  Files(const std::filesystem::path& folder, std::int64_t resume_step) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) fail(folder.string(), "cannot make this folder: {}", error.message());
    open_jsonl(folder / "metrics.jsonl", resume_step);
    open_csv(folder / "metrics.csv", resume_step);
    events = EventFile(folder, resume_step + 1);
  }

  void open_jsonl(const std::filesystem::path& path, std::int64_t resume_step) {
    const std::string text = read_if_there(path);
    if (!begins_as_ours(text)) refuse(path);
    std::string kept;
    for (const std::string_view line : whole_lines(text))
      if (const auto step = step_of_json(line); step && *step <= resume_step) kept.append(line) += '\n';
    if (kept != text) replace_file(path, kept);
    jsonl = AppendFile(path);
  }

  void open_csv(const std::filesystem::path& path, std::int64_t resume_step) {
    const std::string text = read_if_there(path);
    std::vector<std::string_view> lines = whole_lines(text);
    const std::string own = header();
    const bool ours = !lines.empty() && (lines[0] == own || lines[0].starts_with(own + ","));
    if (!text.empty() && !ours) refuse(path);
    if (ours && resume_step >= 0) {
      std::string_view rest = lines[0].substr(own.size());
      while (!rest.empty()) {
        rest.remove_prefix(1);
        columns.emplace_back(rest.substr(0, rest.find(',')));
        rest.remove_prefix(columns.back().size());
      }
    } else {
      lines.clear();
    }
    std::string kept = header() + "\n";
    const auto commas = static_cast<std::ptrdiff_t>(own_columns.size() + columns.size()) - 1;
    for (const std::string_view line : lines)
      if (const auto step = step_of_csv(line, commas); step && *step <= resume_step) kept.append(line) += '\n';
    if (kept != text) replace_file(path, kept);
    csv = AppendFile(path);
  }

  std::string header() const {
    std::string line;
    for (const std::string_view name : own_columns) line.append(line.empty() ? "" : ",").append(name);
    for (const std::string& name : columns) line.append(",").append(name);
    return line;
  }

  // New names become columns at the right end, empty in the lines that are there.
  void widen_csv(const MetricsRecord& record) {
    const std::size_t before = columns.size();
    for (const auto& [name, value] : record.values)
      if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
    if (columns.size() == before) return;
    try {
      const std::filesystem::path path = csv.path();
      const std::string text = read_if_there(path), empty(columns.size() - before, ',');
      std::string wider = header() + "\n";
      const auto lines = whole_lines(text);
      for (std::size_t i = 1; i < lines.size(); ++i) wider.append(lines[i]).append(empty) += '\n';
      replace_file(path, wider);
      csv = AppendFile(path);
    } catch (...) {
      columns.resize(before);
      throw;
    }
  }

  std::string csv_line(const MetricsRecord& record) const {
    std::string line = fmt::format("{},{},{},{}", record.step, record.epoch, record.split, record.seconds);
    for (const std::string& column : columns) {
      line += ',';
      const auto found = std::find_if(record.values.begin(), record.values.end(), [&](const auto& v) { return v.first == column; });
      if (found == record.values.end()) continue;
      line += std::isnan(found->second) ? "nan" : fmt::format("{}", found->second);  // a NaN's sign means nothing
    }
    return line + "\n";
  }
};

MetricsLog::MetricsLog(const std::filesystem::path& folder, std::int64_t resume_step)
    : files_(std::make_unique<Files>(folder, std::max(resume_step, new_run))) {}
MetricsLog::~MetricsLog() = default;
MetricsLog::MetricsLog(MetricsLog&&) noexcept = default;
MetricsLog& MetricsLog::operator=(MetricsLog&&) noexcept = default;

void MetricsLog::add(const MetricsRecord& record) {
  check_name("split", record.split);
  std::set<std::string_view> seen(own_columns.begin(), own_columns.end());
  for (const auto& [name, value] : record.values) {
    check_name("name", name);
    if (!seen.insert(name).second) fail("metrics", "the name '{}' is given twice, or is one of step, epoch, split and seconds", name);
  }

  nlohmann::ordered_json json = {{"step", record.step}, {"epoch", record.epoch}, {"split", record.split}, {"seconds", record.seconds}};
  std::vector<std::pair<std::string, double>> tagged;
  for (const auto& [name, value] : record.values) {
    json[name] = value;  // written as null when it is not finite
    tagged.emplace_back(record.split + "/" + name, value);
  }
  files_->jsonl.append(json.dump() + "\n");
  files_->widen_csv(record);
  files_->csv.append(files_->csv_line(record));
  files_->events.scalars(record.step, tagged);
}

}  // namespace transformer
