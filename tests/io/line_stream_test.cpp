#include "io/shared/line_stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "support/op_check.h"

namespace transformer::test {
namespace {

// A pipe whose end we write to.
struct Pipe {
  std::array<int, 2> ends{};
  Pipe() {
    if (pipe(ends.data()) != 0) ADD_FAILURE() << "no pipe";
  }
  ~Pipe() { close(ends[0]), close_writer(); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void send(std::string_view text) const { ASSERT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size())); }
  void close_writer() {
    if (ends[1] >= 0) close(ends[1]);
    ends[1] = -1;
  }
  int reader() const { return ends[0]; }
};

}  // namespace

TEST(LineStream, GivesLinesAsTheyArrive) {
  Pipe pipe;
  LineStream lines(pipe.reader());
  std::string line;
  EXPECT_FALSE(lines.ready());
  pipe.send("first\nsec");
  EXPECT_TRUE(lines.ready());
  EXPECT_TRUE(lines.next(line));
  EXPECT_EQ(line, "first");
  EXPECT_FALSE(lines.ready(1));  // half a line
  pipe.send("ond\r\n\n");
  EXPECT_TRUE(lines.ready());
  EXPECT_TRUE(lines.next(line));
  EXPECT_EQ(line, "second");
  EXPECT_TRUE(lines.ready());
  EXPECT_TRUE(lines.next(line));
  EXPECT_EQ(line, "");
  EXPECT_FALSE(lines.ready());
  pipe.send("last");
  pipe.close_writer();
  EXPECT_TRUE(lines.ready());
  EXPECT_TRUE(lines.next(line));
  EXPECT_EQ(line, "last");
  EXPECT_TRUE(lines.ready());
  EXPECT_FALSE(lines.next(line));
  EXPECT_FALSE(lines.next(line));
  EXPECT_EQ(lines.number(), 4);
}

TEST(LineStream, AnyBytesKeepTheirLines) {
  using namespace std::string_literals;
  const std::vector<std::string> want{"a\0b"s, "c\rd", "\xFF", "", "", "\0"s, "\xEF\xBB\xBFx"};
  Pipe pipe;
  pipe.send("\xEF\xBB\xBF");  // a byte order mark
  for (const std::string& line : want) pipe.send(line + "\n");
  pipe.close_writer();
  LineStream lines(pipe.reader());
  std::vector<std::string> got;
  for (std::string line; lines.next(line);) got.push_back(line);
  EXPECT_EQ(got, want);
}

TEST(LineStream, CutsLongLines) {
  for (std::size_t length : {9U, 10U, 11U, 25000U}) {
    Pipe pipe;
    pipe.send(std::string(length, 'x') + "\nshort\n" + std::string(length, 'y'));
    pipe.close_writer();
    LineStream lines(pipe.reader(), 10);
    std::string line;
    for (const std::string& want :
         {std::string(std::min<std::size_t>(length, 10), 'x'), std::string("short"), std::string(std::min<std::size_t>(length, 10), 'y')}) {
      EXPECT_TRUE(lines.ready());
      EXPECT_TRUE(lines.next(line));
      EXPECT_EQ(line, want);
    }
    EXPECT_FALSE(lines.next(line));
    EXPECT_EQ(lines.cut(), length > 10 ? 2 : 0);
  }
}

TEST(LineStream, Refuses) {
  Pipe pipe;
  pipe.send("\x1F\x8B\x08 and so on");
  LineStream compressed(pipe.reader());
  std::string line;
  expect_error([&] { compressed.next(line); }, {"gzip", "zcat"});
  LineStream folder(open("/", O_RDONLY | O_CLOEXEC));
  expect_error([&] { folder.next(line); }, {"cannot read"});
}

}  // namespace transformer::test
