// Tokenizers of Hugging Face models, against what Hugging Face gives: tests/golden/tokenizers (of the project's documents) and
// tests/golden/tokenizers-made (made by make.py there, in the styles of the families).
#include <set>

#include "io/shared/json.h"
#include "io/shared/read_file.h"
#include "io/shared/utf8.h"
#include "support/op_check.h"
#include "support/text_files.h"
#include "transformer/tokenizers/tokenizer_pair.h"

namespace transformer {
namespace {

using nlohmann::json;
using test::TextFolder;
using Ids = std::vector<std::int32_t>;

std::string streamed(const TokenizerPtr& tokenizer, const Ids& ids, bool skip_special_tokens = true) {
  StreamDecoder stream(tokenizer, skip_special_tokens);
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string part = stream.push(id);
    EXPECT_TRUE(is_valid_utf8(part)) << "half a character";
    text += part;
  }
  return text + stream.finish();
}

// A tokenizer against a list of {"ids", "tokens", "decoded"}.
void expect_cases(const TokenizerPtr& tokenizer, const json& texts, const json& rows) {
  ASSERT_EQ(texts.size(), rows.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    SCOPED_TRACE(texts[i].dump());
    const std::string text = texts[i];
    const Ids ids = rows[i]["ids"];
    const Encoding encoding = tokenizer->tokenize(text);
    EXPECT_EQ(encoding.ids, ids);
    EXPECT_EQ(encoding.tokens, rows[i]["tokens"].get<std::vector<std::string>>());
    EXPECT_EQ(tokenizer->decode(ids), rows[i]["decoded"].get<std::string>());
    EXPECT_EQ(streamed(tokenizer, ids), rows[i]["decoded"].get<std::string>());
    Ids plain;
    for (std::size_t k = 0; k < encoding.size(); ++k)
      if (encoding.added[k] == 0) plain.push_back(encoding.ids[k]);
    EXPECT_EQ(tokenizer->encode(text), plain);
  }
}

TEST(HuggingFaceTokenizer, GoldenCasesOfAllKinds) {
  const auto folder = test::case_folder("tokenizers");
  const json expected = read_json(folder / "expected.json");
  int kinds = 0;
  for (const auto& [name, rows] : expected.items()) {
    if (name == "texts") continue;
    SCOPED_TRACE(name);
    const auto file = std::filesystem::exists(folder / name) ? folder / name : folder / (name + ".json");
    expect_cases(load_tokenizer(file), expected["texts"], rows);
    ++kinds;
  }
  EXPECT_GE(kinds, 1);
}

TEST(HuggingFaceTokenizer, OlderFilesGiveTheSame) {
  const auto folder = test::case_folder("tokenizers");
  const json expected = read_json(folder / "expected.json");
  expect_cases(load_tokenizer(folder / "gpt2-vocab.json"), expected["texts"], expected["gpt2-bytelevel-bpe"]);
  expect_cases(load_tokenizer(folder / "gpt2-merges.txt"), expected["texts"], expected["gpt2-bytelevel-bpe"]);
  expect_cases(load_tokenizer(folder / "bert-vocab.txt"), expected["texts"], expected["bert-wordpiece"]);
}

TEST(HuggingFaceTokenizer, MadeCasesOfAllFamilies) {
  const auto folder = test::case_folder("tokenizers-made");
  const json cases = read_json(folder / "cases.json");
  for (const auto& [name, expected] : cases["tokenizers"].items()) {
    SCOPED_TRACE(name);
    const TokenizerPtr tokenizer = load_tokenizer(folder / (name + ".json"));
    const json& rows = expected["texts"];
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::string text = cases["texts"][i];
      SCOPED_TRACE(json(text).dump());
      const Encoding encoding = tokenizer->tokenize(text);
      const Ids ids = rows[i]["ids"];
      EXPECT_EQ(encoding.ids, ids);
      if (rows[i].contains("places")) {
        std::vector<std::int64_t> places;
        for (const TokenPlace& place : encoding.places) places.insert(places.end(), {place.begin, place.end});
        EXPECT_EQ(places, rows[i]["places"].get<std::vector<std::int64_t>>());
      }
      std::vector<std::string> tokens;  // as the vocabulary has them, where nothing else is said
      for (const std::int32_t id : ids) tokens.push_back(tokenizer->piece(id));
      EXPECT_EQ(encoding.tokens, rows[i].contains("tokens") ? rows[i]["tokens"].get<std::vector<std::string>>() : tokens);
      EXPECT_EQ(tokenizer->decode(ids), rows[i]["decoded"].get<std::string>());
      EXPECT_EQ(streamed(tokenizer, ids), rows[i]["decoded"].get<std::string>());
      const std::string all = rows[i].value("all", rows[i]["decoded"].get<std::string>());
      EXPECT_EQ(tokenizer->decode(ids, false), all);
      EXPECT_EQ(streamed(tokenizer, ids, false), all);
    }
    for (std::size_t i = 0; i < cases["pairs"].size(); ++i) {
      const std::string first = cases["pairs"][i][0], second = cases["pairs"][i][1];
      SCOPED_TRACE(json(first).dump() + " and " + json(second).dump());
      const json& row = expected["pairs"][i];
      const Encoding encoding = tokenizer->tokenize_pair(first, second);
      EXPECT_EQ(encoding.ids, row["ids"].get<Ids>());
      EXPECT_EQ(encoding.type_ids, row["types"].get<Ids>());
      EXPECT_EQ(Ids(encoding.added.begin(), encoding.added.end()), row["added"].get<Ids>());
      EXPECT_EQ(tokenizer->tokenize_pair(first, second, false).ids, row["plain"].get<Ids>());
    }
  }
}

}  // namespace
}  // namespace transformer
