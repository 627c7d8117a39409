// transformer generate, on cases of the reference.
#include <algorithm>

#include "cli/command.h"
#include "support/golden.h"
#include "support/tiny_tokenizer.h"

namespace transformer::test {
namespace {

class GenerateVerb : public Command {
 protected:
  GenerateVerb() : case_(golden_root() / "gpt2") { copy_with_tokenizer(case_.folder, folder_ / "model", tiny_tokenizer(false)); }

  // A row of ids of the case from `begin` on, as words.
  std::string words(const std::string& name, std::int64_t row, std::int64_t begin = 0) const {
    const std::vector<std::int64_t> ids = case_.expected.tensor(name).to_vector<std::int64_t>();
    const std::int64_t width = case_.expected.shape(name)[1];
    std::string line;
    for (std::int64_t i = begin; i < width; ++i)
      line += (i == begin ? "" : " ") + std::to_string(ids[static_cast<std::size_t>(row * width + i)]);
    return line;
  }

  GoldenCase case_;
};

TEST_F(GenerateVerb, IdsInAndTheReferencesIdsOut) {
  const std::int64_t prompt = case_.expected.shape("input_ids")[1];
  const std::string count = std::to_string(case_.expected.shape("greedy")[1] - prompt);
  const std::string input = words("input_ids", 0) + "\n" + words("input_ids", 1) + "\n";
  const CommandResult greedy = run("generate model --ids --temperature 0 --max-new-tokens " + count, input);
  EXPECT_EQ(greedy.code, 0) << greedy.err;
  EXPECT_EQ(greedy.out, words("greedy", 0, prompt) + "\n" + words("greedy", 1, prompt) + "\n");
  const CommandResult beam = run("generate model --ids --beam 4 --max-new-tokens " + count + " --prompt '" + words("input_ids", 0) + "'");
  EXPECT_EQ(beam.out, words("beam4", 0, prompt) + "\n") << beam.err;
  expect_failure("generate model --ids --prompt '1 two'", "'two'");
  expect_failure("generate model --ids --prompt 99999", "99999");
}

TEST_F(GenerateVerb, DrawsByTheSeed) {
  const std::string line = "generate model --prompt 'Once upon' --max-new-tokens 12 --temperature 1.5 --top-p 0.95 ";
  const CommandResult a = run(line + "--seed 7"), b = run(line + "--seed 7"), c = run(line + "--seed 8");
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(a.out, b.out);
  EXPECT_NE(a.out, c.out);
  const CommandResult several = run(line + "--seed 7 --num-return-sequences 3");
  EXPECT_GE(lines_of(several.out), 3);
  EXPECT_TRUE(several.out.starts_with(a.out.substr(0, a.out.size() - 1)));  // the first draw is the same
  EXPECT_EQ(run(line + "--seed 7 --precision bfloat16 --threads 1").code, 0);
  EXPECT_EQ(run(line + "--stop e --seed 7").code, 0);
}

TEST_F(GenerateVerb, TheFolderSaysWhatTheUserDoesNot) {
  write_json(folder_ / "model/generation_config.json", {{"max_new_tokens", 3}, {"eos_token_id", nullptr}});
  const std::string ids = words("input_ids", 0);
  const CommandResult three = run("generate model --ids --prompt '" + ids + "'");
  EXPECT_EQ(std::count(three.out.begin(), three.out.end(), ' '), 2) << three.out << three.err;
  const CommandResult one = run("generate model --ids --max-new-tokens 1 --prompt '" + ids + "'");
  EXPECT_EQ(std::count(one.out.begin(), one.out.end(), ' '), 0);
  write("model/generation_config.json", R"({"max_time": 3.0})");
  expect_failure("generate model --prompt x", "max_time");
}

TEST_F(GenerateVerb, ReadsPromptsFromAFileAndChats) {
  write("prompt", "Once\nupon a time\n");
  const CommandResult file = run("generate model --prompt-file prompt --max-new-tokens 4");
  EXPECT_EQ(file.code, 0) << file.err;
  EXPECT_EQ(file.out, run("generate model --max-new-tokens 4 --prompt 'Once\nupon a time'").out);
  expect_failure("generate model --chat --prompt Hi", "chat template");
  write("model/chat_template.jinja", "{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}assistant:");
  const CommandResult chat = run("generate model --chat --system Be --prompt Hi --max-new-tokens 4");
  EXPECT_EQ(chat.out, run("generate model --max-new-tokens 4 --prompt 'system: Be user: Hi assistant:'").out) << chat.err;
}

// An empty prompt is one: standard input is not read. One longer than the table of positions is its end.
TEST_F(GenerateVerb, PromptsMayBeEmptyOrLong) {
  const CommandResult empty = run("generate model --prompt '' --temperature 0 --max-new-tokens 3", "a\nb\n");
  EXPECT_EQ(empty.code, 0) << empty.err;
  EXPECT_EQ(lines_of(empty.out), 1) << empty.out;
  EXPECT_EQ(run("generate model --temperature 0 --max-new-tokens 3", "\n").out, empty.out);
  expect_usage("generate model --prompt '' --prompt-file y", "exclude each other");
  const std::string line = "generate model --temperature 0 --max-new-tokens 3 --prompt ";
  const auto positions = static_cast<std::size_t>(case_.config.at("n_positions").get<std::int64_t>());
  const CommandResult longer = run(line + "'" + std::string(500, 'y') + std::string(positions, 'x') + "'");
  EXPECT_EQ(longer.code, 0) << longer.err;
  EXPECT_EQ(longer.out, run(line + "'" + std::string(positions, 'x') + "'").out);
}

TEST_F(GenerateVerb, WithAnEncoderThePromptIsWhatItReads) {
  copy_with_tokenizer(golden_root() / "t5", folder_ / "t5", tiny_tokenizer(true));
  const CommandResult r = run("generate t5 --max-new-tokens 5", "one\ntwo\n");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_GE(lines_of(r.out), 2);
}

TEST_F(GenerateVerb, SaysWhatIsWrong) {
  expect_usage("generate", "MODEL is required");
  expect_usage("generate model --ids --chat", "--chat");
  expect_usage("generate model --prompt x --prompt-file y", "exclude each other");
  expect_usage("generate model --system x", "--chat");
  expect_usage("generate model --temprature 1", "did you mean '--temperature'");
  expect_failure("generate nowhere --prompt x", "nowhere");
  expect_failure("generate model --prompt-file nothing", "nothing");
  expect_usage("generate model --prompt x --temperature -1", "--temperature is -1");
  expect_usage("generate model --prompt x --num-return-sequences 2",
               "--num-return-sequences is 2: taking the best token gives one; set --temperature or --beam");
  expect_usage("generate model --prompt x --beam 0", "--beam is 0");
  expect_failure("generate model --no-slide --prompt '" + std::string(500, 'x') + "'", "takes at most");
  expect_failure("generate '" + (golden_root() / "bert-cls").string() + "' --prompt x", "transformer classify");
  std::filesystem::remove(folder_ / "model/tokenizer.json");
  std::filesystem::remove(folder_ / "model/tokenizer_config.json");
  expect_failure("generate model --prompt x", "there is no tokenizer");
}

TEST_F(GenerateVerb, CtrlCEndsIt) {
  // Rotary positions have no end: it would go on for very long.
  copy_with_tokenizer(golden_root() / "llama", folder_ / "llama", tiny_tokenizer(false));
  const CommandResult r = run(
      "generate llama --ids --prompt 5 --max-new-tokens 100000000 --min-new-tokens 100000000 & p=$!; "
      "for i in $(seq 500); do [ -s stdout ] && break; sleep 0.01; done; kill -INT $p; wait $p");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.ends_with('\n'));
  EXPECT_EQ(r.err, "");
}

}  // namespace
}  // namespace transformer::test
