// Tokenizers of models for many languages: which ids they have, and what stands around a text.
#include <algorithm>

#include "io/shared/json.h"
#include "io/shared/read_file.h"
#include "support/op_check.h"
#include "support/text_files.h"
#include "transformer/tokenizers/tokenizer_pair.h"

namespace transformer {
namespace {

using nlohmann::json;
using test::TextFolder;
using Ids = std::vector<std::int32_t>;

const std::string text = "A dog runs 나는";

// SentencePiece's file with <unk> 0, <s> 1, </s> 2, as these families have it.
std::string pieces() { return read_file(test::case_folder("tokenizers") / "llama-bpe.model"); }

Ids framed(Ids before, const Ids& ids, const Ids& behind) {
  before.insert(before.end(), ids.begin(), ids.end());
  before.insert(before.end(), behind.begin(), behind.end());
  return before;
}

}  // namespace

// fairseq's ids: <s> <pad> </s> <unk>, the pieces one place further, the languages, <mask>.
TEST(Languages, MBartPutsThemBehindAText) {
  const TextFolder folder;
  folder.write("sentencepiece.bpe.model", pieces());
  folder.write("config.json", R"({"model_type": "mbart"})");
  const TokenizerPtr plain = load_tokenizer(folder.write("copy.model", pieces()));
  const TokenizerPair pair = load_tokenizers(folder.path(), {.source_lang = "en_XX", .target_lang = "ko_KR"});
  Ids ids = plain->encode(text);
  for (std::int32_t& id : ids) ++id;
  const auto size = static_cast<std::int32_t>(plain->size());
  const std::int32_t english = size + 1 + 3, korean = size + 1 + 13;
  EXPECT_EQ(pair.source->tokenize(text).ids, framed({}, ids, {2, english}));
  EXPECT_EQ(pair.target->tokenize(text).ids, framed({}, ids, {2, korean}));
  EXPECT_EQ(pair.language, korean);
  EXPECT_TRUE(pair.language_alone);
  EXPECT_EQ(pair.source->size(), size + 1 + 25 + 1);
  EXPECT_EQ(pair.source->id("<mask>"), size + 1 + 25);
  EXPECT_EQ(pair.source->eos(), 2);
  EXPECT_EQ(pair.source->pad(), 1);
  EXPECT_EQ(pair.target->decode(pair.target->tokenize(text).ids), text);
  EXPECT_EQ(frame_of(*load_tokenizer(folder.path())).behind, (Ids{2, english})) << "English when nothing is said";
}

TEST(Languages, MBart50AndNllbPutThemBefore) {
  const TextFolder folder;
  folder.write("sentencepiece.bpe.model", pieces());
  const TokenizerPtr plain = load_tokenizer(folder.write("copy.model", pieces()));
  Ids ids = plain->encode(text);
  for (std::int32_t& id : ids) ++id;
  const auto size = static_cast<std::int32_t>(plain->size());
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "MBart50Tokenizer", "src_lang": "ko_KR"})");
  const TokenizerPair fifty = load_tokenizers(folder.path(), {.target_lang = "sl_SI"});
  EXPECT_EQ(fifty.source->tokenize(text).ids, framed({size + 1 + 13}, ids, {2}));
  EXPECT_EQ(fifty.language, size + 1 + 51);
  EXPECT_FALSE(fifty.language_alone);
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "NllbTokenizer"})");
  const TokenizerPair nllb = load_tokenizers(folder.path(), {.source_lang = "ace_Latn", .target_lang = "zul_Latn"});
  EXPECT_EQ(nllb.source->tokenize(text).ids, framed({size + 1 + 1}, ids, {2}));
  EXPECT_EQ(nllb.target->tokenize(text).ids, framed({size + 1 + 201}, ids, {2}));
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "NllbTokenizer", "legacy_behaviour": true})");
  const TokenizerPair legacy = load_tokenizers(folder.path(), {.source_lang = "ace_Latn", .target_lang = "zul_Latn"});
  EXPECT_EQ(legacy.source->tokenize(text).ids, framed({}, ids, {2, size + 1 + 1}));
}

