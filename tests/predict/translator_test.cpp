#include "transformer/predict/translator.h"

#include <atomic>
#include <sstream>

#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "transformer/models/classic.h"
#include "transformer/ops/random.h"
#include "transformer/text/parallel.h"

namespace transformer::test {
namespace {

LineSource lines_from(const std::vector<std::string>& lines) {
  return [lines, at = std::size_t{0}](std::string& line) mutable {
    if (at == lines.size()) return false;
    line = lines[at++];
    return true;
  };
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// A random model over a vocabulary of words.
struct Words {
  Context ctx{{.seed = 12}};
  TokenizerPtr tokenizer = build_whitespace(lines_from({"one two three four five six seven eight nine ten"}));
  std::shared_ptr<Transformer> model;

  Words() {
    model = std::make_shared<Transformer>(TransformerConfig{.d_model = 16,
                                                            .num_heads = 2,
                                                            .d_ff = 16,
                                                            .num_layers = 1,
                                                            .src_vocab_size = tokenizer->size(),
                                                            .max_len = 20,
                                                            .pad_id = tokenizer->pad()});
    initialize(ctx, *model);
    auto& table = model->encoder.embedding->weight;
    table.tensor = random_normal(ctx, table.shape, 0.0F, 0.8F);
  }
  Translator translator() const { return {model, {tokenizer, tokenizer}}; }
};

// One that is like those of Hugging Face folders, and counts the texts it reads.
class Counted final : public Tokenizer {
 public:
  explicit Counted(TokenizerPtr words) : Tokenizer(words->special_tokens()), words_(std::move(words)) {}
  std::string_view kind() const override { return "huggingface"; }
  std::int64_t size() const override { return words_->size(); }
  std::int32_t id(std::string_view piece) const override { return words_->id(piece); }
  void save(const std::filesystem::path& path) const override { words_->save(path); }
  mutable std::atomic<int> texts = 0;

 private:
  std::vector<std::int32_t> encode_valid(std::string_view text) const override { return ++texts, words_->encode(text); }
  Encoding tokenize_valid(std::string_view text) const override { return ++texts, words_->tokenize(text); }
  Encoding surround(std::vector<Encoding> all, std::span<const std::string_view>, bool special_tokens) const override {
    Encoding out = std::move(all.front());
    if (!special_tokens) return out;
    for (const bool end : {false, true}) {
      out.ids.insert(end ? out.ids.end() : out.ids.begin(), end ? eos() : bos());
      out.tokens.insert(end ? out.tokens.end() : out.tokens.begin(), "");
      out.places.insert(end ? out.places.end() : out.places.begin(), TokenPlace{});
      out.type_ids.push_back(0), out.added.insert(end ? out.added.end() : out.added.begin(), 1);
    }
    return out;
  }
  std::unique_ptr<Detokenizer> detokenizer() const override { return nullptr; }
  std::string decode_all(std::span<const std::int32_t> ids) const override { return words_->decode(ids); }
  std::string piece_of(std::int32_t id) const override { return words_->piece(id); }
  TokenizerPtr words_;
};

}  // namespace

// With all that belongs around it: <s> one two </s>.
TEST(Translator, ATextIsTokenisedOnce) {
  Words w;
  const auto counted = std::make_shared<const Counted>(w.tokenizer);
  const std::vector<std::string> texts{"one two", "three", "", "four five six"};
  const Translator translator(w.model, {counted, counted});
  const int before = counted->texts;
  const auto found = translator.translate_n_best(w.ctx, texts, {.num_beams = 1}, {.alignment = true});
  EXPECT_EQ(counted->texts - before, static_cast<int>(texts.size()));
  EXPECT_EQ(found[0][0].hypothesis.alignment.front().size(), 4u) << "<s> one two </s>";

  // A few more are read to learn what stands around a text, however many there are.
  auto read_by_loading = [&](std::size_t rounds) {
    PairReport report;
    std::size_t next = 0;
    const auto pairs = [&](std::string& source, std::string& target) {
      return next < rounds * texts.size() && (source = target = texts[next++ % texts.size()], true);
    };
    const int loaded = counted->texts;
    const PairDataset data = PairDataset::load(pairs, *counted, *counted, {}, report, 1);
    EXPECT_EQ(data.source(0)[0], w.tokenizer->bos());
    return counted->texts - loaded;
  };
  EXPECT_EQ(read_by_loading(3) - read_by_loading(2), 2 * static_cast<int>(texts.size()));
}

// With its language the start of a target is known, even where the folder does not name it.
TEST(Translator, WhatATargetInOneOfManyLanguagesBeginsWith) {
  const Words w;
  const TemporaryFolder folder;
  TokenizerPair pair{w.tokenizer, w.tokenizer};
  EXPECT_EQ(target_tokens(pair, folder.path()).bos, w.tokenizer->bos());
  pair.language = 7;
  EXPECT_EQ(target_tokens(pair, folder.path()).bos, w.tokenizer->eos()) << "</s> language …";
  pair.language_alone = true;
  EXPECT_EQ(target_tokens(pair, folder.path()).bos, 7) << "language …";
}

TEST(Translator, OneLineOutForEachLineIn) {
  Words w;
  const Translator translator = w.translator();
  std::string very_long;
  for (int i = 0; i < 5000; ++i) very_long += "seven eight ";
  using namespace std::string_literals;
  const std::vector<std::string> lines{"one two",
                                       "",
                                       "   ",
                                       "three\0four five"s,
                                       "one\rtwo three",
                                       "\xFF\xFE two",
                                       very_long,
                                       "\t",
                                       "고양이 one",
                                       "nine ten one two three four",
                                       "\0"s,
                                       "one two\r",
                                       "five",
                                       "",
                                       "two"};
  std::string whole;
  for (std::int64_t chunk : {1, 2, 7, 4096}) {
    std::ostringstream out;
    const TextReport report = translator.translate_lines(w.ctx, lines_from(lines), out, {.num_beams = 2}, {}, {.chunk_lines = chunk});
    const std::vector<std::string> got = split(out.str());
    ASSERT_EQ(got.size(), lines.size());
    EXPECT_TRUE(out.str().ends_with('\n'));
    for (std::size_t i : {1U, 2U, 7U, 13U}) EXPECT_EQ(got[i], "") << i;
    for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(got[i], translator.translate(w.ctx, lines[i], {.num_beams = 2})) << i;
    EXPECT_EQ(report.texts, 15);
    EXPECT_EQ(report.empty, 4);
    EXPECT_EQ(report.invalid_utf8, 2);
    EXPECT_EQ(report.truncated, 1);
    EXPECT_NE(report.summary().find("2 sequences"), std::string::npos);
    if (whole.empty()) whole = out.str();
    EXPECT_EQ(out.str(), whole);
  }
}

// What has arrived is translated without waiting for a full chunk.
TEST(Translator, DoesNotWaitForMoreLines) {
  Words w;
  std::ostringstream out;
  std::size_t asked = 0;
  std::vector<std::size_t> written;
  const LineSource slow = [&](std::string& line) {
    written.push_back(split(out.str()).size());
    line = "one";
    return ++asked <= 5;
  };
  // After the second line the third is not there yet, and so for the fourth.
  w.translator().translate_lines(w.ctx, slow, out, {.num_beams = 1}, {}, {}, [&] { return asked != 2 && asked != 4; });
  EXPECT_EQ(written, (std::vector<std::size_t>{0, 0, 2, 2, 4, 4}));
  EXPECT_EQ(split(out.str()).size(), 5U);
}

TEST(Translator, Formats) {
  Words w;
  const Translator translator = w.translator();
  const std::vector<std::string> texts{"one two three", "", "four"};
  const auto best = translator.translate_n_best(w.ctx, texts, {.num_beams = 3, .num_return_sequences = 2}, {.alignment = true});
  std::ostringstream n_best;
  translator.translate_lines(w.ctx, lines_from(texts), n_best, {.num_beams = 3, .num_return_sequences = 2});
  const std::vector<std::string> lines = split(n_best.str());
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], fmt::format("0 ||| {} ||| {:.6g}", best[0][0].text, best[0][0].hypothesis.score));
  EXPECT_EQ(lines[1], fmt::format("0 ||| {} ||| {:.6g}", best[0][1].text, best[0][1].hypothesis.score));
  EXPECT_EQ(lines[2], "1 |||  ||| 0");
  EXPECT_TRUE(lines[4].starts_with("2 ||| "));

