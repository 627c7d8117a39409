#include "transformer/train/progress.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "io/shared/unicode.h"

namespace transformer {
namespace {

using Mode = ProgressOptions::Mode;
using Lines = std::vector<std::string>;

// A display that writes into a string, at a time and width that the test sets.
struct Display {
  char* buffer = nullptr;
  std::size_t size = 0;
  std::FILE* out = open_memstream(&buffer, &size);
  double now = 1000.0;
  int width = 200;
  Progress progress;

  explicit Display(Mode mode, std::int64_t log_interval = 100)
      : progress(out,
                 {.mode = mode,
                  .log_interval = log_interval,
                  .redraw_seconds = 0.1,
                  .width = [this] { return width; },
                  .clock = [this] { return now; }}) {}
  ~Display() {
    std::fclose(out);
    std::free(buffer);
  }
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  std::string text() {
    std::fflush(out);
    return {buffer, size};
  }
  // What a terminal of this width shows: \r goes to the beginning of the line, ESC [ K clears to its end, and a line that
  // is too long continues in the next one.
  Lines screen() {
    std::vector<std::u32string> rows(1);
    std::size_t column = 0;
    const std::u32string all = to_code_points(text());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] == U'\r') {
        column = 0;
      } else if (all[i] == U'\n') {
        rows.emplace_back();
        column = 0;
      } else if (all.compare(i, 3, U"\x1b[K") == 0) {
        rows.back().resize(std::min(rows.back().size(), column));
        i += 2;
      } else {
        if (column == static_cast<std::size_t>(width)) rows.emplace_back(), column = 0;
        if (rows.back().size() <= column) rows.back().resize(column + 1, U' ');
        rows.back()[column++] = all[i];
      }
    }
    Lines lines;
    for (const std::u32string& row : rows) lines.push_back(to_utf8(row));
    return lines;
  }
};

ProgressState full(std::int64_t step, std::int64_t total) {
  return {.epoch = 3,
          .step = step,
          .total_steps = total,
          .loss = 4.1234,
          .perplexity = 61.77,
          .lr = 3.2e-4,
          .gradient_norm = 0.854,
          .tokens_per_second = 12345.0};
}

TEST(Progress, Durations) {
  const std::vector<std::pair<double, const char*>> cases = {{0, "0s"},           {0.6, "1s"},
                                                             {59.4, "59s"},       {59.6, "1m00s"},
                                                             {62, "1m02s"},       {3599.4, "59m59s"},
                                                             {3599.6, "1h00m"},   {3720, "1h02m"},
                                                             {86399, "23h59m"},   {86400, "1d00h"},
                                                             {183600, "2d03h"},   {-1, "?"},
                                                             {std::nan(""), "?"}, {std::numeric_limits<double>::infinity(), "?"}};
  for (const auto& [seconds, expected] : cases) EXPECT_EQ(duration(seconds), expected) << seconds;
}

TEST(Progress, CutsWholeCharactersByTheirColumns) {
  EXPECT_EQ(cut_to_columns("hello", 3), "hel");
  EXPECT_EQ(cut_to_columns("hello", 9), "hello");
  EXPECT_EQ(cut_to_columns("hello", 0), "");
  EXPECT_EQ(cut_to_columns("나는 간다", 4), "나는");
  EXPECT_EQ(cut_to_columns("나는 간다", 3), "나") << "half of a wide character does not fit";
  EXPECT_EQ(cut_to_columns("é日x", 3), "é日");
  EXPECT_EQ(cut_to_columns("e\xCC\x81x", 1), "e\xCC\x81") << "an accent that combines takes no column";
  EXPECT_EQ(cut_to_columns("😀a", 2), "😀");
}

TEST(Progress, RateIsThatOfTheWindow) {
  MovingRate rate(10.0);
  EXPECT_TRUE(std::isnan(rate.per_second()));
  rate.add(0.0, 500.0);
  EXPECT_TRUE(std::isnan(rate.per_second()));
  rate.add(0.0, 500.0);
  EXPECT_TRUE(std::isnan(rate.per_second())) << "no time has passed";
  rate.add(2.0, 520.0);
  EXPECT_DOUBLE_EQ(rate.per_second(), 10.0) << "not counted from 0: a resumed run begins anywhere";
  double count = 520.0;
  for (double t = 2.0; t < 60.0; t += 0.01) rate.add(t, count += 1.0);  // 100 a second, for much longer than the window
  EXPECT_NEAR(rate.per_second(), 100.0, 0.01);
  for (double t = 60.0; t < 66.0; t += 0.01) rate.add(t, count);  // 6 of 10 seconds without any
  EXPECT_NEAR(rate.per_second(), 40.0, 1.5);
  rate.add(1000.0, count + 10.0);
  EXPECT_NEAR(rate.per_second(), 10.0 / 934.0, 1e-4) << "one long step is longer than the window";
}

