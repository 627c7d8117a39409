#pragma once
// What a person sees while a model trains. On a terminal it is one line that is rewritten in place,
//
//   epoch 3  step 1200/10000  [==>                 ]   12%  loss 4.123  ppl 61.77  lr 3.20e-04  gnorm 0.85  12.3k tok/s  1m02s  ETA 7m35s
//
// which leaves out its less important parts, the bar first, where the terminal is narrow. Anywhere else (a pipe, a log file)
// the same is printed as a plain line every so many steps.
//
//   Progress progress(stderr, {.log_interval = 100});
//   while (…) progress.update({.epoch = epoch, .step = step, .total_steps = total, .loss = loss});
//   progress.note("saved to model/");           // a line of its own, above the live one
//   progress.finish();

#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace transformer {

// How fast a counter grows, over the last `window` seconds.
class MovingRate {
 public:
  explicit MovingRate(double window = 30.0) : window_(window) {}

  void add(double seconds, double count);  // the counter stood at `count` at this time; both never fall
  double per_second() const;               // NaN until two times are known

 private:
  double window_;
  std::deque<std::pair<double, double>> points_;  // at most about a hundred, the last one the newest
};

// A number that is NaN is not shown.
struct ProgressState {
  std::int64_t epoch = 0;  // 0: not shown
  std::int64_t step = 0;
  std::int64_t total_steps = 0;  // 0: unknown, there is no bar and no ETA
  double loss = std::numeric_limits<double>::quiet_NaN();
  double perplexity = std::numeric_limits<double>::quiet_NaN();
  double lr = std::numeric_limits<double>::quiet_NaN();
  double gradient_norm = std::numeric_limits<double>::quiet_NaN();
  double tokens_per_second = std::numeric_limits<double>::quiet_NaN();
  std::string_view unit = "tok";  // what tokens_per_second counts
  std::string phase = {};         // shown in front where it is not empty: "validating"
};

struct ProgressOptions {
  enum class Mode : std::uint8_t { automatic, live, lines, quiet };
  Mode mode = Mode::automatic;         // live on a terminal, lines elsewhere; quiet prints nothing, notes neither
  std::int64_t log_interval = 100;     // lines: steps between two of them
  double redraw_seconds = 0.1;         // live: time between two drawings
  std::function<int()> width = {};     // live: columns there are; empty asks the terminal each time, so it may be resized
  std::function<double()> clock = {};  // seconds from any beginning; empty is the steady clock
};

class Progress {
 public:
  // `out` must outlive this object. That it cannot be written to is not an error: training goes on.
  explicit Progress(std::FILE* out, ProgressOptions options = {});
  ~Progress();  // ends the live line, so that what is printed next begins on one of its own
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const ProgressState& state);
  void note(std::string_view text);
  // Shows the last state once more and leaves it there. A later update begins a new line.
  void finish();

  double elapsed() const;  // seconds since this object was made
  double eta() const;      // seconds that are left at the present rate; NaN when unknown

 private:
  using Mode = ProgressOptions::Mode;
  std::string line(int width) const;  // width 0: as a plain line
  void draw();
  void print(std::string_view text);

  std::FILE* out_;
  ProgressOptions options_;
  double start_ = 0.0;
  double drawn_at_ = -std::numeric_limits<double>::infinity();
  bool live_line_ = false;  // the cursor stands in a line of ours
  ProgressState state_;
  bool started_ = false;           // there is a state
  std::int64_t printed_step_ = 0;  // lines: that of the last one
  MovingRate steps_;
};

// "42s", "1m02s", "1h02m", "2d03h"; "?" for what is not a time.
std::string duration(double seconds);

// text cut to so many columns of a terminal: never inside a character, wide ones (Hangul, Han) count as two and marks that
// combine with the letter before as none.
std::string cut_to_columns(std::string_view text, int columns);

}  // namespace transformer
