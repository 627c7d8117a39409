// The command as its user meets it: exit codes, messages, and what goes in and comes out.
#include "cli/command.h"
#include "support/op_check.h"

namespace transformer::test {
namespace {

TEST_F(Command, HelpAndVersionSucceed) {
  EXPECT_EQ(run("--version").code, 0);
  for (const char* verb : {"", "inspect ", "tokenize ", "tokenize train ", "evaluate "}) {
    const CommandResult r = run(std::string(verb) + "--help");
    EXPECT_EQ(r.code, 0) << verb;
    expect_parts(r.out, {"Usage: transformer"});
    EXPECT_EQ(r.err, "");
  }
}

TEST_F(Command, WrongUsageIsCodeTwoAndNamesTheNearest) {
  expect_usage("", "required");
  expect_usage("inspekt", "unexpected 'inspekt'; did you mean 'inspect'?");
  expect_usage("inspect --d-modle 64", "unexpected '--d-modle'; did you mean '--d-model'?");
  expect_usage("inspect --d-modle=64", "did you mean '--d-model'?");
  expect_usage("inspect --dump-config --d-modle=64", "did you mean '--d-model'?");
  expect_usage("inspect --d-model wide", "'--d-model': expected an integer, got \"wide\"");
  expect_usage("inspect --d-model 1.5", "expected an integer");
  expect_usage("inspect --dropout nan", "expected a number");
  expect_usage("inspect --activation rel", "did you mean 'relu'?");
  expect_usage("inspect --preset bsae", "'bsae' is not one of tiny, small, base, big; did you mean 'base'?");
  expect_usage("inspect --tie-output=perhaps", "tie-output");
  expect_usage("tokenize", "MODEL is required");
  expect_usage("tokenize train", "--input is required");
  expect_usage("evaluate", "--reference is required");
}

TEST_F(Command, FlagsWinOverTheFileAndTheFileOverThePreset) {
  write("c.toml", "d-model = 64  # as a flag is written\nnum_heads = 2\n");
  const CommandResult r = run("inspect --num-heads 16 --config c.toml --preset tiny --dump-config");
  EXPECT_EQ(r.code, 0) << r.err;
  expect_parts(r.out, {"num_heads = 16\n", "d_model = 64\n", "d_ff = 256\n", "\ndropout = 0.3\n", "max_len = 5000\n"});

  write("p.toml", "preset = \"tiny\"\nd_ff = 77\n");
  expect_parts(run("inspect --config p.toml --dump-config").out, {"d_model = 128\n", "d_ff = 77\n"});
  expect_parts(run("inspect --preset big --config p.toml --dump-config").out, {"d_model = 1024\n", "d_ff = 77\n"});
}

TEST_F(Command, ATableOfTheFileIsTheBeginningOfANamesFlags) {
  write("c.toml", "[chrf]\nword-order = 2\n[words]\nmin_count = 7\n");
  expect_failure("evaluate --config c.toml --reference x", "unknown key 'words_min_count'");
  write("c.toml", "[chrf]\nword-order = 2\n");
  expect_parts(run("evaluate --config c.toml --dump-config").out, {"chrf_word_order = 2\n"});
}

TEST_F(Command, DumpedSettingsComeBack) {
  const std::string flags = "--preset big --tie-output --no-scale-embedding --norm-eps 1e-7 --positions rotary --num-decoder-layers -1 ";
  const CommandResult r = run("inspect " + flags + "--dump-config a.toml");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out, "");
  expect_parts(read("a.toml"), {"tie_output = true\n", "scale_embedding = false\n"});
  EXPECT_EQ(run("inspect --config a.toml --dump-config").out, read("a.toml"));

