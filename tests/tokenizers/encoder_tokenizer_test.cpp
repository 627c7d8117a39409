// Vocabularies for encoders: what is made opens again as a Hugging Face tokenizer, and frames its texts.
#include "transformer/tokenizers/encoder_tokenizer.h"

#include "io/shared/json.h"
#include "support/op_check.h"
#include "support/text_files.h"
#include "toys/corpus.h"

namespace transformer {
namespace {

using test::lines_from;
using test::TextFolder;
using Tokens = std::vector<std::string>;

std::vector<std::string> toy_lines() {
  std::vector<std::string> lines;
  for (const ToyPair& p : ToyCorpus(500).training()) lines.push_back(p.source), lines.push_back(p.target);
  return lines;
}

TEST(EncoderTokenizer, WordsAndCharacters) {
  const auto words = train_encoder_tokenizer(lines_from({"b a a", "a [CLS] c"}), {.subwords = EncoderPieces::whitespace, .vocab_size = 7});
  EXPECT_EQ(words->size(), 7);  // the five special ones, a and b
  EXPECT_EQ(words->tokenize("a b c").ids, (std::vector<std::int32_t>{2, 5, 6, 1, 3}));
  EXPECT_EQ(words->tokenize_pair("a", "b").tokens, Tokens({"[CLS]", "a", "[SEP]", "b", "[SEP]"}));
  EXPECT_EQ(words->tokenize_pair("a", "b").type_ids, (std::vector<std::int32_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(words->decode(words->tokenize("a b").ids), "a b");

  const auto letters = train_encoder_tokenizer(lines_from({"Ab 나", "b"}), {.subwords = EncoderPieces::characters, .lowercase = true});
  EXPECT_EQ(letters->tokenize("BA 나x").tokens, Tokens({"[CLS]", "b", "a", " ", "나", "[UNK]", "[SEP]"}));
  EXPECT_EQ(letters->decode(letters->tokenize("ba 나").ids), "ba 나");
}

// The subwords are those that SentencePiece itself finds, whose model this is.
TEST(EncoderTokenizer, SubwordsAreThoseOfSentencePiece) {
  for (const auto& [pieces, kind] :
       {std::pair{EncoderPieces::bpe, SentencePieceKind::bpe}, {EncoderPieces::unigram, SentencePieceKind::unigram}}) {
    const auto made = train_encoder_tokenizer(lines_from(toy_lines()), {.subwords = pieces, .vocab_size = 401});
    const auto reference = train_sentencepiece(lines_from(toy_lines()), {.kind = kind, .vocab_size = 400, .normalization = "identity"});
    EXPECT_EQ(made->size(), reference->size() + 1);
    for (const char* text : {"The cat caught the mouse", "고양이가 쥐를 잡았다", "a  new\tword", "I didn't buy two books"}) {
      const Encoding encoding = made->tokenize(text, false);
      EXPECT_EQ(encoding.tokens, reference->tokenize(text == std::string_view("a  new\tword") ? "a new word" : text).tokens) << text;
    }
    EXPECT_EQ(made->decode(made->tokenize("The cat caught the mouse").ids), "The cat caught the mouse");
    EXPECT_EQ(made->tokenize("ﬁn").tokens, made->tokenize("fin").tokens);  // NFKC
  }
}

TEST(EncoderTokenizer, OpensAgainFromAModelsFolder) {
  const TextFolder folder;
  const auto made = train_encoder_tokenizer(lines_from(toy_lines()), {.vocab_size = 400});
  made->save_into(folder.path());
  write_json(folder.path() / "tokenizer_config.json", encoder_tokenizer_config(128, true));
  write_json(folder.path() / "config.json", {{"model_type", "bert"}});
  const auto again = load_tokenizer(folder.path());
  EXPECT_EQ(again->tokenize("The cat caught 쥐를").ids, made->tokenize("The cat caught 쥐를").ids);
  const SpecialTokens& s = again->special_tokens();
  EXPECT_EQ(std::tie(s.pad, s.unk, s.cls, s.sep, s.mask), std::make_tuple(0, 1, 2, 3, 4));
  for (std::int32_t id = 0; id < 7; ++id) EXPECT_EQ(again->is_special(id), id < 5) << id;
}

TEST(EncoderTokenizer, Refusals) {
  test::expect_error([] { train_encoder_tokenizer(lines_from({"a"}), {.vocab_size = 5}); }, {"vocab_size is 5"});
  for (const EncoderPieces kind : {EncoderPieces::bpe, EncoderPieces::unigram, EncoderPieces::whitespace, EncoderPieces::characters})
    EXPECT_THROW(train_encoder_tokenizer(lines_from({}), {.subwords = kind}), Error);
}

// Errors speak of the size that was asked for, and what they ask for is enough.
TEST(EncoderTokenizer, SaysHowLargeItMustBe) {
  for (const EncoderPieces kind : {EncoderPieces::bpe, EncoderPieces::unigram}) {
    const auto make = [&](std::int64_t size) {
      return train_encoder_tokenizer(lines_from(toy_lines()), {.subwords = kind, .vocab_size = size});
    };
    const std::int64_t least = test::number_in_error([&] { make(15); },
                                                     "vocab_size is 15, too small for the characters of this text: at least ");
    EXPECT_THROW(make(least - 1), Error);
    EXPECT_EQ(make(least)->size(), least);
  }
}

}  // namespace
}  // namespace transformer
