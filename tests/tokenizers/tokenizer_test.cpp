#include "transformer/tokenizers/tokenizer.h"

#include <sys/resource.h>

#include <csignal>
#include <numeric>

#include "support/op_check.h"
#include "support/text_files.h"

namespace transformer {
namespace {

using test::lines_from;
using test::TextFolder;
using Ids = std::vector<std::int32_t>;

// A few hundred sentences in two languages.
std::vector<std::string> corpus() {
  using Words = std::vector<const char*>;
  const std::vector<Words> english = {
      {"I", "The cat", "A student", "My friend", "The teacher", "Everybody", "The doctor", "Her brother", "The children"},
      {"likes", "remembers", "bought", "forgot", "painted", "described", "wanted", "carried", "watched", "repaired"},
      {"books.", "the mouse.", "3 apples.", "Transformers!", "a beautiful house.", "the mountains?", "music.", "an old bicycle."}};
  const std::vector<Words> korean = {
      {"나는", "고양이가", "학생이", "내 친구는", "선생님이", "모두가", "의사가", "그녀의 동생은", "아이들은"},
      {"책을", "쥐를", "사과 3개를", "Transformer를", "아름다운 집을", "산을", "음악을", "오래된 자전거를", "학교에서 그림을",
       "도서관에서 편지를"},
      {"좋아한다.", "기억했다.", "샀다.", "잊었다!", "그렸다.", "설명했다.", "원했다?", "보았다."}};
  std::vector<std::string> lines;
  for (const auto& words : {english, korean})
    for (std::size_t i = 0; i < 360; ++i) lines.push_back(fmt::format("{} {} {}", words[0][i % 9], words[1][i % 10], words[2][i / 3 % 8]));
  return lines;
}

TokenizerPtr trained(SentencePieceKind kind, bool byte_fallback = false) {
  return train_sentencepiece(lines_from(corpus()), {.kind = kind, .vocab_size = byte_fallback ? 550 : 250, .byte_fallback = byte_fallback});
}

constexpr SentencePieceKind kinds[] = {SentencePieceKind::unigram, SentencePieceKind::bpe};

void expect_same(const Tokenizer& a, const Tokenizer& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(a.kind(), b.kind());
  for (std::int32_t id = 0; id < a.size(); ++id) EXPECT_EQ(a.piece(id), b.piece(id));
  for (const std::string& line : corpus()) EXPECT_EQ(a.encode(line), b.encode(line));
}

TEST(SentencePiece, RoundTripsItsText) {
  for (const SentencePieceKind kind : kinds) {
    const TokenizerPtr tokenizer = trained(kind);
    EXPECT_EQ(tokenizer->kind(), "sentencepiece");
    EXPECT_LE(tokenizer->size(), 250);
    std::int64_t tokens = 0, characters = 0;
    for (const std::string& line : corpus()) {
      const Ids ids = tokenizer->encode(line);
      EXPECT_EQ(tokenizer->decode(ids), line);
      tokens += std::ssize(ids);
      characters += std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
      for (const std::int32_t id : ids) EXPECT_GT(id, 3) << line;
    }
    EXPECT_LT(tokens, kind == SentencePieceKind::bpe ? characters / 2 : characters) << "pieces are longer than characters";
    EXPECT_EQ(tokenizer->encode(""), Ids());
    EXPECT_EQ(tokenizer->encode(" \t "), Ids());
    EXPECT_EQ(tokenizer->decode({}), "");
  }
}

TEST(SentencePiece, SpecialTokens) {
  const TokenizerPtr tokenizer = trained(SentencePieceKind::unigram);
  EXPECT_EQ(tokenizer->pad(), 0);
  EXPECT_EQ(tokenizer->unk(), 1);
  EXPECT_EQ(tokenizer->bos(), 2);
  EXPECT_EQ(tokenizer->eos(), 3);
  const std::vector<std::string> pieces = {"<pad>", "<unk>", "<s>", "</s>"};
  for (std::int32_t id = 0; id < 4; ++id) {
    EXPECT_EQ(tokenizer->piece(id), pieces[static_cast<std::size_t>(id)]);
    EXPECT_EQ(tokenizer->id(pieces[static_cast<std::size_t>(id)]), id);
  }
  for (std::int32_t id = 4; id < tokenizer->size(); ++id) EXPECT_EQ(tokenizer->id(tokenizer->piece(id)), id);
  EXPECT_EQ(tokenizer->id("no such piece"), 1);

  Ids framed = {2};
  for (const std::int32_t id : tokenizer->encode("나는 책을 좋아한다.")) framed.push_back(id);
  framed.insert(framed.end(), {3, 0, 0});
  EXPECT_EQ(tokenizer->decode(framed), "나는 책을 좋아한다.");
  for (const std::int32_t id : tokenizer->encode("<s> the </s> cat <pad>"))
    EXPECT_TRUE(id == 1 || id > 3) << "text makes no special tokens";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("나는 龜")), "나는  ⁇ ");

