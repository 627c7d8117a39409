// `transformer translate` and `evaluate MODEL` with a model that was just trained.
#include <algorithm>
#include <sstream>

#include "cli/command.h"
#include "toys/corpus.h"

namespace transformer::test {
namespace {

class Translate : public Command {
 protected:
  Translate() {
    std::string source, target;
    for (const ToyPair& p : ToyCorpus(300).training()) source += p.source + "\n", target += p.target + "\n";
    write("train.en", source), write("train.ko", target);
    const CommandResult r = run(
        "train translate --source train.en --target train.ko --vocab-size 400 --d-model 32 --num-heads 2 --d-ff 48 --num-layers 1 "
        "--max-len 64 --max-update 20 --lr 0.01 --warmup-updates 5 --save-dir model");
    EXPECT_EQ(r.code, 0) << r.err;
  }
};

TEST_F(Translate, OneLineOutForEachLineIn) {
  std::string input;
  for (int i = 0; i < 300; ++i) {
    if (i % 7 == 0) input += "\n";
    else if (i % 11 == 0) input += "broken \xff\xfe bytes\n";
    else if (i % 13 == 0) input += std::string("a\0b", 3) + "\r\n";
    else input += "The cat sees " + std::to_string(i) + "\n";
  }
  input += "no newline at the end";
  const CommandResult whole = run("translate model --beam 2 --max-length-a 1 --max-length-b 4", input);
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(lines_of(whole.out), 301);
  expect_parts(whole.err, {"UTF-8"});
  const CommandResult chunks = run("translate model --beam 2 --max-length-a 1 --max-length-b 4 --chunk-lines 17", input);
  EXPECT_EQ(chunks.out, whole.out);  // in order, however it is cut
  std::istringstream lines(whole.out);
  std::string line;
  for (int i = 0; std::getline(lines, line); ++i)
    if (i % 7 == 0 && i < 300) {
      EXPECT_EQ(line, "") << "line " << i << " is empty in the input";
    }
}

TEST_F(Translate, EvaluatesWhatItTranslates) {
  write("src", "The cat sleeps\nI love cats\n"), write("ref", "고양이가 잔다\n나는 고양이를 사랑한다\n");
  const CommandResult direct = run("evaluate model --source src --reference ref --beam 3");
  EXPECT_EQ(direct.code, 0) << direct.err;
  const CommandResult by_hand = run("translate model --beam 3 --input src --output hyp");
  EXPECT_EQ(by_hand.code, 0) << by_hand.err;
  EXPECT_EQ(run("evaluate --hypothesis hyp --reference ref").out, direct.out);
  expect_failure("evaluate model --source src --reference train.ko", "train.ko");
}

TEST_F(Translate, AnInterruptedRunLeavesTheOldFileAsItWas) {
  write("old", "what was there\n");
  // The reader waits for a second line that never comes; the first one is translated by then.
  const CommandResult r = run("--version > /dev/null; { echo 'The cat sleeps'; sleep 3; } | timeout -s INT 1.5 '" +
                              command_path().string() + "' translate model --output old");
  EXPECT_NE(r.code, 0);
  EXPECT_EQ(read("old"), "what was there\n");
  ASSERT_EQ(run("translate model --text 'The cat sleeps' --output old").code, 0);
  EXPECT_EQ(read("old"), run("translate model --text 'The cat sleeps'").out);
  ASSERT_EQ(run("translate model --text 'The cat sleeps' --output /dev/stdout").out, read("old"));
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    EXPECT_EQ(entry.path().filename().string().find(".tmp"), std::string::npos) << entry.path();
}

// The tokens of both sides, and which of the target attends to which of the source.
TEST_F(Translate, AlignmentShowsItsTokens) {
  const CommandResult r = run("translate model --text 'The cat sleeps' --alignment --beam 2");
  EXPECT_EQ(r.code, 0) << r.err;
  std::vector<std::string> columns;
  for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + 5)
    end = r.out.find(" ||| ", at), columns.push_back(r.out.substr(at, end == std::string::npos ? end : end - at));
  ASSERT_EQ(columns.size(), 4U) << r.out;
  const auto words = [](const std::string& text) { return std::count(text.begin(), text.end(), ' ') + 1; };
  EXPECT_EQ(run("tokenize model --no-special", "The cat sleeps\n").out, columns[1].substr(0, columns[1].rfind(' ')) + "\n");
  expect_parts(columns[1], {"</s>"});
  EXPECT_EQ(words(columns[2]), words(columns[3]));  // a pair for each token of the target
  std::istringstream pairs(columns[3]);
  int source = 0, target = 0, expected = 0;
  for (char dash = 0; pairs >> source >> dash >> target; ++expected) {
    EXPECT_EQ(target, expected);
    EXPECT_LT(source, words(columns[1]));
  }
  expect_parts(run("translate --help").out, {"--alignment", "which source token"});
}

TEST_F(Translate, SaysWhatIsWrong) {
  expect_failure("translate nowhere", "nowhere", "x\n");
  expect_failure("translate model --input none", "none");
  expect_failure("translate model --output /proc/none --text x", "/proc/none");
  expect_usage("translate model --beam 0 --text x", "--beam is 0: expected 1 to 1024");
  expect_usage("translate model --beam 99999999999 --text x", "--beam is 99999999999: expected 1 to 1024");
  expect_usage("translate model --min-length 99999999999 --text x", "--min-length is 99999999999: expected 0 to 1048576");
  write("model/model.safetensors", "broken");
  expect_failure("translate model --text x", "model.safetensors");
}

}  // namespace
}  // namespace transformer::test
