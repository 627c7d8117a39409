// Words, the tokens that stand for them, and the names that their tags make up.
#include "text/shared/words.h"

#include <gtest/gtest.h>

#include "support/text_files.h"
#include "text/shared/entities.h"
#include "transformer/tokenizers/encoder_tokenizer.h"

namespace transformer {
namespace {

using Strings = std::vector<std::string>;

Strings words(const std::string& text) {
  Strings out;
  for (const TokenPlace& p : split_words(text))
    out.push_back(text.substr(static_cast<std::size_t>(p.begin), static_cast<std::size_t>(p.end - p.begin)));
  return out;
}

TEST(Words, PunctuationAtTheEdgesIsApart) {
  EXPECT_EQ(words("Peter lives in Rome."), Strings({"Peter", "lives", "in", "Rome", "."}));
  EXPECT_EQ(words("(U.N.) don't,  \t\"F-16\""), Strings({"(", "U.N", ".", ")", "don't", ",", "\"", "F-16", "\""}));
  EXPECT_EQ(words("...\n나는 «학교»에"), Strings({".", ".", ".", "나는", "«", "학교»에"}));
  EXPECT_EQ(words("东京abc塔"), Strings({"东", "京", "abc", "塔"}));
  EXPECT_EQ(words(" \t "), Strings());
}

TEST(Words, TheFirstTokenStandsForAWord) {
  const Strings list{"ab", "c d", "e"};
  const JoinedWords joined = join_words(list);
  EXPECT_EQ(joined.text, "ab c d e");
  EXPECT_EQ(joined.places, (std::vector<TokenPlace>{{0, 2}, {3, 6}, {7, 8}}));
  const std::vector<TokenPlace> tokens{{0, 0}, {0, 1}, {1, 2}, {2, 3}, {2, 4}, {4, 5}, {5, 6}, {0, 0}};  // [CLS] a b _ _c _ d [SEP]
  EXPECT_EQ(first_tokens(tokens, joined.places), (std::vector<std::int64_t>{1, 4, -1}));
  EXPECT_EQ(first_tokens(std::vector<TokenPlace>{{0, 5}, {5, 8}}, joined.places), (std::vector<std::int64_t>{0, 1, -1}))
      << "across words: of the first";
}

// Whatever the pieces are: every word has a token, and the tokens are in the order of the words.
TEST(Words, EveryKindOfTokenizer) {
  const Strings list{"lower", "newer", "나는", "low", "(", "wider"};
  const JoinedWords joined = join_words(list);
  for (const EncoderPieces kind : {EncoderPieces::bpe, EncoderPieces::unigram, EncoderPieces::whitespace, EncoderPieces::characters}) {
    const TokenizerPtr tokenizer = train_encoder_tokenizer(test::lines_from({joined.text, joined.text}),
                                                           {.subwords = kind, .vocab_size = 40});
    const Encoding e = tokenizer->tokenize(joined.text);
    const std::vector<std::int64_t> first = first_tokens(e.places, joined.places);
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_GT(first[i], i == 0 ? 0 : first[i - 1]) << list[i] << " " << static_cast<int>(kind);
      EXPECT_LE(e.places[static_cast<std::size_t>(first[i])].begin, joined.places[i].begin);
      EXPECT_GT(e.places[static_cast<std::size_t>(first[i])].end, joined.places[i].begin);
    }
  }
}

std::string entities(const Strings& tags) {
  std::string out;
  for (const Entity& e : entities_of(tags)) out += fmt::format("{}{}-{} ", e.type, e.begin, e.end);
  return out;
}

// The schemes that seqeval reads without being told which it is.
TEST(Entities, OfEveryScheme) {
  EXPECT_EQ(entities({"B-PER", "I-PER", "O", "B-LOC", "B-LOC"}), "PER0-2 LOC3-4 LOC4-5 ");
  EXPECT_EQ(entities({"I-PER", "I-PER", "I-LOC", "O", "I-LOC"}), "PER0-2 LOC2-3 LOC4-5 ") << "IOB1";
  EXPECT_EQ(entities({"B-PER", "I-LOC"}), "PER0-1 LOC1-2 ") << "another type begins anew";
  EXPECT_EQ(entities({"B-X", "I-X", "E-X", "S-Y", "I-Y", "E-X"}), "X0-3 Y3-4 Y4-5 X5-6 ") << "IOBES";
  EXPECT_EQ(entities({"B-X", "L-X", "U-X", "O", "L-X"}), "X0-2 X2-3 X4-5 ") << "BILOU";
  EXPECT_EQ(entities({"PER", "PER", "O", "LOC"}), "PER0-2 LOC3-4 ") << "types alone";
  EXPECT_EQ(entities({}), "");
  EXPECT_TRUE(marks_entities({"B-X", "O"}));
  EXPECT_FALSE(marks_entities({"NOUN", "VERB"}));
}

}  // namespace
}  // namespace transformer