  test::expect_error([&] { tokenizer->decode(Ids{-1}); }, {"token -1", std::to_string(tokenizer->size())});
  test::expect_error([&] { tokenizer->decode(Ids{4, 250}); }, {"token 250"});
  test::expect_error([&] { tokenizer->piece(1000); }, {"token 1000"});
}

TEST(SentencePiece, Korean) {
  for (const SentencePieceKind kind : kinds) {
    const TokenizerPtr tokenizer = trained(kind);
    // "학생이" as conjoining letters (NFD): the same ids as the syllables, and syllables come back.
    const std::string letters = "\u1112\u1161\u11A8\u1109\u1162\u11BC\u110B\u1175";
    EXPECT_EQ(tokenizer->encode(letters), tokenizer->encode("학생이"));
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(letters)), "학생이");
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("쥐를 고양이가 보았다.")), "쥐를 고양이가 보았다.");
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("　나는　책을 Ｔｒａｎｓｆｏｒｍｅｒ를")), "나는 책을 Transformer를")
        << "wide forms and spaces";
    for (const std::string& line : corpus())
      for (const std::int32_t id : tokenizer->encode(line)) EXPECT_EQ(tokenizer->piece(id).find("\xEF\xBF\xBD"), std::string::npos);
  }
}

TEST(SentencePiece, BytesInsteadOfUnknowns) {
  for (const SentencePieceKind kind : kinds) {
    const TokenizerPtr tokenizer = trained(kind, true);
    for (const char* text : {"나는 龜를 보았다", "한글 뷁 😀 Ünïcödé"}) {
      const Ids ids = tokenizer->encode(text);
      EXPECT_EQ(tokenizer->decode(ids), text);
      EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer->unk()), 0);
    }
  }
}

TEST(SentencePiece, TrainingIsReproducible) {
  const TextFolder folder;
  for (const SentencePieceKind kind : kinds) {
    trained(kind)->save(folder / "a.model");
    trained(kind)->save(folder / "b.model");
    EXPECT_EQ(test::contents(folder / "a.model"), test::contents(folder / "b.model"));
  }
  // Text that is too long is sampled, the same lines each time.
  const SentencePieceOptions sampled = {.vocab_size = 100, .max_sentences = 40};
  expect_same(*train_sentencepiece(lines_from(corpus()), sampled), *train_sentencepiece(lines_from(corpus()), sampled));
}

TEST(SentencePiece, SavedAndLoaded) {
  const TextFolder folder;
  for (const SentencePieceKind kind : kinds) {
    const TokenizerPtr tokenizer = trained(kind);
    tokenizer->save(folder / "tokenizer.model");
    expect_same(*tokenizer, *load_tokenizer(folder / "tokenizer.model"));
  }
  const std::string model = test::contents(folder / "tokenizer.model");
  folder.write("cut.model", std::string_view(model).substr(0, model.size() / 2));
  test::expect_error([&] { load_tokenizer(folder / "cut.model"); }, {"cut.model", "not a SentencePiece model"});
  folder.write("noise.model", "\x01\x02 noise, not a model\n");
  test::expect_error([&] { load_tokenizer(folder / "noise.model"); }, {"noise.model", "not a SentencePiece model"});
  folder.write("empty.model", "");
  test::expect_error([&] { load_tokenizer(folder / "empty.model"); }, {"empty.model", "empty"});
  test::expect_error([&] { load_tokenizer(folder / "missing.model"); }, {"missing.model", "No such file"});
  expect_same(*load_tokenizer(folder.path()), *load_tokenizer(folder / "tokenizer.model"));
  std::filesystem::create_directory(folder / "bare");
  test::expect_error([&] { load_tokenizer(folder / "bare"); }, {"bare", "no tokenizer in this folder"});
}

