// A name that ends in .gz: what is written there is gzip.
#include <gtest/gtest.h>

#include "io/shared/output_file.h"
#include "io/shared/read_file.h"
#include "support/temporary_folder.h"
#include "transformer/io/lines.h"

namespace transformer::test {
namespace {

TEST(GzipOutput, ReadsBackAsItWasWritten) {
  const TemporaryFolder folder;
  const std::string path = (folder / "x.gz").string();
  std::string text;
  for (int i = 0; i < 50000; ++i) text += "line " + std::to_string(i * 7919 % 10007) + "\n";  // more than the buffers hold
  {
    OutputFile out(path);
    for (std::size_t at = 0; at < text.size(); at += 1000) out.stream() << text.substr(at, 1000) << std::flush;
    EXPECT_FALSE(std::filesystem::exists(path));
    out.commit();
  }
  const std::string bytes = read_file(path);
  ASSERT_TRUE(bytes.starts_with("\x1f\x8b"));
  EXPECT_LT(bytes.size(), text.size());
  LineReader lines(path);
  std::string back;
  for (std::string line; lines.next(line);) back += line + "\n";
  EXPECT_EQ(back, text);

  OutputFile empty((folder / "empty.gz").string());
  empty.commit();
  EXPECT_FALSE(LineReader((folder / "empty.gz").string()).next(back));
}

}  // namespace
}  // namespace transformer::test