TEST(Progress, LiveLineShowsEverything) {
  Display d(Mode::live);
  d.progress.update(full(1100, 10000));
  d.now += 10.0;
  d.progress.update(full(1200, 10000));
  EXPECT_EQ(d.screen(),
            Lines{"epoch 3  step 1200/10000  [==>                 ]   12%  loss 4.123  ppl 61.77  lr 3.20e-04  gnorm 0.85  "
                  "12.3k tok/s  10s  ETA 14m40s"});
  EXPECT_DOUBLE_EQ(d.progress.eta(), 880.0);
  EXPECT_DOUBLE_EQ(d.progress.elapsed(), 10.0);
}

TEST(Progress, WhatIsNotKnownIsNotShown) {
  Display d(Mode::live);
  d.progress.update({.step = 5});
  d.now += 1.0;
  d.progress.update({.step = 6});
  EXPECT_EQ(d.screen(), Lines{"step 6  1s"});
  EXPECT_TRUE(std::isnan(d.progress.eta()));
  d.now += 1.0;
  d.progress.update({.step = 10, .total_steps = 10, .loss = std::numeric_limits<double>::infinity(), .perplexity = 1e30});
  EXPECT_EQ(d.screen(), Lines{"step 10/10  [====================]  100%  loss inf  ppl 1.0e+30  2s  ETA 0s"});
}

// At every width: never a second row, and what matters most goes last.
TEST(Progress, FitsEveryWidth) {
  for (int width = 1; width <= 160; ++width) {
    Display d(Mode::live);
    d.width = width;
    d.progress.update(full(1100, 10000));
    d.now += 10.0;
    ProgressState state = full(1200, 10000);
    state.phase = "검증";
    d.progress.update(state);
    const Lines screen = d.screen();
    ASSERT_EQ(screen.size(), 1u) << width;
    const std::string& line = screen[0];
    ASSERT_EQ(line, cut_to_columns(line, std::max(width - 1, 1))) << width;
    // one column is left free; "검증  step 1200/10000" has 21, "  loss 4.123" 12, "  ETA 14m40s" 12, and all of it 138
    EXPECT_EQ(line.find("step 1200/10000") != std::string::npos, width > 15) << width << line;
    EXPECT_EQ(line.find("검증") != std::string::npos, width > 21) << width << line;
    EXPECT_EQ(line.find("loss 4.123") != std::string::npos, width > 33) << width << line;
    EXPECT_EQ(line.find("ETA 14m40s") != std::string::npos, width > 45) << width << line;
    EXPECT_EQ(line.find("[==>") != std::string::npos, width > 138) << width << line;
  }
}

TEST(Progress, AResizeCountsFromTheNextDrawing) {
  Display d(Mode::live);
  d.progress.update(full(1, 100));
  d.width = 30;
  d.now += 1.0;
  const std::size_t before = d.text().size();
  d.progress.update(full(2, 100));
  EXPECT_LT(d.text().size() - before, 30u + 4u);
}

TEST(Progress, DrawsAtMostTenTimesASecond) {
  Display d(Mode::live);
  d.progress.update(full(1, 1000));
  const std::size_t once = d.text().size();
  for (int step = 2; step < 50; ++step) d.now += 0.001, d.progress.update(full(step, 1000));
  EXPECT_EQ(d.text().size(), once);
  ProgressState validating = full(50, 1000);
  validating.phase = "validating";
  d.progress.update(validating);
  EXPECT_TRUE(d.screen().at(0).starts_with("validating  epoch 3  step 50/1000")) << "another phase is shown at once";
}

