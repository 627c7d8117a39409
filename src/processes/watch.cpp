#include "processes/watch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

#include "transformer/core/error.h"

namespace transformer {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds beat{1}, silence{15}, patience{2};  // between signs of life; without any: gone; for the first to fail by itself
constexpr char alive = 'a', failed = 'f', left = 'l', over = 'o';

// A message: a kind, and of `failed` its text: code, length, bytes.
bool send_all(int socket, const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = send(socket, at, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n, bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool receive_all(int socket, void* data, std::size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = recv(socket, at, bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n, bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

// Where the first process can be reached: all its addresses, and the way to itself.
std::vector<in_addr> addresses() {
  std::vector<in_addr> out;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next)
      if (i->ifa_addr != nullptr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_LOOPBACK) == 0)
        out.push_back(reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr);
    freeifaddrs(list);
  }
  out.push_back({htonl(INADDR_LOOPBACK)});
  return out;
}

struct Invitation {
  std::uint64_t word = 0;  // that the right process was reached
  std::uint16_t port = 0;
  std::uint16_t count = 0;
  std::array<in_addr, 32> at = {};
};

int connect_to(const in_addr& address, std::uint16_t port) {
  const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (s < 0) return -1;
  const sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = address, .sin_zero = {}};
  pollfd ready{s, POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof error;
  if ((connect(s, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 || errno == EINPROGRESS) && poll(&ready, 1, 3000) == 1 &&
      getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) {
    fcntl(s, F_SETFL, fcntl(s, F_GETFL) & ~O_NONBLOCK);
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) setsockopt(s, SOL_SOCKET, option, &limit, sizeof limit);
    return s;
  }
  close(s);
  return -1;
}

struct Hello {
  std::uint64_t word = 0;
  std::int32_t rank = 0;
};

// Of a loop that turns several times a second: how long it has not, as its process was suspended (Ctrl-Z, Slurm). It could hear nobody
// then.
Clock::duration stood_still(Clock::time_point& turned) {
  const auto now = Clock::now(), before = std::exchange(turned, now);
  return now - before > beat ? now - before : Clock::duration::zero();
}

}  // namespace

Watch::Watch(Communicator& processes) : rank_(processes.rank()), size_(processes.size()), speech_(fdopen(dup(STDERR_FILENO), "w")) {
  if (speech_ == nullptr) speech_ = stderr;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  hosts_ = processes.all_gather(std::string(host));
  Invitation invitation;
  int listener = -1;
  if (rank_ == 0) {
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in any{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_ANY)}, .sin_zero = {}};
    socklen_t size = sizeof any;
    if (listener < 0 || bind(listener, reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 || listen(listener, size_) != 0 ||
        getsockname(listener, reinterpret_cast<sockaddr*>(&any), &size) != 0)
      fail_with_errno("cannot listen for the other processes");
    const std::vector<in_addr> mine = addresses();
    invitation.word = std::uint64_t{std::random_device()()} << 32 | std::random_device()();
    invitation.port = ntohs(any.sin_port);
    invitation.count = static_cast<std::uint16_t>(std::min(mine.size(), invitation.at.size()));
    std::copy_n(mine.end() - invitation.count, invitation.count, invitation.at.begin());
  }
  processes.broadcast(&invitation, sizeof invitation, 0);
  if (rank_ == 0) {
    sockets_.assign(static_cast<std::size_t>(size_), -1);
    const auto until = Clock::now() + seconds(30);
    for (int missing = size_ - 1; missing > 0;) {
      pollfd ready{listener, POLLIN, 0};
      const auto wait = std::chrono::duration_cast<milliseconds>(until - Clock::now()).count();
      if (wait <= 0 || poll(&ready, 1, static_cast<int>(wait)) != 1)
        transformer::fail("processes", "{} of {} processes did not connect to rank 0 on {} within 30 s: is a firewall between them?",
                          missing, size_ - 1, hosts_.front());
      const int s = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      const timeval limit{.tv_sec = 5, .tv_usec = 0};
      if (s >= 0)
        for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) setsockopt(s, SOL_SOCKET, option, &limit, sizeof limit);
      Hello hello;
      if (s < 0 || !receive_all(s, &hello, sizeof hello) || hello.word != invitation.word || hello.rank < 1 || hello.rank >= size_ ||
          sockets_[static_cast<std::size_t>(hello.rank)] >= 0) {
        if (s >= 0) close(s);
        continue;
      }
      send_all(s, &invitation.word, sizeof invitation.word);
      sockets_[static_cast<std::size_t>(hello.rank)] = s;
      --missing;
    }
    close(listener);
    thread_ = std::thread([this] { serve(); });
  } else {
    int found = -1;
    for (std::uint16_t i = 0; i < invitation.count && found < 0; ++i) {
      const int s = connect_to(invitation.at[i], invitation.port);
      if (s < 0) continue;
      const Hello hello{invitation.word, rank_};
      std::uint64_t answer = 0;
      if (send_all(s, &hello, sizeof hello) && receive_all(s, &answer, sizeof answer) && answer == invitation.word) found = s;
      else close(s);
    }
    if (found < 0)
      transformer::fail("processes", "rank {} on {} cannot reach rank 0 on {}: none of its addresses answers (port {})", rank_,
                        hosts_[static_cast<std::size_t>(rank_)], hosts_.front(), invitation.port);
    sockets_ = {found};
    thread_ = std::thread([this] { follow(); });
  }
}

Watch::~Watch() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  for (const int s : sockets_)
    if (s >= 0) close(s);
}