TEST(SentencePiece, TooLargeAndTooSmallVocabularies) {
  for (const SentencePieceKind kind : kinds) {
    const TokenizerPtr most = train_sentencepiece(lines_from(corpus()), {.kind = kind, .vocab_size = 5000});
    EXPECT_LT(most->size(), 5000);
    EXPECT_GT(most->size(), 100);
    const SentencePieceOptions exact = {.kind = kind, .vocab_size = 5000, .exact_size = true};
    test::expect_error([&] { train_sentencepiece(lines_from(corpus()), exact); },
                       {"sentencepiece", "vocab_size is 5000", fmt::format("at most {}", most->size())});
    test::expect_error([&] { train_sentencepiece(lines_from(corpus()), {.kind = kind, .vocab_size = 20}); },
                       {"vocab_size is 20", "too small", "at least", "character_coverage"});
  }
}

TEST(SentencePiece, OptionsAreChecked) {
  const auto refuses = [](const SentencePieceOptions& options, const std::vector<std::string>& parts) {
    test::expect_error([&] { train_sentencepiece(lines_from(corpus()), options); }, parts);
  };
  refuses({.vocab_size = 4}, {"vocab_size is 4"});
  refuses({.vocab_size = 200, .byte_fallback = true}, {"vocab_size is 200", "261"});
  refuses({.character_coverage = 0.5}, {"character_coverage is 0.5", "0.98"});
  refuses({.normalization = "nfck"}, {"'nfck'", "did you mean 'nfkc'?"});
  refuses({.max_sentences = 0}, {"max_sentences is 0"});
  refuses({.seed_pieces = 0}, {"seed_pieces is 0"});
}

TEST(SentencePiece, TextWithoutText) {
  const std::vector<std::vector<std::string>> texts = {
      {}, {""}, {"", " ", "\t"}, {"\x01"}, {" ", "\u200B", "\uFEFF"}, {std::string(5, '\0')}};
  for (const SentencePieceKind kind : kinds)
    for (const auto& text : texts) {
      // NUL stays in the text but gets no piece: then the mark of a word's beginning is all there is.
      const bool nothing = text.empty() || text[0].empty() || text[0][0] != '\0';
      if (nothing) test::expect_error([&] { train_sentencepiece(lines_from(text), {.kind = kind}); }, {"sentencepiece", "no text"});
      else EXPECT_EQ(train_sentencepiece(lines_from(text), {.kind = kind})->size(), 5);
    }
  EXPECT_GT(train_sentencepiece(lines_from({"<s>", "</s><pad>"}), {})->size(), 4) << "names of special tokens are text";
}

TEST(SentencePiece, HostileText) {
  std::string words, unbroken(1 << 20, 'x');
  while (words.size() < (1 << 20)) words += "고양이가 ";
  words.pop_back();
  const std::string noise = "\xFF\xFE나는\xC0\x80 \xED\xA0\x80", nul("a\0b", 3);
  std::vector<std::string> text = corpus();
  text.insert(text.end(), {words, unbroken.substr(0, 9000), noise, nul, "▅ ▁ ⁇", std::string(5000, ' ')});
  for (const SentencePieceKind kind : kinds) {
    const TokenizerPtr tokenizer = train_sentencepiece(lines_from(text), {.kind = kind, .vocab_size = 200});
    std::int64_t replaced = 0;
    EXPECT_FALSE(tokenizer->encode(noise, &replaced).empty());
    EXPECT_EQ(replaced, 7);
    EXPECT_FALSE(tokenizer->encode(nul, &replaced).empty());
    EXPECT_EQ(replaced, 7) << "NUL is valid";
    const std::string& longest = kind == SentencePieceKind::bpe ? words : unbroken;
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(longest)), longest);
  }
}