  std::ostringstream aligned;
  translator.translate_lines(w.ctx, lines_from({"one two three"}), aligned, {.num_beams = 3}, {.alignment = true}, {.scores = true});
  const Hypothesis& h = best[0][0].hypothesis;
  std::string want = fmt::format("{} ||| {:.6g} ||| one two three </s> ||| {} ||| ", best[0][0].text, h.score, best[0][0].text);
  for (std::size_t i = 0; i < h.ids.size(); ++i)
    want += fmt::format("{}{}-{}", i == 0 ? "" : " ",
                        std::max_element(h.alignment[i].begin(), h.alignment[i].end()) - h.alignment[i].begin(), i);
  EXPECT_EQ(aligned.str(), want + "\n");
}

TEST(Translator, FromItsFolder) {
  Words w;
  const TemporaryFolder folder;
  save_transformer(*w.model, folder.path());
  save_tokenizers({w.tokenizer, w.tokenizer}, folder.path());
  Context ctx;
  const Translator loaded = Translator::load(ctx, folder.path());
  const std::vector<std::string> texts{"one two three", "ten", "five six"};
  EXPECT_EQ(loaded.translate(ctx, texts), w.translator().translate(w.ctx, texts));
}

TEST(Translator, Errors) {
  Words w;
  const TokenizerPtr other = build_whitespace(lines_from({"one two"}));
  expect_error([&] { Translator(w.model, {w.tokenizer, other}); }, {"14 and 6 pieces", "14 and 14", "another model"});
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  expect_error([&] { w.translator().translate_lines(w.ctx, lines_from({"one"}), out); }, {"cannot be written"});
}

}  // namespace transformer::test