  // Lists, and fields without a value.
  const std::string lists = "evaluate --reference 'a b' \"it's\" c,d --chrf --chrf-word-order 2 --tokenize intl ";
  const std::string dumped = run(lists + "--dump-config").out;
  expect_parts(dumped, {"\"a b\"", "\"it's\"", "\"c,d\"", "smooth_value = \"none\"\n"});
  write("e.toml", dumped);
  EXPECT_EQ(run("evaluate --config e.toml --dump-config").out, dumped);
  expect_parts(run("evaluate --smooth-value 0.25 --smooth-value none --dump-config").out, {"smooth_value = \"none\"\n"});
  expect_parts(run("evaluate --smooth-value none --smooth-value 0.25 --dump-config").out, {"smooth_value = 0.25\n"});
  expect_parts(run("evaluate --reference a --reference b --dump-config").out, {"[\"a\", \"b\"]"});
}

TEST_F(Command, SwitchesTakeAValueOrNone) {
  const auto lowercase = [&](const std::string& flags) { return run("evaluate " + flags + " --dump-config").out; };
  for (const char* on : {"--lowercase", "--lowercase true", "--lowercase=true", "--no-lowercase=false"})
    expect_parts(lowercase(on), {"\nlowercase = true\n"});
  for (const char* off : {"", "--no-lowercase", "--lowercase false", "--lowercase=false"})
    expect_parts(lowercase(off), {"\nlowercase = false\n"});
}

TEST_F(Command, WrongFilesOfSettingsAreErrors) {
  expect_failure("inspect --config none.toml", "none.toml");
  write("c.toml", "d_modle = 64\n");
  expect_failure("inspect --config c.toml", "c.toml: unknown key 'd_modle'; did you mean 'd_model'?");
  write("c.toml", "d_model = \"wide\"\n");
  expect_failure("inspect --config c.toml", "c.toml: key 'd_model': expected an integer, got \"wide\"");
  write("c.toml", "preset = \"tny\"\n");
  expect_failure("inspect --config c.toml", "did you mean 'tiny'?");
  write("c.toml", "[d_model]\nx = 1\n");
  expect_failure("inspect --config c.toml", "unknown key 'd_model_x'");
  expect_failure("inspect --dump-config no/such/folder/c.toml", "no/such/folder");
}

TEST_F(Command, InspectReadsAFolder) {
  std::filesystem::create_directory(folder_ / "model");
  write("model/config.json", R"({"model_type": "transformer", "d_model": 64, "num_heads": 4, "d_ff": 128, "num_layers": 2})");
  expect_parts(run("inspect model --d-ff 99 --dump-config").out, {"d_model = 64\n", "d_ff = 99\n"});
  const CommandResult table = run("inspect model");
  EXPECT_EQ(table.code, 0) << table.err;
  expect_parts(table.out, {"encoder self-attention", "feed-forward: ", "FLOPs", "memory"});
  expect_failure("inspect nowhere", "nowhere");
}

// The base model of the paper: 63 million parameters with 37,000 words; two thirds of its layers are feed-forward or nearly so.
TEST_F(Command, InspectCountsTheBaseModel) {
  const CommandResult r = run("inspect --preset base --src-vocab-size 37000");
  expect_parts(r.out, {"18944000", "63082496"});  // 37000·512, and with the layers' 44 138 496
}

TEST_F(Command, TokenizeGoesThereAndBack) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the cat caught the mouse\n나는 학교에 간다\nI love cats\n";
  write("text", text);
  const CommandResult trained = run("tokenize train --input text --vocab-size 60 --out t.model");
  EXPECT_EQ(trained.code, 0) << trained.err;
  expect_parts(trained.out, {"t.model: sentencepiece tokenizer of "});

