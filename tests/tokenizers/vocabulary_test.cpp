#include "transformer/tokenizers/vocabulary.h"

#include "support/op_check.h"
#include "support/text_files.h"

namespace transformer::test {
namespace {

const std::string poem =
    "O, what a  rogue and\n\n peasant slave am I!\n\tIs it not monstrous — \"élan\" 나는 학교에 간다 🙂\r\n";

// Enough of it that subwords are learned.
std::vector<std::string> repeated() { return std::vector<std::string>(50, poem + "<0x0A> is such, there\n"); }

TokenizerPtr vocabulary(VocabularyKind kind) { return make_vocabulary(lines_from(repeated()), {.kind = kind, .vocab_size = 400}); }

const std::vector<VocabularyKind> kinds{VocabularyKind::characters, VocabularyKind::bytes, VocabularyKind::bpe, VocabularyKind::unigram};

}  // namespace

TEST(Vocabulary, TextComesBackAsItWas) {
  for (const VocabularyKind kind : kinds) {
    const TokenizerPtr tokenizer = vocabulary(kind);
    for (const std::string& text :
         {poem, std::string("  two  lines,\n\n\nthree  slaves "), std::string("\n"), std::string(" "), poem + poem}) {
      const std::vector<std::int32_t> ids = tokenizer->encode(text);
      EXPECT_EQ(tokenizer->decode(ids), text);
      for (const std::int32_t id : ids) EXPECT_NE(id, tokenizer->unk());
    }
    EXPECT_EQ(tokenizer->piece(document_token(*tokenizer)), end_of_text);
    EXPECT_EQ(tokenizer->bos(), tokenizer->eos());
  }
}

// Text that looks like the marks and the bytes of the vocabulary's own tokens, and whose characters it may never have seen.
TEST(Vocabulary, TextThatLooksLikeTokensComesBackToo) {
  for (const VocabularyKind kind : {VocabularyKind::bytes, VocabularyKind::bpe, VocabularyKind::unigram})
    for (const std::string& seen : {std::string("a few words, and more of them\n"), std::string("▁a ▁ few <0x41> words\n")}) {
      const TokenizerPtr tokenizer = make_vocabulary(lines_from(std::vector<std::string>(30, seen)), {.kind = kind, .vocab_size = 320});
      for (const char* text : {"▁", " ▁a▁▁ few▁", "<0x41>", "a<0xE2><0x96><0x81> <0x0A>", "<0x4", "0x41>", "▁<0x20>▁ "})
        EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << static_cast<int>(kind) << " " << seen;
    }
}

// The file alone is the tokenizer.
TEST(Vocabulary, IsSavedAsATokenizerJson) {
  for (const VocabularyKind kind : kinds) {
    const TextFolder folder;
    const TokenizerPtr made = vocabulary(kind);
    made->save_into(folder.path());
    const TokenizerPtr again = load_tokenizer(folder / "tokenizer.json");
    EXPECT_EQ(again->size(), made->size());
    EXPECT_EQ(again->encode(poem), made->encode(poem));
    EXPECT_EQ(again->eos(), made->eos());
  }
}

TEST(Vocabulary, CharactersAreSortedAndOthersUnknown) {
  const TokenizerPtr tokenizer = make_vocabulary(lines_from({"cab\n", "한 글"}), {.kind = VocabularyKind::characters});
  EXPECT_EQ(tokenizer->size(), 7 + 2);  // "\n", " ", a, b, c, 글, 한; <unk>, <|endoftext|>
  EXPECT_EQ(tokenizer->encode("\n abc글한"), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tokenizer->encode("xa가"), (std::vector<std::int32_t>{7, 2, 7}));
  EXPECT_EQ(tokenizer->unk(), 7);
  expect_error([] { make_vocabulary(lines_from({}), {.kind = VocabularyKind::characters}); }, {"there is no text"});
}

TEST(Vocabulary, BytesAreTheirOwnIds) {
  const TokenizerPtr tokenizer = make_vocabulary({}, {.kind = VocabularyKind::bytes});
  EXPECT_EQ(tokenizer->size(), 257);
  const std::string text = poem + std::string(1, '\0') + "\x7F\u00AD\U0010FFFF";
  std::vector<std::int32_t> expected;
  for (const char c : text) expected.push_back(static_cast<unsigned char>(c));
  EXPECT_EQ(tokenizer->encode(text), expected);
  EXPECT_EQ(tokenizer->decode(expected), text);
}

TEST(Vocabulary, SubwordsAreLearnedAndTheRestIsSpelledInBytes) {
  for (const VocabularyKind kind : {VocabularyKind::bpe, VocabularyKind::unigram}) {
    const TokenizerPtr tokenizer = vocabulary(kind);
    EXPECT_LE(tokenizer->size(), 400);
    EXPECT_GT(tokenizer->size(), 2 + 256 + 30);
    EXPECT_LT(tokenizer->encode(poem).size(), vocabulary(VocabularyKind::characters)->encode(poem).size());
    EXPECT_EQ(tokenizer->encode("\n"), std::vector<std::int32_t>{tokenizer->id("<0x0A>")});
    EXPECT_EQ(tokenizer->encode("中"),
              (std::vector<std::int32_t>{tokenizer->id("<0xE4>"), tokenizer->id("<0xB8>"), tokenizer->id("<0xAD>")}));
  }
  const TokenizerPtr bpe = vocabulary(VocabularyKind::bpe);
  EXPECT_EQ(bpe->encode(" slave"), std::vector<std::int32_t>{bpe->id(" slave")});
  EXPECT_EQ(bpe->decode(bpe->encode("<0x0A> is such")), "<0x0A> is such");
}

// Errors speak of the size that was asked for, and what they ask for is enough.
TEST(Vocabulary, SaysHowLargeItMustBe) {
  for (const VocabularyKind kind : {VocabularyKind::bpe, VocabularyKind::unigram}) {
    const auto make = [&](std::int64_t size) { return make_vocabulary(lines_from(repeated()), {.kind = kind, .vocab_size = size}); };
    expect_error([&] { make(10); }, {"vocab_size is 10", "between 259 and"});
    const std::int64_t least = number_in_error([&] { make(270); },
                                               "vocab_size is 270, too small for the characters of this text: at least ");
    EXPECT_THROW(make(least - 1), Error);
    EXPECT_LE(make(least)->size(), least);
  }
}

}  // namespace transformer::test
