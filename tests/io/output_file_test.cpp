// Files that appear as a whole or not at all: AtomicFile, and OutputFile, the stream on it.
#include "io/shared/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>
#include <thread>

#include "io/shared/atomic_file.h"
#include "io/shared/read_file.h"
#include "support/op_check.h"
#include "support/temporary_folder.h"

namespace transformer::test {
namespace {

namespace fs = std::filesystem;

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST(OutputFile, TheOldFileStaysUntilTheNewOneIsComplete) {
  const TemporaryFolder folder;
  write_text(folder / "out", "old");
  {
    OutputFile out((folder / "out").string());
    out.stream() << "new, but never finished" << std::flush;
    EXPECT_EQ(read_file(folder / "out"), "old");
  }
  EXPECT_EQ(read_file(folder / "out"), "old");
  EXPECT_EQ(files_in(folder.path()), 1U);
  OutputFile out((folder / "out").string());
  const std::string line(1000, 'x');
  for (int i = 0; i < 200; ++i) out.stream() << line << '\n';  // more than is collected at once
  EXPECT_EQ(read_file(folder / "out"), "old");
  out.commit();
  EXPECT_EQ(read_file(folder / "out").size(), 200U * 1001U);
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(OutputFile, LinksAndPermissionsStay) {
  const TemporaryFolder folder;
  write_text(folder / "file", "old");
  fs::permissions(folder / "file", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("file", folder / "link");
  fs::create_symlink("link", folder / "second");
  fs::create_symlink("new", folder / "dangling");
  for (const auto& [name, text] : {std::pair{"second", "through two links"}, {"dangling", "the first"}}) {
    AtomicFile file(folder / name);
    file.write(std::string_view(text));
    file.commit();
  }
  EXPECT_TRUE(fs::is_symlink(folder / "link") && fs::is_symlink(folder / "second") && fs::is_symlink(folder / "dangling"));
  EXPECT_EQ(read_file(folder / "file"), "through two links");
  EXPECT_EQ(read_file(folder / "new"), "the first");
  EXPECT_EQ(fs::status(folder / "file").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(OutputFile, WhatCannotBeReplacedIsWrittenDirectly) {
  const TemporaryFolder folder;
  for (int i = 0; i < 2; ++i) {
    OutputFile null("/dev/null");
    null.stream() << "gone";
    null.commit();
  }
  EXPECT_TRUE(fs::is_character_file("/dev/null"));

  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read_file(folder / "pipe"); });
  {
    OutputFile pipe((folder / "pipe").string());
    pipe.stream() << "through a pipe";
    pipe.commit();
  }
  reader.join();
  EXPECT_EQ(got, "through a pipe");
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));

  // A file that is open stands where it stands: `transformer … --output /dev/stdout >> log` adds to the log.
  write_text(folder / "log", "before\n");
  const int log = open((folder / "log").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  ASSERT_GE(log, 0);
  fs::create_symlink("/dev/fd/" + std::to_string(log), folder / "link");
  for (const std::string& name : {"/dev/fd/" + std::to_string(log), (folder / "link").string()}) {
    OutputFile out(name);
    out.stream() << "after\n";
    out.commit();
  }
  close(log);
  EXPECT_EQ(read_file(folder / "log"), "before\nafter\nafter\n");
}

TEST(OutputFile, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  expect_error([&] { OutputFile{folder.path().string()}; }, {folder.path().string(), "is a folder: expected the name of a file"});
  expect_error([&] { OutputFile{(folder / "none/file").string()}; }, {"none/file", "cannot create a file"});
  expect_error(
      [] {
    OutputFile full("/dev/full");
    full.stream() << "text" << std::flush;
      },
      {"/dev/full", "cannot write", "No space left"});
}

TEST(OutputFile, AFileLargerThanTheLimitIsAnErrorAndTheOldOneStays) {
  const TemporaryFolder folder;
  write_text(folder / "out", "old");
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{.rlim_cur = 4096, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_error(
      [&] {
    OutputFile out((folder / "out").string());
    out.stream() << std::string(10000, 'x');
    out.commit();
      },
      {"out", "cannot write", "File too large"});
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(read_file(folder / "out"), "old");
}

}  // namespace transformer::test
