#include "transformer/text/bleu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "io/shared/json.h"
#include "support/golden.h"
#include "support/op_check.h"
#include "support/paths.h"
#include "transformer/text/chrf.h"

namespace transformer::test {
namespace {

using Lines = std::vector<std::string>;
using Streams = std::vector<Lines>;

constexpr double tolerance = 1e-6;

// What sacreBLEU gives, from golden/bleu/make_cases.py; our own cases where the folder of the others has none.
const nlohmann::json& golden_sets() {
  static const nlohmann::json cases = [] {
    const std::filesystem::path there = golden_root() / "bleu/cases.json", here = test::source_folder() / "tests/golden/bleu/cases.json";
    return read_json(std::filesystem::exists(there) ? there : here);
  }();
  return cases.at("sets");
}

// "a|b|version:x" without the version.
std::string without_version(const std::string& signature) { return signature.substr(0, signature.rfind('|')); }

// The i-th line of every stream.
Lines references_of(const Streams& streams, std::size_t line) {
  Lines out;
  for (const Lines& stream : streams) out.push_back(stream.at(line));
  return out;
}

TEST(Bleu, WordsAsSacreBleu) {
  for (const auto& set : golden_sets()) {
    const Lines lines = set.at("hypotheses");
    for (const auto& [key, expected] : set.at("tokens").items()) {
      const bool lowercase = key.ends_with("-lc");
      BleuOptions options;
      from_json({{"tokenize", lowercase ? key.substr(0, key.size() - 3) : key}, {"lowercase", lowercase}}, options);
      for (std::size_t i = 0; i < lines.size(); ++i)
        EXPECT_EQ(bleu_words(lines[i], options), expected.at(i).get<Lines>()) << set.at("name") << ' ' << key << " line " << i;
    }
  }
}

TEST(Bleu, ScoresAsSacreBleu) {
  int compared = 0;
  for (const auto& set : golden_sets()) {
    const Lines hypotheses = set.at("hypotheses");
    const Streams references = set.at("references");
    const auto nrefs = static_cast<std::int64_t>(references.size());
    for (const auto& want : set.at("bleu")) {
      SCOPED_TRACE(set.at("name").dump() + " " + want.at("options").dump());
      BleuOptions options;
      from_json(want.at("options"), options);
      const BleuScore got = corpus_bleu(hypotheses, references, options);
      EXPECT_NEAR(got.score, want.at("score").get<double>(), tolerance);
      for (std::size_t n = 0; n < 4; ++n)
        EXPECT_NEAR(got.precisions[n], want.at("precisions")[n].get<double>(), tolerance) << n + 1 << "-grams";
      EXPECT_NEAR(got.brevity_penalty, want.at("bp").get<double>(), tolerance);
      EXPECT_EQ(got.hypothesis_length, want.at("lengths")[0]);
      EXPECT_EQ(got.reference_length, want.at("lengths")[1]);
      EXPECT_EQ(without_version(signature(options, nrefs)), want.at("signature").get<std::string>());
      if (want.contains("line")) {
        EXPECT_EQ(describe(got, options, nrefs), "BLEU|" + signature(options, nrefs) + " = " + want.at("line").get<std::string>());
      }
      if (want.contains("sentences")) {
        for (std::size_t i = 0; i < hypotheses.size(); ++i)
          EXPECT_NEAR(sentence_bleu(hypotheses[i], references_of(references, i), options), want.at("sentences")[i].get<double>(), tolerance)
              << "line " << i;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 500);
}

TEST(Chrf, ScoresAsSacreBleu) {
  int compared = 0;
  for (const auto& set : golden_sets()) {
    const Lines hypotheses = set.at("hypotheses");
    const Streams references = set.at("references");
    const auto nrefs = static_cast<std::int64_t>(references.size());
    for (const auto& want : set.at("chrf")) {
      SCOPED_TRACE(set.at("name").dump() + " " + want.at("options").dump());
      ChrfOptions options;
      from_json(want.at("options"), options);
      const double got = corpus_chrf(hypotheses, references, options);
      EXPECT_NEAR(got, want.at("score").get<double>(), tolerance);
      EXPECT_EQ(without_version(signature(options, nrefs)), want.at("signature").get<std::string>());
      EXPECT_EQ(describe_chrf(got, options, nrefs).substr(0, want.at("name").get<std::string>().size() + 1),
                want.at("name").get<std::string>() + "|");
      if (want.contains("sentences")) {
        for (std::size_t i = 0; i < hypotheses.size(); ++i)
          EXPECT_NEAR(sentence_chrf(hypotheses[i], references_of(references, i), options), want.at("sentences")[i].get<double>(), tolerance)
              << "line " << i;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 200);
}

TEST(Bleu, ByHand) {
  // 6 of 7 words, 5 of 6 pairs, 4 of 5 triples and 3 of 4 quadruples are in the reference.
  const Lines hypothesis = {"the cat sat on the mat ."};
  const BleuScore s = corpus_bleu(hypothesis, Streams{{"a cat sat on the mat ."}});
  EXPECT_EQ(s.matches, (std::array<std::int64_t, 4>{6, 5, 4, 3}));
  EXPECT_EQ(s.totals, (std::array<std::int64_t, 4>{7, 6, 5, 4}));
  EXPECT_NEAR(s.score, 100.0 * std::pow(6.0 / 7 * 5 / 6 * 4 / 5 * 3 / 4, 0.25), 1e-9);
  EXPECT_EQ(s.brevity_penalty, 1.0);
  EXPECT_NEAR(corpus_bleu(hypothesis, Streams{hypothesis}).score, 100.0, 1e-9);
  EXPECT_NEAR(corpus_bleu(Lines{"a b c d"}, Streams{{"a b c d e"}}).brevity_penalty, std::exp(-0.25), 1e-12);
}

TEST(Bleu, OrderMattersInKorean) {
  EXPECT_LT(sentence_bleu("고양이가 쥐를 잡았다", Lines{"쥐가 고양이를 잡았다"}), 50.0);
  EXPECT_NEAR(sentence_bleu("고양이가 쥐를 잡았다", Lines{"고양이가 쥐를 잡았다"}), 100.0, 1e-9);
}

TEST(Bleu, Signature) {
  EXPECT_TRUE(signature(BleuOptions{}).starts_with("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:transformer.cpp-"))
      << signature(BleuOptions{});
  EXPECT_TRUE(signature(BleuOptions{.lowercase = true, .smoothing = BleuSmoothing::floor}, 3)
                  .starts_with("nrefs:3|case:lc|eff:no|tok:13a|smooth:floor[0.10]|"));
  EXPECT_TRUE(
      signature(ChrfOptions{.word_order = 2}).starts_with("nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:transformer.cpp-"));
  EXPECT_TRUE(describe_chrf(12.345, {.word_order = 2}).starts_with("chrF2++|")) << describe_chrf(12.345, {.word_order = 2});
  EXPECT_TRUE(describe_chrf(12.345, {}).ends_with(" = 12.35") || describe_chrf(12.345, {}).ends_with(" = 12.34"));
}

TEST(Bleu, HostileText) {
  // Bad UTF-8, NUL bytes and very long lines are scored, not refused.
  const std::string bad = "caf\xC3 \xFF\xFE \xED\xA0\x80 \xF0\x9F\x98 end", nul("a\0b c\0", 6);
  const std::string longest(1 << 18, 'x');
  std::string many;
  for (int i = 0; i < 20000; ++i) many += std::to_string(i % 1000) + " .";
  const Lines hypotheses = {bad, nul, longest, many};
  for (const auto tokenizer : {BleuTokenizer::v13a, BleuTokenizer::none, BleuTokenizer::character, BleuTokenizer::intl}) {
    const BleuOptions options{.tokenizer = tokenizer, .lowercase = true};
    EXPECT_NEAR(corpus_bleu(hypotheses, Streams{hypotheses}, options).score, 100.0, 1e-9);
  }
  EXPECT_NEAR(corpus_chrf(Lines{bad, nul}, Streams{{bad, nul}}, {.word_order = 2, .lowercase = true}), 100.0, 1e-9);
  EXPECT_EQ(bleu_words(bad, {.tokenizer = BleuTokenizer::none}).front(), "caf\xEF\xBF\xBD");
}

TEST(Bleu, NamesWhatIsWrong) {
  expect_error([] { corpus_bleu(Lines{}, Streams{{}}); }, {"bleu", "no hypotheses"});
  expect_error([] { corpus_bleu(Lines{"a"}, Streams{}); }, {"bleu", "no references"});
  expect_error(
      [] {
    corpus_bleu(Lines{"a", "b"}, Streams{{"a", "b"}, {"a"}});
      },
      {"bleu", "reference stream 2 has 1 lines", "the hypotheses have 2"});
  expect_error([] { corpus_bleu(Lines{"a"}, Streams{{"a"}}, {.smoothing = BleuSmoothing::floor, .smooth_value = -1.0}); },
               {"smooth_value is -1"});
  expect_error([] { corpus_chrf(Lines{"a"}, Streams{{"a", "b"}}); }, {"chrf", "reference stream 1 has 2 lines"});
  expect_error([] { corpus_chrf(Lines{"a"}, Streams{{"a"}}, {.char_order = 0}); }, {"chrf", "char_order is 0"});
  expect_error([] { corpus_chrf(Lines{"a"}, Streams{{"a"}}, {.beta = 0}); }, {"chrf", "beta is 0"});
  BleuOptions options;
  expect_error([&] { from_json({{"tokenize", "13b"}}, options); }, {"tokenize", "13b", "13a"});
}

}  // namespace
}  // namespace transformer::test