TEST(Languages, M2M100HasItsIdsInAFile) {
  const TextFolder folder;
  folder.write("sentencepiece.bpe.model", pieces());
  const TokenizerPtr plain = load_tokenizer(folder / "sentencepiece.bpe.model");
  json vocab{{"<s>", 0}, {"<pad>", 1}, {"</s>", 2}, {"<unk>", 3}};
  for (std::int32_t id = 3; id < plain->size(); id += 2) vocab[plain->piece(id)] = vocab.size();  // half of the pieces
  folder.write("vocab.json", vocab.dump());
  folder.write("config.json", R"({"model_type": "m2m_100"})");
  const TokenizerPair pair = load_tokenizers(folder.path(), {.source_lang = "en", .target_lang = "ko"});
  Ids ids;
  for (const std::int32_t id : plain->encode(text)) ids.push_back(vocab.value(plain->piece(id), 3));
  const auto first = static_cast<std::int32_t>(vocab.size());
  EXPECT_EQ(pair.source->tokenize(text).ids, framed({first + 18}, ids, {2})) << "__en__ is the nineteenth";
  EXPECT_EQ(pair.source->piece(first + 18), "__en__");
  EXPECT_EQ(pair.target->piece(pair.language), "__ko__");
  EXPECT_TRUE(pair.source->is_special(first));
  EXPECT_EQ(pair.source->size(), first + 100);
  const TextFolder copy;  // what was read is written again
  save_tokenizers({pair.source, pair.source}, copy.path());
  for (const char* name : {"sentencepiece.bpe.model", "vocab.json"})
    EXPECT_EQ(test::contents(copy / name), test::contents(folder / name)) << name;
  std::filesystem::remove(folder / "vocab.json");
  test::expect_error([&] { load_tokenizers(folder.path(), {}); }, {"vocab.json", "is missing"});
}

// A tokenizer.json says what its texts have around them; a language that is asked for takes its place.
TEST(Languages, OfATokenizerJson) {
  const TextFolder folder;
  json file = {{"version", "1.0"},
               {"model",
                {{"type", "WordLevel"},
                 {"vocab", {{"<s>", 0}, {"<pad>", 1}, {"</s>", 2}, {"<unk>", 3}, {"a", 4}, {"eng_Latn", 5}, {"kor_Hang", 6}}},
                 {"unk_token", "<unk>"}}},
               {"pre_tokenizer", {{"type", "Whitespace"}}},
               {"added_tokens", json::array()}};
  for (const auto& [token, id] : {std::pair{"</s>", 2}, {"eng_Latn", 5}, {"kor_Hang", 6}})
    file["added_tokens"].push_back({{"id", id}, {"content", token}, {"special", true}, {"normalized", false}});
  folder.write("tokenizer.json", file.dump());
  folder.write("config.json", R"({"model_type": "m2m_100"})");
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "NllbTokenizer", "eos_token": "</s>", "tgt_lang": "kor_Hang"})");
  const TokenizerPair pair = load_tokenizers(folder.path(), {.source_lang = "eng_Latn"});
  EXPECT_EQ(pair.source->tokenize("a a").ids, (Ids{5, 4, 4, 2}));
  EXPECT_EQ(pair.target->tokenize("a").ids, (Ids{6, 4, 2})) << "the folder's own target";
  EXPECT_EQ(load_tokenizers(folder.path(), {.source_lang = "eng_Latn", .target_lang = "eng_Latn"}).language, 5);
  test::expect_error([&] { load_tokenizers(folder.path(), {}); }, {"--source-lang", "2 languages", "say which"});
  test::expect_error([&] { load_tokenizers(folder.path(), {.source_lang = "en"}); },
                     {"--source-lang", "does not know the language 'en'", "near are eng_Latn", "kor_Hang"});
  test::expect_error([&] { load_tokenizers(folder.path(), {.source_lang = "eng_Latn", .target_lang = "xyz_Abcd"}); },
                     {"--target-lang", "'xyz_Abcd'", "it knows eng_Latn, kor_Hang"});
}

TEST(Languages, AModelWithoutThem) {
  const TextFolder folder;
  folder.write("spiece.model", pieces());
  folder.write("config.json", R"({"model_type": "t5"})");
  test::expect_error([&] { load_tokenizers(folder.path(), {.target_lang = "de"}); }, {"--target-lang", "not a model for many languages"});
}

// Pegasus: <pad> 0, </s> 1, tokens of its first training, then the pieces, <unk> first.
TEST(Languages, PegasusMovesItsPieces) {
  const TextFolder folder;
  folder.write("spiece.model", read_file(test::case_folder("tokenizers") / "t5-unigram.model"));
  folder.write("config.json", R"({"model_type": "pegasus"})");
  const TokenizerPtr plain = load_tokenizer(folder / "spiece.model"), pegasus = load_tokenizer(folder.path());
  Ids ids = plain->encode("A dog runs");
  for (std::int32_t& id : ids) id += 103;
  EXPECT_EQ(pegasus->tokenize("A dog runs").ids, framed({}, ids, {1}));
  EXPECT_EQ(pegasus->unk(), 105);
  EXPECT_EQ(pegasus->piece(2), "<mask_1>");
  EXPECT_EQ(pegasus->piece(104), "<unk_102>");
  EXPECT_EQ(pegasus->decode(pegasus->tokenize("A dog runs").ids), "A dog runs");
}