  const std::string lines = "the mouse caught the cat\n\n나는 학교에 간다\n";
  const CommandResult pieces = run("tokenize t.model", lines), ids = run("tokenize --ids t.model", lines);
  expect_parts(pieces.out, {"▁the"});
  EXPECT_EQ(ids.out.find_first_not_of("0123456789 \n"), std::string::npos) << ids.out;
  EXPECT_EQ(run("tokenize t.model --decode", pieces.out).out, lines);
  EXPECT_EQ(run("tokenize t.model --decode --ids", ids.out).out, lines);
  EXPECT_EQ(run("tokenize t.model", "caf\xe9\n").code, 0);
  expect_parts(run("tokenize t.model", "caf\xe9\n").err, {"not UTF-8"});
  expect_failure("tokenize t.model --decode --ids", "line 2: 'x'", "5\nx\n");
  expect_failure("tokenize t.model --decode --ids", "100000", "100000\n");
  expect_failure("tokenize none.model", "none.model");
  expect_failure("tokenize train --input nothing", "nothing");
  expect_usage("tokenize t.model --ids --pieces", "exclude each other");

  EXPECT_EQ(run("tokenize train --input text --words --out vocab.txt").code, 0);
  EXPECT_EQ(run("tokenize vocab.txt", "the cat\n").out, "the cat\n");

  // A folder as a model has it, with one tokenizer and with two.
  std::filesystem::create_directory(folder_ / "model");
  std::filesystem::copy(folder_ / "t.model", folder_ / "model/tokenizer.model");
  EXPECT_EQ(run("tokenize model --side target", lines).out, pieces.out);
}

TEST_F(Command, EvaluateComparesFiles) {
  write("ref", "the cat sat on the mat\nhello there general\n");
  const CommandResult same = run("evaluate --reference ref --chrf", read("ref"));
  EXPECT_EQ(same.code, 0) << same.err;
  expect_parts(same.out, {"BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:", " = 100.00 ", "\nchrF2|"});
  write("hyp", "The cat sat on a mat\nhello there general\n");
  const CommandResult lower = run("evaluate --hypothesis hyp --reference ref ref --lowercase --tokenize char");
  expect_parts(lower.out, {"nrefs:2|case:lc", "tok:char"});
  EXPECT_EQ(lower.out.find("chrF"), std::string::npos);

  expect_failure("evaluate --reference ref", "ref: has 2 lines, but standard input has 1", "one\n");
  expect_failure("evaluate --reference nothing", "nothing", "one\n");
  write("empty", "");
  expect_failure("evaluate --hypothesis empty --reference empty", "no lines");
}

TEST_F(Command, AClosedPipeEndsQuietly) {
  write("text", "a b\n");
  ASSERT_EQ(run("tokenize train --input text --words --out v.txt").code, 0);
  std::string many;
  for (int i = 0; i < 100000; ++i) many += "a b a b\n";
  const CommandResult r = run("tokenize v.txt", many, "| head -n 1");
  EXPECT_EQ(r.out, "a b a b\n");
  EXPECT_EQ(r.err, "");
}

TEST_F(Command, AFullDiskIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP();
  write("text", "a b\n");
  ASSERT_EQ(run("tokenize train --input text --words --out v.txt").code, 0);
  const CommandResult r = run("tokenize v.txt > /dev/full", "a b\n");
  EXPECT_EQ(r.code, 1);
  expect_parts(r.err, {"standard output"});
}

// Products of bfloat16 are faster where the processor has instructions for them, and slower elsewhere.
TEST_F(Command, DemoComputesWithWhatIsFast) {
  NOT_ON_A_GPU("it is asked what the processor does best");
  const auto precision = [&] {
    const std::string help = run("demo --help").out;
    const std::size_t at = help.find("--precision float32|bfloat16=");
    return at == std::string::npos ? help : help.substr(at + 29, help.find('\n', at) - at - 29);
  };
#if defined(__x86_64__)
  EXPECT_EQ(precision(), __builtin_cpu_supports("avx512bf16") != 0 ? "bfloat16" : "float32");
#endif
  ::setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);  // a processor with less
  EXPECT_EQ(precision(), "float32");
  ::unsetenv("ONEDNN_MAX_CPU_ISA");
}

}  // namespace
}  // namespace transformer::test