TEST(Whitespace, WordsByCountThenByFirstAppearance) {
  const auto text = [] { return lines_from({"b a c", " a  b\td ", "", "z\ta <unk> <s>"}); };
  const TokenizerPtr tokenizer = build_whitespace(text());
  EXPECT_EQ(tokenizer->kind(), "whitespace");
  const std::vector<std::string> want = {"<pad>", "<unk>", "<s>", "</s>", "a", "b", "c", "d", "z"};
  ASSERT_EQ(tokenizer->size(), std::ssize(want));
  for (std::int32_t id = 0; id < tokenizer->size(); ++id) {
    EXPECT_EQ(tokenizer->piece(id), want[static_cast<std::size_t>(id)]);
    EXPECT_EQ(tokenizer->id(want[static_cast<std::size_t>(id)]), id);
  }
  EXPECT_EQ(tokenizer->encode("  a\t z new\r\n"), Ids({4, 8, 1}));
  EXPECT_EQ(tokenizer->encode("<s> a </s> <pad> <unk>"), Ids({1, 4, 1, 1, 1})) << "text makes no special tokens";
  EXPECT_EQ(tokenizer->decode(Ids{2, 5, 1, 4, 3, 0}), "b <unk> a");
  EXPECT_EQ(tokenizer->encode(""), Ids());
  EXPECT_EQ(build_whitespace(text(), {.min_count = 2})->size(), 6);
  EXPECT_EQ(build_whitespace(text(), {.max_size = 7})->size(), 7);
  EXPECT_EQ(build_whitespace(text(), {.min_count = 3, .max_size = 7})->size(), 5);

  test::expect_error([&] { build_whitespace(text(), {.min_count = 0}); }, {"min_count is 0"});
  test::expect_error([&] { build_whitespace(text(), {.max_size = 4}); }, {"max_size is 4"});
  test::expect_error([&] { build_whitespace(lines_from({"", " "})); }, {"no words"});
  test::expect_error([&] { tokenizer->decode(Ids{9}); }, {"token 9"});
}

TEST(Whitespace, HostileText) {
  const TextFolder folder;
  const std::string longest(1 << 20, 'x'), nul("a\0b", 3);
  const TokenizerPtr tokenizer = build_whitespace(lines_from({longest, nul, "\xFFz", "고양이가 쥐를"}));
  std::int64_t replaced = 0;
  EXPECT_EQ(tokenizer->encode(longest), Ids({4}));
  EXPECT_EQ(tokenizer->encode(nul), Ids({5}));
  EXPECT_EQ(tokenizer->encode("\xFEz", &replaced), Ids({6}));
  EXPECT_EQ(replaced, 1);
  EXPECT_EQ(tokenizer->encode("쥐를 고양이가"), Ids({8, 7}));
  tokenizer->save(folder / "vocab.txt");
  expect_same(*tokenizer, *load_tokenizer(folder / "vocab.txt"));
}

TEST(Whitespace, VocabularyFiles) {
  const TextFolder folder;
  build_whitespace(lines_from(corpus()))->save(folder / "vocab.txt");
  EXPECT_TRUE(test::contents(folder / "vocab.txt").starts_with("<pad>\n<unk>\n<s>\n</s>\n"));
  expect_same(*build_whitespace(lines_from(corpus())), *load_tokenizer(folder / "vocab.txt"));

  const auto refuses = [&](std::string_view text, const std::vector<std::string>& parts) {
    test::expect_error([&] { load_tokenizer(folder.write("bad.txt", text)); }, parts);
  };
  const std::string specials = "<pad>\n<unk>\n<s>\n</s>\n";
  EXPECT_EQ(load_tokenizer(folder.write("windows.txt", "<pad>\r\n<unk>\r\n<s>\r\n</s>\r\na"))->size(), 5);
  refuses("[PAD]\n", {"bad.txt", "<pad>, <unk>, <s>, </s>"});
  refuses("<pad>\n<s>\n", {"bad.txt", "line 2 must be <unk>", "'<s>'"});
  refuses("<pad>\n<unk>\n", {"bad.txt", "<pad>, <unk>, <s>, </s>"});
  refuses(specials + "a\nb\na\n", {"bad.txt", "line 7 repeats 'a' of line 5"});
  refuses(specials + "a\n\nb\n", {"bad.txt", "line 6", "one word"});
  refuses(specials + "a b\n", {"line 5", "'a b'"});
  refuses("", {"bad.txt", "empty"});
}

// A disk that is full: files may not grow beyond a few bytes.
class SmallFiles {
 public:
  SmallFiles() : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit small = before_;
    small.rlim_cur = 16;
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(Tokenizer, AFailedSaveLeavesTheOldFile) {
  const TextFolder folder;
  for (const TokenizerPtr& tokenizer : {trained(SentencePieceKind::bpe), build_whitespace(lines_from(corpus()))}) {
    folder.write("tokenizer", "old");
    std::string what;
    try {
      const SmallFiles full;
      tokenizer->save(folder / "tokenizer");
    } catch (const Error& e) {
      what = e.what();
    }
    EXPECT_NE(what.find("tokenizer: cannot write: File too large"), std::string::npos) << what;
    EXPECT_EQ(test::contents(folder / "tokenizer"), "old");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "the temporary file is gone";
    test::expect_error([&] { tokenizer->save(folder / "no/such/folder"); }, {"no/such/folder", "No such file"});
  }
}

}  // namespace
}  // namespace transformer
