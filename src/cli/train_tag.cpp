// transformer train tag: an encoder that gives each word of a text a tag.
#include <fmt/ranges.h>

#include "cli/train_labels.h"
#include "toys/shared/labels.h"
#include "transformer/train/tag.h"

namespace transformer::cli {
namespace {

struct TrainTag : LabelTraining<TrainTag, TagConfig, TagTask> {
  static constexpr const char *file = ".conll", *samples = "words";

  // Names of people and places (toys/shared/labels.h).
  std::vector<std::string> made_up() const {
    std::vector<std::string> out;
    for (const TaggedText& t : name_texts(toy.texts())) {
      std::string& text = out.emplace_back();
      for (std::size_t w = 0; w < t.words.size(); ++w) text += fmt::format("{} {}\n", t.words[w], t.tags[w]);
      text += "\n";
    }
    return out;
  }

  static void say_what_was_read(const TagTask& task) {
    const std::vector<std::string>& tags = task.tags();
    fmt::print(stderr, "training: {} texts, {} words with {} tags ({}{})\n", task.training().tokens.count(), task.training().words,
               tags.size(), fmt::join(tags.begin(), tags.begin() + std::min<std::ptrdiff_t>(std::ssize(tags), 20), ", "),
               tags.size() > 20 ? ", …" : "");
    if (task.validation_texts() > 0) fmt::print(stderr, "validation: {} texts\n", task.validation_texts());
    say(task.report());
    if (task.lost() > 0)
      fmt::print(stderr, "{} words have no token, or stand behind the end of what is read: their tags count for nothing\n", task.lost());
  }
};

}  // namespace

void add_train_tag(CLI::App& verb) {
  TrainTag::add(verb, "tag",
                "tags of words (names of people and places, parts of speech) from tagged texts; with --from, by a ready encoder");
}

}  // namespace transformer::cli
