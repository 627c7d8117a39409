#include "train/labelled_rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "predict/shared/text_reader.h"
#include "train/head_labels.h"

namespace transformer {
namespace {

using nlohmann::json;

std::optional<float> number_of(const std::string& label) {
  const char *begin = label.data(), *end = begin + label.size();
  if (begin != end && *begin == '+') ++begin;
  float value = 0.0F;
  const auto [stop, error] = std::from_chars(begin, end, value);
  return error == std::errc() && stop == end && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::vector<std::string> numbered(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back("LABEL_" + std::to_string(i));
  return names;
}

constexpr std::pair<ProblemType, const char*> problems[] = {{ProblemType::single_label, "single_label_classification"},
                                                            {ProblemType::multi_label, "multi_label_classification"},
                                                            {ProblemType::regression, "regression"}};

}  // namespace

json head_json(const LabelHead& head) {
  json out = names_json(head.names);
  for (const auto& [problem, name] : problems)
    if (problem == head.problem) out["problem_type"] = name;
  return out;
}

LabelHead head_of(const json& config) {
  LabelHead head{.names = head_names(config, "ForSequenceClassification")};
  const json type = config.value("problem_type", json());
  if (type.is_null() && head.names.size() == 1) head.problem = ProblemType::regression;  // as Hugging Face decides
  for (const auto& [problem, name] : problems)
    if (type == name) head.problem = problem;
  return head;
}

LabelledRows::LabelledRows(const std::string& file, const LabelledColumns& columns) : path(file) {
  LabelledReader reader(file, columns);
  while (auto row = reader.next()) {
    texts.push_back(std::move(row->text)), lines.push_back(row->line);
    if (reader.pairs()) second.push_back(std::move(row->second));
    lists = lists || row->several;
    labels.push_back(row->several ? std::move(*row->several) : std::vector{std::move(row->label)});
  }
  if (texts.empty()) fail(path, "there are no texts");
}

ProblemType LabelledRows::problem() const {
  bool whole = true;
  for (const auto& list : labels) {
    if (list.empty() || list.size() != labels.front().size()) return ProblemType::multi_label;
    for (const std::string& label : list) {
      const auto value = number_of(label);
      if (!value) return lists ? ProblemType::multi_label : ProblemType::single_label;
      whole = whole && *value == std::floor(*value);
    }
  }
  return !whole ? ProblemType::regression : lists ? ProblemType::multi_label : ProblemType::single_label;
}

LabelHead LabelledRows::head(ProblemType wanted) const {
  LabelHead head{.problem = wanted};
  if (wanted == ProblemType::regression) {
    if (labels.front().empty()) fail(path, "line {} has no number", lines.front());
    head.names = numbered(labels.front().size());
  } else {
    for (const auto& list : labels) head.names.insert(head.names.end(), list.begin(), list.end());
    std::sort(head.names.begin(), head.names.end());
    head.names.erase(std::unique(head.names.begin(), head.names.end()), head.names.end());
    if (head.names.empty()) fail(path, "none of the {} texts has a label", texts.size());
    if (wanted == ProblemType::single_label && head.names.size() < 2)
      fail(path, "all {} texts have the class '{}': expected two classes or more", texts.size(), head.names.front());
  }
  check(head, path);
  return head;
}

void LabelledRows::check(const LabelHead& head, const std::string& known_by) const {
  const std::set<std::string_view> known(head.names.begin(), head.names.end());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (head.problem == ProblemType::regression) {
      if (labels[i].size() != head.names.size())
        fail(path, "line {} has {} {}: expected {}, as {} has for each text", lines[i], labels[i].size(),
             labels[i].size() == 1 ? "number" : "numbers", head.names.size(), known_by);
      for (const std::string& label : labels[i])
        if (!number_of(label)) fail(path, "line {}: '{}' is not a number; a regression learns numbers, such as 0.73", lines[i], label);
      continue;
    }
    if (head.problem == ProblemType::single_label && labels[i].size() != 1)
      fail(path, "line {} has {} labels, but each text has one class here: several are learned with problem_type multi_label", lines[i],
           labels[i].size());
    for (const std::string& label : labels[i])
      if (!known.contains(label))
        fail(path, "line {} has the class '{}', which {} does not have{}", lines[i], label, known_by, did_you_mean(label, head.names));
  }
}

LabelledTokens LabelledRows::tokens(Context& ctx, const TokenizerPtr& tokenizer, std::int64_t longest, const LabelHead& head,
                                    TextReport& report) const {
  LabelledTokens out;
  const TextReader reader(tokenizer, longest);
  constexpr std::size_t part = 8192;
  for (std::size_t begin = 0; begin < texts.size(); begin += part) {
    const std::size_t size = std::min(part, texts.size() - begin);
    const auto all = reader.read(ctx, std::span(texts).subspan(begin, size),
                                 second.empty() ? std::span<const std::string>() : std::span(second).subspan(begin, size), &report);
    for (const Encoding& e : all) {
      out.tokens.add(e.ids);
      if (!second.empty())
        out.second.push_back(static_cast<std::int32_t>(std::find(e.type_ids.begin(), e.type_ids.end(), 1) - e.type_ids.begin()));
    }
  }
  std::map<std::string_view, std::int32_t> ids;
  for (std::size_t i = 0; i < head.names.size(); ++i) ids.emplace(head.names[i], static_cast<std::int32_t>(i));
  for (const auto& list : labels) {
    if (head.problem == ProblemType::regression) {
      for (const std::string& label : list) out.values.push_back(*number_of(label));
      continue;
    }
    std::vector<std::int32_t> classes;
    for (const std::string& label : list) classes.push_back(ids.at(label));
    std::sort(classes.begin(), classes.end());
    classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
    out.labels.add(classes);
  }
  return out;
}

}  // namespace transformer