namespace {

TokenizerPair trained_pair(bool joint, SentencePieceKind kind = SentencePieceKind::bpe) {
  const auto train = [&](std::vector<std::string> lines) {
    const LineSource next = [lines, i = std::size_t{0}](std::string& line) mutable {
      return i < 40 && (line = lines[i++ % lines.size()], true);
    };
    return train_sentencepiece(next, {.kind = kind, .vocab_size = 70});
  };
  const std::vector<std::string> english{"the cat sat on the mat", "a dog ran far away"}, korean{"나는 학교에 간다", "너는 집에 있다"};
  if (!joint) return {train(english), train(korean)};
  const TokenizerPtr both = train({english[0], korean[0], english[1], korean[1]});
  return {both, both};
}

const std::vector<std::string> sentences{
    "the cat sat on the mat", "  a dog   나는 학교에 간다 ", "ＡＢＣ the ½ cat", "zebra 한국어", "", "</s>"};

}  // namespace

// The ids of published Marian models, the pieces of SentencePiece.
TEST(TranslatorTokenizers, MarianHasTheIdsOfPublishedModels) {
  for (const bool joint : {true, false}) {
    const TokenizerPair plain = trained_pair(joint), marian = marian_tokenizers(plain);
    EXPECT_EQ(marian.joint(), joint);
    for (const auto& [from, to] : {std::pair{plain.source, marian.source}, {plain.target, marian.target}}) {
      EXPECT_EQ(to->size(), from->size() - 1) << "there is no <s>";
      EXPECT_EQ(to->eos(), 0);
      EXPECT_EQ(to->unk(), 1);
      EXPECT_EQ(to->pad(), joint ? to->size() - 1 : 2);
      EXPECT_EQ(to->bos(), -1);
      for (const std::string& sentence : sentences) {
        if (sentence == "</s>") continue;  // a special token for one of the two
        std::vector<std::string> want, got;
        for (const std::int32_t id : from->encode(sentence)) want.push_back(from->piece(id));
        for (const std::int32_t id : to->encode(sentence)) got.push_back(to->piece(id));
        EXPECT_EQ(got, want) << sentence;
      }
      EXPECT_EQ(frame_of(*to).behind, Ids{0});
    }
    EXPECT_EQ(marian.source->decode(marian.source->encode(sentences[0])), sentences[0]);
    const TextFolder folder;
    save_tokenizers(marian, folder.path());
    const json vocab = read_json(folder / "vocab.json");
    EXPECT_EQ(vocab.at("</s>"), 0);
    EXPECT_EQ(vocab.at("<pad>"), joint ? static_cast<std::int32_t>(vocab.size()) - 1 : 2);
    const TokenizerPair again = load_tokenizers(folder.path());
    EXPECT_EQ(again.joint(), joint);
    EXPECT_EQ(fingerprint(*again.source), fingerprint(*marian.source));
    EXPECT_EQ(fingerprint(*again.target), fingerprint(*marian.target));
    for (const std::string& sentence : sentences) EXPECT_EQ(again.source->tokenize(sentence).ids, marian.source->tokenize(sentence).ids);
  }
}

TEST(TranslatorTokenizers, PegasusIsATokenizerJson) {
  for (const SentencePieceKind kind : {SentencePieceKind::bpe, SentencePieceKind::unigram}) {
    const TokenizerPtr plain = trained_pair(true, kind).source, pegasus = pegasus_tokenizer(*plain);
    EXPECT_EQ(pegasus->size(), plain->size() - 1);
    EXPECT_EQ(pegasus->pad(), 0);
    EXPECT_EQ(pegasus->eos(), 1);
    EXPECT_EQ(pegasus->unk(), 2);
    for (const std::string& sentence : sentences) {
      if (sentence == "</s>") continue;
      std::vector<std::string> want, got;
      for (const std::int32_t id : plain->encode(sentence)) want.push_back(id == plain->unk() ? "<unk>" : plain->piece(id));
      for (const std::int32_t id : pegasus->encode(sentence)) got.push_back(pegasus->piece(id));
      EXPECT_EQ(got, want) << sentence;
    }
    EXPECT_EQ(pegasus->decode(pegasus->encode(sentences[0])), sentences[0]);
    const TextFolder folder;
    folder.write("config.json", R"({"model_type": "pegasus"})");
    save_tokenizers({pegasus, pegasus}, folder.path());
    const TokenizerPair again = load_tokenizers(folder.path());
    EXPECT_TRUE(again.joint());
    EXPECT_EQ(again.source->tokenize(sentences[1]).ids, pegasus->tokenize(sentences[1]).ids);
    EXPECT_EQ(again.source->eos(), 1);
  }
}

}  // namespace transformer