void Watch::fail_with_errno(const char* what) { transformer::fail("processes", "{}: {}", what, std::strerror(errno)); }

std::string Watch::called(int rank) const {
  return fmt::format("rank {} of {}, on {}", rank, size_, hosts_[static_cast<std::size_t>(rank)]);
}

// Says it once, tells all others, and is gone: what they wait for will not come.
void Watch::end_all(const std::string& message, int code) {
  speaking_.lock();  // for ever
  std::fflush(stdout);
  fmt::print(speech_, "{}\n", message);
  std::fflush(speech_);
  if (rank_ == 0)
    for (const int s : sockets_)
      if (s >= 0) send_all(s, &over, 1);
  std::_Exit(code);
}

void Watch::fail(const std::string& reason, int code) {
  failing_ = true;
  if (rank_ == 0) end_all(reason, code);
  const std::lock_guard lock(speaking_);
  const auto length = static_cast<std::uint32_t>(reason.size());
  const auto exit_code = static_cast<std::uint32_t>(code);
  const bool told = send_all(sockets_.front(), &failed, 1) && send_all(sockets_.front(), &exit_code, sizeof exit_code) &&
      send_all(sockets_.front(), &length, sizeof length) && send_all(sockets_.front(), reason.data(), reason.size());
  // Its thread hears that all is over once the first process has said why; a launcher that sees this one end might kill that before. Who
  // cannot be told may just have said it for the same reason.
  std::this_thread::sleep_for(told ? patience * 3 : beat);
  fmt::print(speech_, "transformer: {}: {}\n", called(rank_), reason);
  std::fflush(speech_);
  std::_Exit(code);
}

void Watch::leave() {
  leaving_ = true;
  const std::lock_guard lock(speaking_);
  if (rank_ != 0) send_all(sockets_.front(), &left, 1);
}

void Watch::serve() {
  std::vector<Clock::time_point> heard(sockets_.size(), Clock::now());
  std::vector<bool> gone(sockets_.size(), false);
  gone.front() = true;
  auto said = Clock::now(), turned = said;
  std::string reason;  // of the rank that failed first
  int code = 1;
  bool vanished = false;  // it did not say why itself
  Clock::time_point since;
  const auto fault = [&](int rank, const std::string& why, int with, bool gone_away) {
    if (!reason.empty()) return;
    vanished = gone_away;
    reason = fmt::format("transformer: {}: {}", called(rank), why), code = with, since = Clock::now();
  };
  while (!stop_) {
    std::vector<pollfd> ready;
    for (std::size_t r = 0; r < sockets_.size(); ++r) ready.push_back({gone[r] ? -1 : sockets_[r], POLLIN, 0});
    poll(ready.data(), ready.size(), 100);
    for (const auto still = stood_still(turned); Clock::time_point & at : heard) at += still;
    const auto now = Clock::now();
    for (std::size_t r = 1; r < sockets_.size(); ++r) {
      if (gone[r]) continue;
      const int rank = static_cast<int>(r);
      if (ready[r].revents != 0) {
        char kind = 0;
        std::uint32_t exit_code = 1, length = 0;
        if (!receive_all(sockets_[r], &kind, 1)) {
          gone[r] = true;
          if (!leaving_) fault(rank, "it has ended or was killed: its connection closed", 1, true);
        } else if (kind == left) {
          gone[r] = true;
        } else if (kind == failed) {
          gone[r] = true;
          std::string why;
          if (receive_all(sockets_[r], &exit_code, sizeof exit_code) && receive_all(sockets_[r], &length, sizeof length) &&
              length < (1U << 20)) {
            why.resize(length);
            if (!receive_all(sockets_[r], why.data(), why.size())) why.clear();
          }
          fault(rank, why, static_cast<int>(exit_code), false);
        }
        heard[r] = now;
      } else if (now - heard[r] > silence) {
        gone[r] = true;
        fault(rank, fmt::format("no sign of life for {} s: the machine or the network is gone", silence.count()), 1, true);
      }
    }
    // The first process may be about to fail for the same reason: then it says so itself. Of one that is gone it knows at once, before a
    // launcher that has seen it too ends all.
    if (!reason.empty() && (vanished || now - since > patience) && !failing_) end_all(reason, code);
    if (now - said > beat) {
      said = now;
      for (std::size_t r = 1; r < sockets_.size(); ++r)
        if (!gone[r]) send_all(sockets_[r], &alive, 1);
    }
  }
}

void Watch::follow() {
  auto heard = Clock::now(), said = heard, turned = heard;
  while (!stop_) {
    pollfd ready{sockets_.front(), POLLIN, 0};
    const int n = poll(&ready, 1, 100);
    heard += stood_still(turned);
    const auto now = Clock::now();
    if (n == 1) {
      char kind = over;
      const bool there = receive_all(sockets_.front(), &kind, 1);
      if (!there && (leaving_ || failing_)) return;  // who fails says so
      if (!there) end_all(fmt::format("transformer: {}: it has ended or was killed: its connection closed", called(0)), 1);
      if (kind == over) std::_Exit(1);  // the first has said why
      heard = now;
    } else if (now - heard > silence && !leaving_) {
      end_all(fmt::format("transformer: {}: no sign of life for {} s: the machine or the network is gone", called(0), silence.count()), 1);
    }
    if (now - said > beat && !leaving_) {
      said = now;
      const std::unique_lock lock(speaking_, std::try_to_lock);
      if (lock.owns_lock()) send_all(sockets_.front(), &alive, 1);
    }
  }
}

}  // namespace transformer