TEST(Progress, NotesStandAboveTheLiveLine) {
  Display d(Mode::live);
  d.progress.note("before");
  d.progress.update({.step = 1, .total_steps = 4});
  d.progress.note("saved: 나는 학교에");
  d.now += 1.0;
  d.progress.update({.step = 2, .total_steps = 4});
  d.progress.note("short");
  EXPECT_EQ(d.screen(), (Lines{"before", "saved: 나는 학교에", "short", "step 2/4  [==========>         ]   50%  1s  ETA 2s"}));
  d.now += 0.01;
  d.progress.update({.step = 3, .total_steps = 4});  // too soon to be drawn
  d.progress.finish();
  d.progress.note("after");
  EXPECT_EQ(d.screen(),
            (Lines{"before", "saved: 나는 학교에", "short", "step 3/4  [===============>    ]   75%  1s  ETA 1s", "after", ""}));
  d.progress.finish();
  EXPECT_EQ(d.screen().size(), 6u) << "a second finish changes nothing";
}

TEST(Progress, EndsItsLineWhenItGoes) {
  char* buffer = nullptr;
  std::size_t size = 0;
  std::FILE* out = open_memstream(&buffer, &size);
  {
    Progress progress(out, {.mode = Mode::live});
    progress.update({.step = 1});
  }
  std::fclose(out);
  EXPECT_EQ(buffer[size - 1], '\n');
  std::free(buffer);
}

TEST(Progress, PlainLinesEveryInterval) {
  Display d(Mode::lines, 100);
  for (std::int64_t step = 201; step <= 450; ++step) {  // a run that was resumed at 200
    d.now += 0.1;
    d.progress.update(full(step, 1000));
    if (step == 333) d.progress.note("valid bleu 30.1");
  }
  d.progress.finish();
  EXPECT_EQ(d.text(),
            "epoch 3  step 300/1000  loss 4.123  ppl 61.77  lr 3.20e-04  gnorm 0.85  12.3k tok/s  10s  ETA 1m10s\n"
            "valid bleu 30.1\n"
            "epoch 3  step 400/1000  loss 4.123  ppl 61.77  lr 3.20e-04  gnorm 0.85  12.3k tok/s  20s  ETA 1m00s\n"
            "epoch 3  step 450/1000  loss 4.123  ppl 61.77  lr 3.20e-04  gnorm 0.85  12.3k tok/s  25s  ETA 55s\n");
}

TEST(Progress, PlainLinesAreNotRepeated) {
  Display d(Mode::lines, 10);
  for (std::int64_t step : {8, 25, 26, 40}) d.progress.update({.step = step});
  d.progress.finish();
  d.progress.finish();
  EXPECT_EQ(d.text(), "step 25  0s\nstep 40  0s\n");
}

TEST(Progress, QuietPrintsNothing) {
  Display d(Mode::quiet);
  d.progress.update(full(100, 200));
  d.progress.note("note");
  d.progress.finish();
  EXPECT_EQ(d.text(), "");
}

TEST(Progress, AStringIsNotATerminal) {
  Display d(Mode::automatic, 1);
  d.progress.update({.step = 1});
  EXPECT_EQ(d.text(), "step 1  0s\n");
}

// On a pseudo-terminal the line is live, and as wide as the terminal is at that moment.
TEST(Progress, AsksTheTerminalForItsWidth) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) GTEST_SKIP() << "no pseudo-terminals here";
  const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  ASSERT_GE(slave, 0);
  std::FILE* out = fdopen(slave, "w");
  const auto shown = [&](Progress& progress, unsigned short columns) {
    winsize size{};
    size.ws_col = columns;
    ioctl(master, TIOCSWINSZ, &size);
    progress.update(full(1, 0));
    std::string text(4096, '\0');
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(read(master, text.data(), text.size()), 0)));
    return text;
  };
  {
    Progress progress(out, {.redraw_seconds = 0.0});
    const std::string wide = shown(progress, 150), narrow = shown(progress, 20);
    EXPECT_TRUE(wide.starts_with("\repoch 3  step 1  loss 4.123")) << wide;
    EXPECT_EQ(narrow, "\rstep 1  loss 4.123\x1b[K");
  }
  std::fclose(out);
  close(master);
}

TEST(Progress, ADisplayThatIsGoneIsNoError) {
  std::FILE* full_disk = std::fopen("/dev/full", "w");
  if (full_disk == nullptr) GTEST_SKIP() << "no /dev/full here";
  Progress progress(full_disk, {.mode = Mode::live});
  EXPECT_NO_THROW(progress.update(full(1, 2)));
  EXPECT_NO_THROW(progress.note("x"));
  EXPECT_NO_THROW(progress.finish());
  std::fclose(full_disk);
}

}  // namespace
}  // namespace transformer
