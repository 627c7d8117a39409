#include "transformer/train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "io/shared/columns.h"
#include "io/shared/unicode.h"

namespace transformer {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

int terminal_width(std::FILE* out) {
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

double steady_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// 950, 12.3k, 4.56M
std::string short_count(double value) {
  if (value < 999.5) return fmt::format("{:.0f}", value);
  if (value < 999.5e3) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.2f}M", value / 1e6);
}

// [=====>      ], the fraction of it that is done
std::string bar(double done, int width) {
  const int filled = static_cast<int>(std::clamp(done, 0.0, 1.0) * width);
  std::string inside(static_cast<std::size_t>(filled), '=');
  if (filled < width) inside += '>';
  inside.resize(static_cast<std::size_t>(width), ' ');
  return "[" + inside + "]";
}

}  // namespace

void MovingRate::add(double seconds, double count) {
  // The newest point moves until it stands a hundredth of the window after the one before: then it stays.
  if (points_.size() >= 2 && points_.back().first - points_[points_.size() - 2].first < window_ / 100) points_.pop_back();
  points_.emplace_back(seconds, count);
  while (points_.size() > 2 && points_[1].first <= seconds - window_) points_.pop_front();
}

double MovingRate::per_second() const {
  if (points_.size() < 2 || points_.back().first <= points_.front().first) return unknown;
  return (points_.back().second - points_.front().second) / (points_.back().first - points_.front().first);
}

std::string duration(double seconds) {
  if (!(seconds >= 0.0) || seconds > 1e9) return "?";
  const auto s = std::llround(seconds);
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d{:02}h", s / 86400, s / 3600 % 24);
}

std::string cut_to_columns(std::string_view text, int columns) {
  std::u32string kept;
  for (const char32_t c : to_code_points(text)) {
    columns -= columns_of(c);
    if (columns < 0) break;
    kept += c;
  }
  return to_utf8(kept);
}

Progress::Progress(std::FILE* out, ProgressOptions options) : out_(out), options_(std::move(options)) {
  if (options_.mode == Mode::automatic) options_.mode = isatty(fileno(out)) == 1 ? Mode::live : Mode::lines;
  if (!options_.width) options_.width = [out] { return terminal_width(out); };
  if (!options_.clock) options_.clock = steady_seconds;
  options_.log_interval = std::max<std::int64_t>(options_.log_interval, 1);
  start_ = options_.clock();
}

Progress::~Progress() {
  if (live_line_) print("\n");
}

double Progress::elapsed() const { return options_.clock() - start_; }

double Progress::eta() const {
  const double rate = steps_.per_second();
  if (state_.total_steps <= 0 || !(rate > 0.0)) return unknown;
  return static_cast<double>(std::max<std::int64_t>(state_.total_steps - state_.step, 0)) / rate;
}

void Progress::print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
}

std::string Progress::line(int width) const {
  struct Part {
    int rank;  // the highest goes first where there is no room
    std::string text;
  };
  std::vector<Part> parts;
  const auto add = [&](int rank, std::string text) { parts.push_back({rank, std::move(text)}); };
  const auto number = [&](int rank, double value, auto&& show) {
    if (!std::isnan(value)) add(rank, show(value));
  };
  const bool plain = width == 0, counted = state_.total_steps > 0;
  const double done = counted ? static_cast<double>(state_.step) / static_cast<double>(state_.total_steps) : 0.0;
  if (!state_.phase.empty()) add(0, state_.phase);
  if (state_.epoch > 0) add(4, fmt::format("epoch {}", state_.epoch));
  add(0, counted ? fmt::format("step {}/{}", state_.step, state_.total_steps) : fmt::format("step {}", state_.step));
  if (counted && !plain) add(9, bar(done, 20));
  if (counted && !plain) add(8, fmt::format("{:3.0f}%", std::floor(100.0 * done)));
  number(1, state_.loss, [](double v) { return fmt::format("loss {:.3f}", v); });
  number(3, state_.perplexity, [](double v) { return v < 1e5 ? fmt::format("ppl {:.2f}", v) : fmt::format("ppl {:.1e}", v); });
  number(6, state_.lr, [](double v) { return fmt::format("lr {:.2e}", v); });
  number(7, state_.gradient_norm, [](double v) { return v < 1e4 ? fmt::format("gnorm {:.2f}", v) : fmt::format("gnorm {:.1e}", v); });
  number(5, state_.tokens_per_second, [&](double v) { return fmt::format("{} {}/s", short_count(v), state_.unit); });
  add(6, duration(elapsed()));
  number(2, eta(), [](double v) { return "ETA " + duration(v); });

  const auto joined = [&] {
    std::string text;
    for (const Part& part : parts) text += (text.empty() ? "" : "  ") + part.text;
    return text;
  };
  if (plain) return joined();
  // One column stays free: a terminal that has written its last column may already stand in the next line.
  while (columns_of(joined()) > width - 1 && parts.size() > 1)
    parts.erase(std::max_element(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.rank < b.rank; }));
  return cut_to_columns(joined(), width - 1);
}

void Progress::draw() {
  drawn_at_ = options_.clock();
  live_line_ = true;
  print("\r" + line(std::max(options_.width(), 2)) + "\x1b[K");  // and clear what is left of the line before
}

void Progress::update(const ProgressState& state) {
  const bool first = !started_, other_phase = state.phase != state_.phase;
  state_ = state;
  started_ = true;
  const double now = options_.clock();
  steps_.add(now, static_cast<double>(state.step));
  if (options_.mode == Mode::live) {
    if (first || other_phase || now - drawn_at_ >= options_.redraw_seconds) draw();
  } else if (options_.mode == Mode::lines) {
    if (first) printed_step_ = state.step - 1;  // a resumed run prints at the same steps as one that never stopped
    if (state.step / options_.log_interval > printed_step_ / options_.log_interval) {
      printed_step_ = state.step;
      print(line(0) + "\n");
    }
  }
}

void Progress::note(std::string_view text) {
  if (options_.mode == Mode::quiet) return;
  if (live_line_) print("\r\x1b[K");
  print(fmt::format("{}\n", text));
  if (live_line_) draw();
}

void Progress::finish() {
  if (!started_) return;
  if (options_.mode == Mode::live) {
    draw();
    print("\n");
    live_line_ = false;
  } else if (options_.mode == Mode::lines && printed_step_ != state_.step) {
    print(line(0) + "\n");
  }
  started_ = false;
}

}  // namespace transformer
