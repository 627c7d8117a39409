#include "io/shared/line_stream.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "transformer/core/error.h"

namespace transformer {
namespace {

constexpr std::size_t block = std::size_t{1} << 16;

}  // namespace

LineStream::LineStream(int descriptor, std::size_t longest) : descriptor_(descriptor), longest_(std::max<std::size_t>(1, longest)) {}

bool LineStream::fill() {
  buffer_.erase(0, begin_);
  searched_ -= begin_;
  begin_ = 0;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + block);
  ssize_t bytes = 0;
  do bytes = read(descriptor_, buffer_.data() + before, block);
  while (bytes < 0 && errno == EINTR);
  const int error = errno;
  buffer_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(0, bytes)));
  if (bytes < 0) fail("standard input", "cannot read: {}", std::generic_category().message(error));
  ended_ = bytes == 0;
  if (number_ == 0 && before == 0 && buffer_.starts_with("\x1F\x8B"))
    fail("standard input", "the data are compressed with gzip: pass them through zcat, or name the file");
  return !ended_;
}

bool LineStream::ready(int milliseconds) {
  while (!ended_) {
    if (const std::size_t end = buffer_.find('\n', searched_); end != std::string::npos) return searched_ = end, true;
    searched_ = buffer_.size();
    if (searched_ - begin_ > longest_) return true;  // next() will begin to cut
    pollfd file{.fd = descriptor_, .events = POLLIN, .revents = 0};
    const int found = poll(&file, 1, milliseconds);
    if (found < 0 && errno != EINTR) return true;  // next() will say what is wrong
    if (found == 0) return false;
    if (found > 0) fill();
  }
  return true;
}

bool LineStream::next(std::string& line) {
  line.clear();
  bool cut = false;
  for (;;) {
    const std::size_t end = buffer_.find('\n', searched_);
    const std::size_t stop = end == std::string::npos ? buffer_.size() : end, room = longest_ - line.size();
    cut |= stop - begin_ > room;
    line.append(buffer_, begin_, std::min(stop - begin_, room));
    const bool found = end != std::string::npos, any = stop > begin_ || !line.empty();
    begin_ = searched_ = found ? end + 1 : stop;
    if (found) break;
    if (!fill()) {
      if (!any) return false;
      break;
    }
  }
  cut_ += cut ? 1 : 0;
  if (number_++ == 0 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

}  // namespace transformer
