#include "transformer/text/token_row.h"

#include "support/op_check.h"
#include "support/text_files.h"
#include "transformer/tokenizers/vocabulary.h"

namespace transformer::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::int32_t> all_of(const TokenRow& row) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(row.size()));
  row.read(0, out);
  return out;
}

TokenizerPtr letters_of(const std::string& text) { return make_vocabulary(lines_from({text}), {}); }

TokenizerPtr many_words() {
  std::string line;
  for (int i = 0; i < 70000; ++i) line += fmt::format("w{} ", i);
  return build_whitespace(lines_from({line}));
}

}  // namespace

TEST(TokenRow, FilesOfBothWidthsGiveBackWhatWasWritten) {
  const TextFolder folder;
  for (const TokenizerPtr& tokenizer : {letters_of("abcdef"), many_words()}) {
    const auto last = static_cast<std::int32_t>(tokenizer->size() - 1);
    const std::vector<std::int32_t> ids{3, 1, last, 0, 2};
    {
      TokenFileWriter file(folder / "row.bin", *tokenizer);
      file.add(std::span(ids).first(2), 10);
      EXPECT_FALSE(fs::exists(folder / "row.bin"));
      file.add(std::span(ids).subspan(2), 7);
      file.finish();
      EXPECT_EQ(file.size(), 5);
    }
    EXPECT_EQ(fs::file_size(folder / "row.bin"), 64 + 32 + 5 * (tokenizer->size() > 65536 ? 4 : 2));
    const TokenRow row = TokenRow::open(folder / "row.bin", *tokenizer), memory(ids, 17);
    EXPECT_EQ(all_of(row), ids);
    EXPECT_EQ(row.text_bytes(), 17);
    EXPECT_EQ(row.fingerprint(), memory.fingerprint());
    EXPECT_EQ(all_of(row.part(1, 4)), (std::vector<std::int32_t>{1, last, 0}));
    EXPECT_EQ(all_of(row.part(1, 4).part(2, 3)), std::vector<std::int32_t>{0});
    EXPECT_NE(row.part(1, 4).fingerprint(), row.part(0, 3).fingerprint());
    std::vector<std::int32_t> out(3);
    expect_error([&] { row.read(3, out); }, {"row.bin", "tokens 3 to 6", "there are 5"});
    expect_error([&] { row.part(4, 6); }, {"tokens 4 to 6"});
    fs::remove(folder / "row.bin");
  }
}

TEST(TokenRow, OtherFilesAreRefusedByName) {
  const TextFolder folder;
  const TokenizerPtr tokenizer = letters_of("abc");
  {
    TokenFileWriter file(folder / "good.bin", *tokenizer);
    file.add(std::vector<std::int32_t>{0, 1, 2}, 3);
    expect_error([&] { file.add(std::vector<std::int32_t>{5}, 1); }, {"good.bin", "token 5", "vocabulary of 5"});
    expect_error([&] { file.add(std::vector<std::int32_t>{-1}, 1); }, {"token -1"});
  }
  EXPECT_FALSE(fs::exists(folder / "good.bin"));  // it was not finished
  {
    TokenFileWriter file(folder / "good.bin", *tokenizer);
    file.add(std::vector<std::int32_t>{0, 1, 2}, 3);
    file.finish();
  }
  const std::string bytes = contents(folder / "good.bin");
  const auto refused = [&](const std::string& content, const std::string& why) {
    folder.write("bad.bin", content);
    expect_error([&] { TokenRow::open(folder / "bad.bin", *tokenizer); }, {"bad.bin", why});
  };
  for (std::size_t size = 0; size < bytes.size(); ++size) refused(bytes.substr(0, size), size < 64 ? "not a file of tokens" : "cut off");
  refused(bytes + "x", "cut off");
  refused("some text that is long enough to be a header, and even somewhat longer than that", "not a file of tokens");
  std::string changed = bytes;
  changed[12] = 3;
  refused(changed, "ids of 3 bytes");
  changed = bytes;
  changed[8] = 2;
  refused(changed, "version 2");
  changed = bytes;
  changed[bytes.size() - 32] = 4;  // the number of tokens
  refused(changed, "cut off");
  expect_error([&] { TokenRow::open(folder / "good.bin", *letters_of("abd")); }, {"good.bin", "another vocabulary"});
  expect_error([&] { TokenRow::open(folder / "none.bin", *tokenizer); }, {"none.bin", "cannot open"});

  changed = bytes;
  changed[64 + 2] = 9;  // the second token
  const TokenRow row = TokenRow::open(folder.write("bad.bin", changed), *tokenizer);
  expect_error([&] { all_of(row); }, {"bad.bin", "token 1 is 9", "the vocabulary has 5"});
}

}  // namespace transformer::test
